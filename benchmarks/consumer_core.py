"""The longest that a large consumer group holds up its shard: CPU time of the longest turn, sockets left out.

Five thousand members of one group and fifty topics of a thousand partitions, on the core that a shard's process has,
and a log that takes everything. Another group's heartbeat waits for such a turn at most. The members join, one each
millisecond; all beat and say what they own until each has its share; one more joins.
"""

from __future__ import annotations

import time
from typing import Any

from actors.coordinator.consumer.messages import ConsumerGroupHeartbeatRequest
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.topics import Topic
from actors.coordinator.consumer.values import Partitions
from actors.coordinator.group_types import GroupShard
from actors.runtime.process import settle_memory
from benchmarks.figures import Figures, Pace, Spec
from benchmarks.model import Better, Budget
from tests.support.consumer_groups import GROUP, ConsumerDriver

MEMBERS, TOPICS, PARTITIONS = 5_000, 50, 1_000
REBALANCE_TIMEOUT_MS = 600_000
ASSIGNORS = ("uniform", "range")
STEPS = ("5,000 join", "all take and give up until each has its share", "one more joins")
LIMIT_MS = 50
SPECS = [
    Spec(f"{step}, {assignor}: longest turn", "ms", Better.LESS, Budget(limit=LIMIT_MS))
    for assignor in ASSIGNORS
    for step in STEPS
]


class _Timed:
    """A shard whose every call is timed."""

    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard
        self.longest_s = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._shard, name)
        if not callable(found):
            return found

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            try:
                return found(*args, **kwargs)
            finally:
                self.longest_s = max(self.longest_s, time.process_time() - began)

        return timed


class _Group(ConsumerDriver):
    """One group, and what its members know."""

    def __init__(self, assignor: str, topics: int, partitions: int) -> None:
        made = [Topic(number.to_bytes(16, "big"), f"topic-{number}", partitions) for number in range(1, topics + 1)]
        super().__init__(*made, settings=ConsumerSettings(assignors=(assignor,), max_size=10 * MEMBERS))
        self._names = tuple(topic.name for topic in made)
        self._epochs: dict[str, int] = {}
        self._owned: dict[str, Partitions] = {}
        self._asked: dict[int, str] = {}

    def _new_shard(self) -> GroupShard:
        self.timed = _Timed(super()._new_shard())
        return self.timed  # type: ignore[return-value]

    def join_as(self, member_id: str) -> None:
        """This member joins; its answer comes when it comes."""
        request = ConsumerGroupHeartbeatRequest(
            GROUP,
            member_id,
            0,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=self._names,
            topic_partitions={},
        )
        self._asked[self.ask(request)] = member_id

    def all_beat(self) -> None:
        """Every member says what it owns."""
        for member_id, epoch in list(self._epochs.items()):
            owned = self._owned.get(member_id, {})
            self._asked[self.ask(ConsumerGroupHeartbeatRequest(GROUP, member_id, epoch, topic_partitions=owned))] = (
                member_id
            )

    def hear(self) -> None:
        """Until every member has its answer."""
        while self._asked:
            self.advance(10)
            for token in [token for token in self._asked if token in self.answers]:
                member_id, answer = self._asked.pop(token), self.answers.pop(token)
                if answer.error_code:
                    raise RuntimeError(f"{member_id} was answered {answer.error_code}: {answer.error_message}")
                self._epochs[member_id] = answer.member_epoch
                if answer.assignment is not None:
                    self._owned[member_id] = answer.assignment

    def until_stable(self) -> None:
        """Until all have their shares. Raises RuntimeError if that takes more than thirty rounds."""
        for _ in range(30):
            self.advance(1_100)
            self.all_beat()
            self.hear()
            if self.consumer().state.persisted_state == "Stable":
                return
        raise RuntimeError(f"the group is {self.consumer().state.persisted_state}")

    def longest_ms(self) -> float:
        """Of the turns since this was asked last."""
        longest, self.timed.longest_s = self.timed.longest_s * 1000, 0.0
        return longest


def run(figures: Figures, pace: Pace) -> None:
    """Each assignor in turn."""
    settle_memory()  # as a shard's process does: with Python's defaults a collection of garbage takes 0.1 s
    members, topics = pace.fewer(MEMBERS, 200), pace.fewer(TOPICS, 2)
    for _ in range(pace.turns):
        for assignor in ASSIGNORS:
            group = _Group(assignor, topics, PARTITIONS)
            for step, longest_ms in zip(STEPS, _steps(group, members), strict=True):
                figures.only_ours(f"{step}, {assignor}: longest turn", longest_ms)


def _steps(group: _Group, members: int) -> list[float]:
    group.longest_ms()
    for number in range(members):
        group.join_as(f"member-{number}")
        group.advance(1)
    group.hear()
    longest = [group.longest_ms()]
    group.until_stable()
    longest.append(group.longest_ms())
    group.join_as("one more")
    group.hear()
    group.until_stable()
    return [*longest, group.longest_ms()]
