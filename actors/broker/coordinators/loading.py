"""Sending a partition's log to the shard that is to serve it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from actors.broker.context import BrokerContext
from actors.broker.coordinators.link import ShardLink
from actors.broker.coordinators.topics import send_deleted
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.links.relay import Kind
from actors.records.errors import LogError

log = logging.getLogger(__name__)

_WINDOW = 4  # pieces of log on their way to a shard at once
_LOAD_ERRORS = (LogError, OSError, RuntimeError)


@dataclass(slots=True)
class _Load:
    """A log that is being sent: from `offset` to `end`, the log end when the load began."""

    offset: int
    end: int
    pieces_wanted: int = _WINDOW
    is_reading: bool = False


class Loading:
    """The logs of a kind that are being sent. `failed` is called for a link whose log cannot be read."""

    def __init__(self, context: BrokerContext, kind: CoordinatorKind, failed: Callable[[ShardLink], None]) -> None:
        self._context = context
        self._kind = kind
        self._failed = failed
        self._piece_bytes = context.config.integer("offsets.load.buffer.size")
        self._loads: dict[ShardLink, _Load] = {}
        self._closed = False

    @property
    def under_way(self) -> bool:
        """True while a log is being sent."""
        return bool(self._loads)

    def is_sending(self, link: ShardLink) -> bool:
        """True if a shard has not been sent all of its log yet."""
        return link in self._loads

    def begin(self, link: ShardLink, gone: Collection[str] = ()) -> None:
        """Tell a shard which partition it has, and send the partition's log.

        `gone` are topics that were deleted since the partition was served: there may be new ones of the same names.
        """
        try:
            partition_log = self._context.log(self._kind.topic, link.partition)
            load = _Load(partition_log.log_start_offset, partition_log.log_end_offset)
            version = link.protocol.version or 0
            assignment = self._kind.assignment(self._context.config, self._context.metadata, version)
            link.protocol.send(Kind.HOST, payload=self._kind.name.encode())
            link.protocol.send(Kind.BECOME, link.partition, link.epoch, assignment)
            if gone:
                send_deleted(link, gone)
            self._loads[link] = load
            self._read_piece(link, load)
        except _LOAD_ERRORS:
            self._fail(link)

    def send_more(self, link: ShardLink, partition: int, _number: int, _payload: bytes) -> None:
        """The shard has taken a piece and wants another."""
        load = self._loads.get(link)
        if partition != link.partition or load is None:
            return
        load.pieces_wanted += 1
        if load.is_reading:
            return
        try:
            self._read_piece(link, load)
        except _LOAD_ERRORS:
            self._fail(link)

    def stop(self, link: ShardLink) -> None:
        """Send no more to a shard that has given its partition up."""
        self._loads.pop(link, None)

    def close(self) -> None:
        """Send no more to any shard."""
        self._closed = True

    def _read_piece(self, link: ShardLink, load: _Load) -> None:
        """Read the next piece in another thread, one piece at a time: a slow disk may need long for megabytes."""
        partition_log = self._context.log(self._kind.topic, link.partition)
        if load.offset >= load.end:
            del self._loads[link]
            link.protocol.send(Kind.LOADED, link.partition, load.end)
            link.protocol.send(Kind.HIGH_WATERMARK, 0, partition_log.high_watermark)
            return
        extent = partition_log.locate(load.offset, self._piece_bytes, load.end)
        if extent is None:
            raise RuntimeError(f"{partition_log.directory}: nothing at {load.offset} of {load.end}")
        reading = self._context.loop.run_in_executor(None, extent.read)
        load.is_reading = True
        reading.add_done_callback(partial(self._piece_read, link, load, extent.next_offset))

    def _piece_read(self, link: ShardLink, load: _Load, next_offset: int, read: asyncio.Future[bytes]) -> None:
        if self._closed or self._loads.get(link) is not load:
            return  # for a partition the link has given up meanwhile
        load.is_reading = False
        try:
            link.protocol.send(Kind.LOAD, link.partition, 0, read.result())
            load.offset = next_offset
            load.pieces_wanted -= 1
            if load.pieces_wanted > 0:
                self._read_piece(link, load)
        except _LOAD_ERRORS:
            self._fail(link)

    def _fail(self, link: ShardLink) -> None:
        log.exception("%s cannot be loaded", link.where, extra=link.fields())
        self.stop(link)
        self._failed(link)
