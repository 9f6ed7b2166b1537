"""The controller's log of metadata records: msgpack with length and CRC, on disk before anyone hears of them."""

from __future__ import annotations

import logging
import os
import struct
from pathlib import Path
from typing import Any

import msgpack
from crc32c import crc32c

from actors import CoterieError
from actors.log.files import REAL_WRITER, FileWriter
from actors.log.folder_lock import LOCK_NAME, FolderInUseError, FolderLock
from placement.metadata import ClusterMetadata

log = logging.getLogger(__name__)

_HEAD = struct.Struct(">II")
FORMAT_VERSION = 1


class MetadataLogError(CoterieError):
    """The log cannot be used; the text says which file and why."""


class MetadataLog:
    """An append-only file, which is rewritten as a snapshot after `snapshot_every` records.

    Opening replays it and cuts off a torn end. It raises MetadataLogError if a record before the end is damaged,
    because brokers know of the records after it; if the format is newer than this version's; and if another process
    holds the log's lock for longer than `lock_timeout_s`.
    """

    def __init__(
        self,
        path: Path,
        writer: FileWriter = REAL_WRITER,
        lock_timeout_s: float = 10.0,
        snapshot_every: int = 10_000,
    ) -> None:
        self.path = path
        self._writer = writer
        self._snapshot_every = snapshot_every
        self.metadata = ClusterMetadata()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(path.parent, lock_timeout_s)
        try:
            whole = self._replay()
        except BaseException:
            self._lock.release()
            raise
        self._file = open(path, "r+b" if path.exists() else "w+b", buffering=0)  # noqa: SIM115 - lives as long as we do
        self._file.truncate(whole)
        self._writer.fsync_directory(path.parent)
        self._size = whole
        self._named = True  # the name is on disk: after a loss of power it is still this file's
        if whole == 0:
            self._write(["format", FORMAT_VERSION])
        elif self._count > self._snapshot_every:
            self._shorten()

    def _replay(self) -> int:
        self._count = 0
        data = self.path.read_bytes() if self.path.exists() else b""
        position = 0
        while (body := _body(data, position)) is not None:
            self._apply(msgpack.unpackb(body, strict_map_key=False))
            position += _HEAD.size + len(body)
            self._count += 1
        for later in range(position + 1, len(data)):
            if _body(data, later) is not None:
                raise MetadataLogError(
                    f"{self.path} is damaged at byte {position}: whole records follow from byte {later} on, so this is "
                    "not a torn end, and nothing was cut off. Restore a copy of the file, or give up all changes from "
                    f"byte {position} on: truncate -s {position} {self.path}"
                )
        return position

    def _apply(self, record: list[Any]) -> None:
        if record[0] == "format":
            if record[1] > FORMAT_VERSION:
                raise MetadataLogError(
                    f"{self.path} has format {record[1]}, but this version reads formats up to {FORMAT_VERSION}: start "
                    "the version that wrote it, or a newer one"
                )
        elif record[0] == "image":
            self.metadata = ClusterMetadata.from_wire(record[1])
        elif record[0] == "records":
            for one in record[1]:
                self.metadata.apply(one)
        else:
            self.metadata.apply(record)

    def append(self, records: list[list[Any]]) -> None:
        """Make records durable, then apply them. If it raises OSError, nothing was applied.

        They are written in one frame: after a loss of power either all of them are there or none.
        """
        if records:
            record = records[0] if len(records) == 1 else ["records", records]
            self._write(record)
            self._apply(record)
            if self._count % self._snapshot_every == 0:  # if it fails, the next try comes after as many records
                self._shorten()

    def _write(self, record: list[Any]) -> None:
        data = _frame(record)
        if not self._named:
            self._writer.fsync_directory(self.path.parent)
            self._named = True
        try:
            self._file.truncate(self._size)  # a write that failed may have left something
            self._writer.write(self._file.fileno(), [data], self._size)
            self._writer.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(self._size)
            raise
        self._size += len(data)
        self._count += 1

    def _shorten(self) -> None:
        try:
            self._rewrite()
        except OSError as error:
            log.warning("%s cannot be shortened to a snapshot: %s", self.path, error)

    def _rewrite(self) -> None:
        """Replace the file with a snapshot. If it raises OSError, the old file stays in use."""
        data = _frame(["format", FORMAT_VERSION]) + _frame(["image", self.metadata.to_wire()])
        new = self.path.with_suffix(".new")
        file = open(new, "w+b", buffering=0)  # noqa: SIM115 - lives as long as we do
        try:
            self._writer.write(file.fileno(), [data], 0)
            self._writer.fsync(file.fileno())
            os.replace(new, self.path)
        except OSError:
            file.close()
            raise
        old, self._file = self._file, file
        self._size, self._count, self._named = len(data), 2, False
        old.close()

    def close(self) -> None:
        """Close the file and release the lock. May be called twice."""
        self._file.close()
        self._lock.release()


def _locked(folder: Path, timeout_s: float) -> FolderLock:
    try:
        return FolderLock(folder, timeout_s)
    except FolderInUseError:
        raise MetadataLogError(
            f"data directory {folder.parent} is in use: another controller holds {folder / LOCK_NAME}; "
            "stop that cluster, or choose another --data-dir"
        ) from None


def _frame(record: list[Any]) -> bytes:
    body: bytes = msgpack.packb(record)
    return _HEAD.pack(len(body), crc32c(body)) + body


def _body(data: bytes, position: int) -> bytes | None:
    """The body of the frame at a position; None if no whole frame is there. A run of zeros is not a frame."""
    if len(data) - position <= _HEAD.size:
        return None
    length, crc = _HEAD.unpack_from(data, position)
    if not 0 < length <= len(data) - position - _HEAD.size:
        return None
    body = data[position + _HEAD.size : position + _HEAD.size + length]
    return body if crc32c(body) == crc else None
