"""The controller's log of metadata records: msgpack with length and CRC, fsynced before anyone hears of it."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from pathlib import Path
from typing import Any

import msgpack
from crc32c import crc32c

from placement.metadata import ClusterMetadata

_HEAD = struct.Struct(">II")
_SNAPSHOT_EVERY = 10_000
_LOCK_POLL_SECONDS = 0.05
FORMAT_VERSION = 1


class MetadataLogError(Exception):
    """The log cannot be used; the text says which file and why."""


class MetadataLog:
    """An append-only file. Opening replays it, cuts a torn tail, and rewrites a long one as a snapshot.

    One process has it at a time; a dying one is waited for, up to `lock_timeout_s`.
    """

    def __init__(self, path: Path, lock_timeout_s: float = 10.0) -> None:
        self.path = path
        self.metadata = ClusterMetadata()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(path.parent, lock_timeout_s)
        try:
            whole = self._replay()
        except BaseException:
            os.close(self._lock)
            raise
        self._file = open(path, "r+b" if path.exists() else "w+b", buffering=0)  # noqa: SIM115 - lives as long as we do
        self._file.truncate(whole)
        self._file.seek(whole)
        if whole == 0:
            self._write([["format", FORMAT_VERSION]])
        elif self._count > _SNAPSHOT_EVERY:
            self._rewrite()

    def _replay(self) -> int:
        self._count = 0
        data = self.path.read_bytes() if self.path.exists() else b""
        position = 0
        while len(data) - position >= _HEAD.size:
            length, crc = _HEAD.unpack_from(data, position)
            body = data[position + _HEAD.size : position + _HEAD.size + length]
            if len(body) < length or crc32c(body) != crc:
                break
            self._apply(msgpack.unpackb(body, strict_map_key=False))
            position += _HEAD.size + length
            self._count += 1
        return position

    def _apply(self, record: list[Any]) -> None:
        if record[0] == "format":
            if record[1] > FORMAT_VERSION:
                raise MetadataLogError(
                    f"{self.path} has format {record[1]}, newer than {FORMAT_VERSION}, the newest this version reads"
                )
        elif record[0] == "image":
            self.metadata = ClusterMetadata.from_wire(record[1])
        else:
            self.metadata.apply(record)

    def append(self, records: list[list[Any]]) -> None:
        """Make records durable, then apply them. Raises OSError, and then nothing was applied."""
        if records:
            self._write(records)
            for record in records:
                self._apply(record)

    def _write(self, records: list[list[Any]]) -> None:
        at = self._file.tell()
        try:
            self._file.write(b"".join(_frame(record) for record in records))
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(at)
            self._file.seek(at)
            raise
        self._count += len(records)

    def _rewrite(self) -> None:
        new = self.path.with_suffix(".new")
        with open(new, "wb") as file:
            file.write(_frame(["format", FORMAT_VERSION]) + _frame(["image", self.metadata.to_wire()]))
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path)
        self._file.close()
        self._file = open(self.path, "r+b", buffering=0)  # noqa: SIM115
        self._file.seek(0, os.SEEK_END)
        self._count = 2

    def close(self) -> None:
        """Close the file and let others have it. Closing twice is harmless."""
        self._file.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _lock(folder: Path, timeout_s: float) -> int:
    """A descriptor that holds the folder's lock: the end of its process frees it."""
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                raise MetadataLogError(
                    f"data directory {folder.parent} is in use: another controller holds {folder / '.lock'}; "
                    "stop that cluster, or choose another --data-dir"
                ) from None
            time.sleep(_LOCK_POLL_SECONDS)
        else:
            return descriptor


def _frame(record: list[Any]) -> bytes:
    body: bytes = msgpack.packb(record)
    return _HEAD.pack(len(body), crc32c(body)) + body
