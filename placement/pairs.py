"""The pairs of a partition of an internal topic and one of a user's topic. Pure.

The first is a *state partition*: its records are the state of what lives beside the log of the second, the *data
partition* (`actors.broker.beside`). A data partition has at most one state partition in each internal topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

Data: TypeAlias = tuple[bytes, int]
"""A topic's id and a partition of it."""
State: TypeAlias = tuple[str, int]
"""An internal topic and a partition of it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A data partition, by its topic's id, and its state partition."""

    topic_id: bytes
    index: int
    state_topic: str
    state_index: int


@dataclass(slots=True)
class Pairs:
    """All pairs of a cluster. False if there are none.

    A pair outlives the data partition's topic: the state partition holds what belonged to it, and its topic is no
    user's. It goes with the topic of the state partition.
    """

    _states: dict[Data, dict[str, int]] = field(default_factory=dict)
    _data: dict[str, dict[int, Data]] = field(default_factory=dict)
    """By internal topic and index of its partition."""

    def add(self, pair: Pair) -> None:
        """Pair two partitions."""
        data = pair.topic_id, pair.index
        self._states.setdefault(data, {})[pair.state_topic] = pair.state_index
        self._data.setdefault(pair.state_topic, {})[pair.state_index] = data

    def forget(self, state_topic: str) -> None:
        """A topic is deleted, and with it the pairs in which it holds the state."""
        for data in self._data.pop(state_topic, {}).values():
            states = self._states[data]
            del states[state_topic]
            if not states:
                del self._states[data]

    def states_of(self, topic_id: bytes, index: int) -> tuple[State, ...]:
        """The state partitions of a data partition."""
        return tuple(self._states.get((topic_id, index), {}).items())

    def data_of(self, topic: str, index: int) -> Data | None:
        """The data partition of a state partition; None if it is none. Its topic may be deleted."""
        return self._data.get(topic, {}).get(index)

    def data_in(self, state_topic: str) -> Collection[Data]:
        """All data partitions whose state is in this topic."""
        return self._data.get(state_topic, {}).values()

    def topics(self) -> frozenset[str]:
        """The internal topics whose partitions are paired."""
        return frozenset(self._data)

    def __iter__(self) -> Iterator[Pair]:
        for (topic_id, index), states in self._states.items():
            for state_topic, state_index in states.items():
                yield Pair(topic_id, index, state_topic, state_index)

    def __bool__(self) -> bool:
        return bool(self._data)

    def copy(self) -> Pairs:
        """The same, of which a change does not reach this one."""
        states = {data: dict(states) for data, states in self._states.items()}
        return Pairs(states, {topic: dict(data) for topic, data in self._data.items()})
