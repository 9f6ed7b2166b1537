"""The commits of a member: their times, and their offsets.

A member commits what is new after each poll, and within a poll's work each `auto_commit_interval_ms`; before partitions
are given up it commits all that is done. The pool is told before each commit how many records it covers, so that it
knows which come again if this process dies (`links/member_counts`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actors.client import TopicPartition
from actors.client.errors import CommitFailedError, RebalanceInProgressError, RetriableError
from actors.client.records import OffsetAndMetadata
from actors.links.member_counts import Committing
from actors.members.log_fields import about_member
from actors.members.pools.handling.progress import Progress

log = logging.getLogger(__name__)

# The whole group waits for a member that gives partitions up. It must not wait for a commit that cannot succeed, such
# as that of a deleted topic.
_REVOKE_COMMIT_MS = 10_000
# So long a member that ends goes on with a rebalance that keeps it from its last commit.
REBALANCE_SECONDS = 10.0
_POLL_MS = 100
# A member that ends waits for its last commit, but not for brokers that have been away for some time.
_COMMIT_MS = 2_000
_LAST_COMMIT_TRIES = 10
_OUTAGE_MS = 1_000
_AWAY_MS = 100


class Commits:
    """Commits what `progress` says is done. `heard` is called with the offsets that have been committed."""

    def __init__(
        self,
        group_id: str,
        consumer: Any,
        progress: Progress,
        monotonic: Callable[[], float],
        interval_s: float,
        heard: Callable[[Mapping[TopicPartition, int]], None],
        rebalance_s: float = REBALANCE_SECONDS,
    ) -> None:
        self._group_id = group_id
        self._consumer = consumer
        self._progress = progress
        self._monotonic = monotonic
        self._interval_s = interval_s
        self._due_s = monotonic() + interval_s
        self._committed: dict[TopicPartition, int] = {}
        self._confirmed: dict[TopicPartition, int] = {}
        self._heard = heard
        self._rebalance_s = rebalance_s
        self._tell: Callable[[Committing], None] = _to_nobody

    def report_to(self, tell: Callable[[Committing], None]) -> None:
        """Have this tell the pool of what is about to be committed. It returns when that was sent."""
        self._tell = tell

    def _say(self) -> None:
        if self._progress.commits():
            self._tell(Committing(self._progress.committing))

    def if_due(self) -> None:
        """Commit what is new, without waiting, if the last commit began an interval ago. In the member's thread."""
        if self._monotonic() >= self._due_s:
            self.later()

    def due_in(self) -> float:
        """The seconds until `if_due` commits."""
        return max(0.0, self._due_s - self._monotonic())

    def later(self) -> None:
        """Commit what is new, without waiting."""
        self._due_s = self._monotonic() + self._interval_s
        done = self._progress.committable()
        due = {p: OffsetAndMetadata(o) for p, o in done.items() if self._committed.get(p) != o}
        if not due:
            return
        self._committed.update({p: o.offset for p, o in due.items()})
        self._say()
        try:
            self._consumer.commit_async(due, self._on_commit)
        except (CommitFailedError, RebalanceInProgressError) as error:
            self._on_commit(due, error)

    def _on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        """If a commit failed, make it due again for the partitions that are still held."""
        if error is None:
            self._confirm({partition: committed.offset for partition, committed in offsets.items()})
        else:
            log.info("group %s: %s", self._group_id, error, extra=about_member(self._consumer.group_metadata()))
            for partition, committed in offsets.items():
                if self._committed.get(partition) == committed.offset:
                    del self._committed[partition]

    def at_once(self) -> None:
        """Commit what is new, with what was produced from it, and wait for that; if it fails, it is due again."""
        self._progress.settle(_REVOKE_COMMIT_MS / 1000)
        due = {p: offset for p, offset in self._progress.committable().items() if self._confirmed.get(p) != offset}
        try:
            self._commit(due, _REVOKE_COMMIT_MS)
        except RebalanceInProgressError as error:
            self._comes_again(error)

    def now(self, giving_up: Sequence[TopicPartition]) -> None:
        """Commit all that is done, before these partitions are given up."""
        self._progress.settle(_REVOKE_COMMIT_MS / 1000)
        try:
            self._commit(self._progress.committable(), _COMMIT_MS, tries=_REVOKE_COMMIT_MS // _COMMIT_MS)
        except RebalanceInProgressError as error:
            self._comes_again(error)
        finally:
            self.forget(giving_up)

    def last(self) -> None:
        """Commit all that is done, before the member ends.

        A rebalance may keep it from that for a moment. Polls go on with it then; what they give is left to others.
        """
        self._progress.settle(_REVOKE_COMMIT_MS / 1000)
        until = self._monotonic() + self._rebalance_s
        try:
            while not self._committed_last(until):
                self._consumer.pause(*self._consumer.assignment())
                self._consumer.poll(timeout_ms=_POLL_MS)
        finally:
            self.forget(list(self._progress.committable()))

    def _committed_last(self, until: float) -> bool:
        try:
            self._commit(self._progress.committable(), _COMMIT_MS, tries=_LAST_COMMIT_TRIES)
        except RebalanceInProgressError as error:
            if self._monotonic() < until:
                return False
            self._comes_again(error)
        return True

    def _commit(self, done: dict[TopicPartition, int], timeout_ms: int, *, tries: int = 1) -> None:
        """Commit, and try again unless no broker answers."""
        if not done:
            return
        if self._away():
            timeout_ms, tries = _AWAY_MS, 1
        self._say()
        try:
            self._consumer.commit({p: OffsetAndMetadata(o) for p, o in done.items()}, timeout_ms=timeout_ms)
        except CommitFailedError as error:
            self._comes_again(error)
        except RetriableError as error:
            if tries > 1 and not self._away():
                self._commit(done, timeout_ms, tries=tries - 1)
            else:
                self._comes_again(error)
        else:
            self._committed.update(done)
            self._confirm(done)

    def _confirm(self, done: Mapping[TopicPartition, int]) -> None:
        self._confirmed.update(done)
        self._heard(done)

    def _away(self) -> bool:
        """True if no broker has answered for some time."""
        return self._consumer.hindrance(grace_ms=_OUTAGE_MS) is not None

    def _comes_again(self, error: Exception) -> None:
        log.warning(
            "group %s: %s; what was handled since the last commit comes again",
            self._group_id,
            error,
            extra=about_member(self._consumer.group_metadata()),
        )
        self._committed.clear()  # due again, for what we keep

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget partitions that have or get other owners: nothing may be committed for them any more."""
        self._progress.forget(partitions)
        for partition in partitions:
            self._committed.pop(partition, None)
            self._confirmed.pop(partition, None)


def _to_nobody(_: Committing) -> None:
    """Nobody has started this member who would want to know."""
