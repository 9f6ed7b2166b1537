"""The controller's log on a disk that refuses writes, and the lock by which one process at a time has it."""

from __future__ import annotations

import io
import multiprocessing
import os
import resource
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from actors.controller.metadata import file
from actors.controller.metadata.file import MetadataLogError
from actors.controller.metadata.log import MetadataLog
from placement.records import (
    ProducerIdsRecord,
)
from tests.support.log_helpers import FullDisk
from tests.support.written_metadata import append, reopened, written

FULL = OSError(28, "no space left on this disk")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "controller" / "metadata.log"


def test_a_write_the_disk_refuses_applies_nothing_and_leaves_no_trace(path: Path) -> None:
    written(path)
    size = path.stat().st_size
    disk = FullDisk()
    log = MetadataLog(path, disk)
    disk.fsync_error = FULL
    with pytest.raises(OSError, match="disk"):
        append(log, ProducerIdsRecord(1))
    disk.fsync_error = None
    assert log.committed.next_producer_id == 3000
    assert path.stat().st_size == size
    append(log, ProducerIdsRecord(2))
    log.close()
    assert reopened(path).committed.next_producer_id == 2


@pytest.mark.parametrize("room", [0, 1, 8, 20])
def test_a_write_the_disk_takes_in_part_applies_nothing_and_leaves_no_trace(path: Path, room: int) -> None:
    expected = written(path)
    size = path.stat().st_size
    log = MetadataLog(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            append(log, ProducerIdsRecord(4000), ProducerIdsRecord(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert log.committed.to_wire() == expected
    assert path.stat().st_size == size
    append(log, ProducerIdsRecord(6000))
    log.close()
    assert reopened(path).committed.next_producer_id == 6000


def test_what_a_refused_write_left_is_gone_before_the_next_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(path)
    size = path.stat().st_size
    disk = FullDisk()

    class CannotBeCut(io.FileIO):
        def truncate(self, at: int | None = None) -> int:
            if disk.fsync_error is not None and at is not None and os.fstat(self.fileno()).st_size > at:
                raise OSError(5, "cannot be cut")
            return super().truncate(at)

    monkeypatch.setattr(file, "open", lambda path, mode, buffering: CannotBeCut(path, mode), raising=False)
    log = MetadataLog(path, disk)
    disk.fsync_error = FULL
    for _ in range(2):
        with pytest.raises(OSError, match="cannot be cut"):
            append(log, ProducerIdsRecord(4000), ProducerIdsRecord(5000))
    disk.fsync_error = None
    assert path.stat().st_size > size
    append(log, ProducerIdsRecord(6000))
    log.close()
    assert reopened(path).committed.next_producer_id == 6000


def test_two_controllers_never_write_one_log(path: Path) -> None:
    log = MetadataLog(path)
    with pytest.raises(MetadataLogError, match=rf"{path.parent}.*another"):
        MetadataLog(path, lock_timeout_s=0.1)
    log.close()
    reopened(path)


def test_a_dying_controller_is_waited_for(path: Path) -> None:
    first = MetadataLog(path)
    timer = threading.Timer(0.3, first.close)
    started = time.monotonic()
    timer.start()
    MetadataLog(path, lock_timeout_s=30).close()
    assert time.monotonic() - started >= 0.2
    timer.join()


def _hold_and_die(path: Path, held: Any) -> None:
    MetadataLog(path)
    held.set()
    threading.Event().wait(60)


def test_the_death_of_its_process_frees_the_log(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    process = context.Process(target=_hold_and_die, args=(path, held))
    process.start()
    try:
        assert held.wait(60)
        with pytest.raises(MetadataLogError):
            MetadataLog(path, lock_timeout_s=0)
    finally:
        process.kill()
        process.join()
    MetadataLog(path, lock_timeout_s=10).close()
