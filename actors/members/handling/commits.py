"""When a member commits which offsets: after each poll what is new, and before partitions are given up everything."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from actors.client import TopicPartition
from actors.client.errors import CommitFailedError, RebalanceInProgressError, RetriableError
from actors.client.records import OffsetAndMetadata
from actors.members.handling.progress import Progress
from actors.members.whom import about_member

log = logging.getLogger(__name__)

# The whole group waits for a member that gives partitions up. It must not wait for a commit that cannot succeed, such
# as that of a deleted topic.
_REVOKE_COMMIT_MS = 10_000


class Commits:
    """Commits what `progress` says is done."""

    def __init__(self, group_id: str, consumer: Any, progress: Progress) -> None:
        self._group_id = group_id
        self._consumer = consumer
        self._progress = progress
        self._committed: dict[TopicPartition, int] = {}

    def later(self) -> None:
        """Commit what is new, without waiting."""
        done = self._progress.committable()
        due = {p: OffsetAndMetadata(o) for p, o in done.items() if self._committed.get(p) != o}
        if not due:
            return
        self._committed.update({p: o.offset for p, o in due.items()})
        try:
            self._consumer.commit_async(due, self._on_commit)
        except (CommitFailedError, RebalanceInProgressError) as error:
            self._on_commit(due, error)

    def _on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        """If a commit failed, make it due again for the partitions that are still held."""
        if error is not None:
            log.info("group %s: %s", self._group_id, error, extra=about_member(self._consumer.group_metadata()))
            for partition, committed in offsets.items():
                if self._committed.get(partition) == committed.offset:
                    del self._committed[partition]

    def now(self, giving_up: Sequence[TopicPartition] | None = None) -> None:
        """Commit all that is done, before these partitions, or all, are given up."""
        self._progress.settle(_REVOKE_COMMIT_MS / 1000)
        done = self._progress.committable()
        try:
            self._commit(done, None if giving_up is None else _REVOKE_COMMIT_MS)
        finally:
            self.forget(list(done) if giving_up is None else giving_up)

    def _commit(self, done: dict[TopicPartition, int], timeout_ms: int | None) -> None:
        if not done:
            return
        try:
            self._consumer.commit({p: OffsetAndMetadata(o) for p, o in done.items()}, timeout_ms=timeout_ms)
        except (CommitFailedError, RebalanceInProgressError, RetriableError) as error:
            log.warning(
                "group %s: %s; what was handled since the last commit comes again",
                self._group_id,
                error,
                extra=about_member(self._consumer.group_metadata()),
            )
            self._committed.clear()  # due again, for what we keep
        else:
            self._committed.update(done)

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget partitions that have or get other owners: nothing may be committed for them any more."""
        self._progress.forget(partitions)
        for partition in partitions:
            self._committed.pop(partition, None)
