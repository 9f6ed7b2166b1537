"""Which partition of an internal topic is paired with which partition of a user's topic. Pure.

The first is a *state partition*: its records are the state of what lives beside the log of the second, the *data
partition* (`actors.broker.beside`). A data partition has at most one state partition in each internal topic.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    """All pairs of a cluster. False if there are none."""

    _states: dict[Data, dict[str, int]] = field(default_factory=dict)
    _data: dict[State, Data] = field(default_factory=dict)

    def add(self, pair: Pair) -> None:
        """Pair two partitions."""
        data = pair.topic_id, pair.index
        self._states.setdefault(data, {})[pair.state_topic] = pair.state_index
        self._data[pair.state_topic, pair.state_index] = data

    def forget(self, topic: str, topic_id: bytes) -> None:
        """A topic is deleted, and with it the pairs of its partitions."""
        for pair in [pair for pair in self if topic_id == pair.topic_id or topic == pair.state_topic]:
            states = self._states[pair.topic_id, pair.index]
            del states[pair.state_topic]
            del self._data[pair.state_topic, pair.state_index]
            if not states:
                del self._states[pair.topic_id, pair.index]

    def states_of(self, topic_id: bytes, index: int) -> tuple[State, ...]:
        """The state partitions of a data partition."""
        return tuple(self._states.get((topic_id, index), {}).items())

    def data_of(self, topic: str, index: int) -> Data | None:
        """The data partition of a state partition; None if it is none."""
        return self._data.get((topic, index))

    def topics(self) -> frozenset[str]:
        """The internal topics whose partitions are paired."""
        return frozenset(topic for topic, _ in self._data)

    def __iter__(self) -> Iterator[Pair]:
        for (topic_id, index), states in self._states.items():
            for state_topic, state_index in states.items():
                yield Pair(topic_id, index, state_topic, state_index)

    def __bool__(self) -> bool:
        return bool(self._data)

    def copy(self) -> Pairs:
        """The same, of which a change does not reach this one."""
        return Pairs({data: dict(states) for data, states in self._states.items()}, dict(self._data))
