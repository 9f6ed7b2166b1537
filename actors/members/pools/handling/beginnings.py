"""The start of partitions without a committed offset: it is committed before their first record is handled."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import Any

from actors.client import TopicPartition
from actors.client.errors import CommitFailedError, KafkaTimeoutError, RebalanceInProgressError, RetriableError
from actors.client.records import OffsetAndMetadata
from actors.members.log_fields import about_member

log = logging.getLogger(__name__)

_BEGIN_MS = 5_000


class Beginnings:
    """With auto_offset_reset="latest", new partitions wait until their start is committed.

    Otherwise "latest" would be a later offset for the next owner, and the records in between would be lost.
    """

    def __init__(self, group_id: str, consumer: Any, *, at_end: bool) -> None:
        self._group_id = group_id
        self._consumer = consumer
        self._at_end = at_end
        self._unbegun: set[TopicPartition] = set()

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """New partitions are assigned. If they begin at their end, their records wait."""
        if self._at_end:
            self._consumer.pause(*partitions)
            self._unbegun.update(partitions)

    def begin(self) -> None:
        """Commit the start of new partitions without a committed offset, before their first record is handled."""
        self._unbegun &= self._consumer.assignment()
        if not self._unbegun:
            return
        try:
            found = self._consumer.committed_offsets(sorted(self._unbegun), timeout_ms=_BEGIN_MS)
            starts = self._positions([p for p, at in found.items() if at is None])
            if starts:
                self._consumer.commit(starts, timeout_ms=_BEGIN_MS)
        except (CommitFailedError, RebalanceInProgressError, RetriableError) as error:
            log.info(
                "group %s: where its partitions begin is not committed yet: %s",
                self._group_id,
                error,
                extra=about_member(self._consumer.group_metadata()),
            )
            return
        begun = [p for p, at in found.items() if at is not None or p in starts]
        self._consumer.resume(*begun)
        self._unbegun.difference_update(begun)

    def _positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions that are known by now. A partition without a leader must not hold up the others."""
        known = {}
        for partition in partitions:
            with contextlib.suppress(KafkaTimeoutError):
                known[partition] = OffsetAndMetadata(self._consumer.position(partition, timeout_ms=0))
        return known
