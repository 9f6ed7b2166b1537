"""One piece of work after the other, in the member's thread: what a poll gave is handled before the next poll.

If the group waits for a poll, or others may own the records, the rest is put back and polled once more.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from actors.client import TopicPartition
from actors.members.pools.handling.commits import Commits
from actors.members.pools.handling.delivery import Delivery, Outcome
from actors.members.pools.handling.doubts import Trial
from actors.members.pools.handling.in_hand import Declared
from actors.members.pools.handling.order import POLL_MS, Parts
from actors.members.pools.handling.progress import Progress
from actors.members.pools.handling.spec import MemberSpec
from actors.members.pools.handling.work import Work, pieces


class _Upcoming:
    """The records of a poll's partition that have not been taken yet; none if they are not handled one by one."""

    def __init__(self, partition: TopicPartition, records: Any) -> None:
        self.taken = 0
        self._partition = partition
        self._records = records if isinstance(records, list) else []

    def __call__(self) -> Iterator[tuple[TopicPartition, int]]:
        return ((self._partition, record.offset) for record in islice(self._records, self.taken, None))


class Serial:
    """The order of a member with concurrency 1 whose batches do not wait for more."""

    def __init__(
        self,
        spec: MemberSpec,
        consumer: Any,
        delivery: Delivery,
        progress: Progress,
        commits: Commits,
        declared: Declared,
        trial: Trial,
        stop: threading.Event,
    ) -> None:
        self._most = 1 if spec.batch_format == "record" else spec.max_batch_records
        self._consumer = consumer
        self._delivery = delivery
        self._progress = progress
        self._commits = commits
        self._declared = declared
        self._trial = trial
        self._stop = stop
        self._fresh = True

    def poll_ms(self) -> int:
        return POLL_MS

    def take(self, parts: Parts) -> None:
        self._fresh = True
        for number, (partition, records) in enumerate(parts):
            if self._stop.is_set():
                return
            left = self._handle(partition, records)
            if left is not None:
                self._consumer.seek(partition, left)
                for other, waiting in parts[number + 1 :]:
                    self._consumer.seek(other, next(pieces(other, waiting, 1)).first)
                return

    def _must_poll(self) -> bool:
        """True if the next record has to wait for a poll: the group waits for it, or others may own the records.

        The first record after a poll does not wait for a rebalance, so that a member gets on however many there are.
        """
        return self._consumer.session_lapsed() or (not self._fresh and self._consumer.rebalance_due())

    def _handle(self, partition: TopicPartition, records: Any) -> int | None:
        """Handle records. Returns the offset of the first one that has to wait for another poll, or None."""
        rest = pieces(partition, records, self._most)
        upcoming = _Upcoming(partition, records if self._most == 1 else ())
        taken_apart: deque[Work] = deque()
        while not self._stop.is_set():
            work = taken_apart.popleft() if taken_apart else next(rest, None)
            if work is None:
                return None
            if self._must_poll():
                return work.first
            doubted = self._trial.pieces(work)
            if doubted is not None and len(work) > 1:
                taken_apart.extendleft(reversed(doubted))
                continue
            outcome = self._deliver(work, upcoming) if doubted is None else self._deliver_alone(work, upcoming)
            if outcome is Outcome.LEFT:
                return work.first
            if outcome is Outcome.TAKE_APART:
                taken_apart.extendleft(reversed(work.taken_apart()))
            self._fresh = outcome is Outcome.TAKE_APART
        return None

    def _deliver(self, work: Work, upcoming: _Upcoming) -> Outcome:
        self._progress.begin(work)
        upcoming.taken += 1
        self._declared.begin(work, upcoming)
        try:
            outcome = self._delivery.deliver(work, self._stop, self._commits.if_due)
        finally:
            self._declared.end(work)
        self._drop_unless_done(work)
        self._commits.if_due()
        return outcome

    def _deliver_alone(self, work: Work, upcoming: _Upcoming) -> Outcome:
        self._progress.begin(work)
        upcoming.taken += 1
        outcome = self._trial.deliver(work, self._stop, self._commits.if_due)
        self._drop_unless_done(work)
        return outcome

    def _drop_unless_done(self, work: Work) -> None:
        if not work.handled:
            self._progress.drop(work)

    def gain(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing was kept of them."""

    def give_up(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing is in hand during a poll."""

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing is in hand during a poll."""

    def wind_down(self) -> None:
        """The member's own signal suffices."""

    def end(self) -> None:
        """Nothing is in hand."""
