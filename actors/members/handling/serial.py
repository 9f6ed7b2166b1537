"""One piece of work after the other, in the member's thread: what a poll gave is handled before the next poll.

If the group waits for a poll, or others may own the records, the rest is put back and polled once more.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from actors.client import TopicPartition
from actors.members.handling.commits import Commits
from actors.members.handling.delivery import Delivery, Outcome
from actors.members.handling.order import POLL_MS, Counts, Parts
from actors.members.handling.progress import Progress
from actors.members.handling.spec import MemberSpec
from actors.members.handling.work import Work, pieces


class Serial:
    """The order of a member with concurrency 1 whose batches do not wait for more."""

    def __init__(
        self,
        spec: MemberSpec,
        consumer: Any,
        delivery: Delivery,
        progress: Progress,
        commits: Commits,
        counts: Counts,
        stop: threading.Event,
    ) -> None:
        self._most = 1 if spec.batch_format == "record" else spec.max_batch_records
        self._consumer = consumer
        self._delivery = delivery
        self._progress = progress
        self._commits = commits
        self._counts = counts
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
        """Whether the next record has to wait for a poll: the group waits for it, or others may own the records.

        The first record after a poll does not wait for a rebalance, so that a member gets on however many there are.
        """
        return self._consumer.session_lapsed() or (not self._fresh and self._consumer.rebalance_due())

    def _handle(self, partition: TopicPartition, records: Any) -> int | None:
        """Handle records. Returns the offset of the first one that has to wait for another poll, or None."""
        rest = pieces(partition, records, self._most)
        taken_apart: deque[Work] = deque()
        while not self._stop.is_set():
            work = taken_apart.popleft() if taken_apart else next(rest, None)
            if work is None:
                return None
            if self._must_poll():
                return work.first
            outcome = self._deliver(work)
            if outcome is Outcome.LEFT:
                return work.first
            if outcome is Outcome.TAKE_APART:
                taken_apart.extend(work.taken_apart())
            self._fresh = outcome is Outcome.TAKE_APART
        return None

    def _deliver(self, work: Work) -> Outcome:
        self._progress.begin(work)
        outcome = self._delivery.deliver(work, self._stop, self._commits.if_due)
        if not work.handled:
            self._progress.drop(work)
        self._counts.add(work, outcome)
        self._commits.if_due()
        return outcome

    def give_up(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing is in hand during a poll."""

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing is in hand during a poll."""

    def wind_down(self) -> None:
        """The member's own signal suffices."""

    def end(self) -> None:
        """Nothing is in hand."""
