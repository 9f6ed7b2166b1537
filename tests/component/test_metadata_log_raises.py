"""A raise of the metadata's level meets a disk that fails: all that was answered is there at the next start."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from crc32c import crc32c

from actors import __version__
from actors.controller.metadata.file import MetadataLogError
from actors.controller.metadata.frames import Entry, Format, decode, encode, fits, frames
from actors.controller.metadata.log import LAYOUTS, MetadataLog
from actors.log.files import Buffer, FileWriter
from placement.infos import PartitionInfo, TopicInfo
from placement.metadata import ClusterMetadata
from placement.pairs import Pair
from placement.records import (
    KINDS,
    METADATA_VERSION,
    FeatureLevelRecord,
    PairRecord,
    ProducerIdsRecord,
    Record,
    TopicRecord,
)
from tests.support.written_metadata import append, reopened

NEWEST = LAYOUTS[-1]
LOGS = Path(__file__).with_name("metadata_logs")
PLAIN, SNAPSHOT = "format-1.log", "format-1-snapshot.log"
STATES = TopicInfo("__states", b"s" * 16, (PartitionInfo(0, 0, (0,), (0,)),))
RAISE = FeatureLevelRecord(METADATA_VERSION, NEWEST)


class FailingDisk(FileWriter):
    """Goes wrong at one of its calls: `wrong` hears of each, by its number since `begin` and its name."""

    def __init__(self, path: Path) -> None:
        self.new = path.with_suffix(".new")
        self.begin(lambda number, call: None)

    def begin(self, wrong: Callable[[int, str], None]) -> None:
        self.calls: list[str] = []
        self._wrong = wrong

    def write(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        self._called("write", fd)
        return super().write(fd, buffers, position)

    def fsync(self, fd: int) -> None:
        self._called("fsync", fd)
        super().fsync(fd)

    def fsync_directory(self, path: Path) -> None:
        self._called("directory", -1)
        super().fsync_directory(path)

    def _called(self, call: str, fd: int) -> None:
        is_new = fd >= 0 and os.readlink(f"/proc/self/fd/{fd}").endswith(".new")
        if fd >= 0 and not is_new:
            self.in_use = fd
        self.calls.append(f"{call} new" if is_new else call)
        self._wrong(len(self.calls), self.calls[-1])


Wrong = Callable[[int, str], None]


def refused(at: int) -> Callable[[FailingDisk], Wrong]:
    """Call number `at` is refused."""

    def wrong(number: int, call: str) -> None:
        if number == at:
            raise OSError(5, f"the disk fails at {call}")

    return lambda disk: wrong


def not_opened(disk: FailingDisk) -> Wrong:
    """The new file cannot be opened: a folder has its name."""
    disk.new.mkdir()
    return lambda number, call: None


def not_renamed(disk: FailingDisk) -> Wrong:
    """The new file is gone before it is put in place."""
    return lambda number, call: disk.new.unlink() if call == "fsync new" else None


def not_closed(disk: FailingDisk) -> Wrong:
    """The file that was in use cannot be closed."""
    return lambda number, call: os.close(disk.in_use) if call == "fsync new" else None


OF_A_RAISE = ["write", "fsync", "write new", "fsync new"]
OF_THE_NEXT = ["directory", "write", "fsync"]
FAILURES: dict[str, Callable[[FailingDisk], Wrong]] = {
    f"{at} {call}": refused(at) for at, call in enumerate(OF_A_RAISE + OF_THE_NEXT, start=1)
} | {"open": not_opened, "replace": not_renamed, "close": not_closed}


def older(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True)
    shutil.copy(LOGS / name, folder / "metadata.log")
    return folder / "metadata.log"


def framed(body: bytes) -> bytes:
    return struct.pack(">II", len(body), crc32c(body)) + body


def decoded(path: Path) -> list[Record]:
    """The records of a file in the old layout."""
    contents = [decode(body, 1) for _, body in frames(path.read_bytes())]
    return [record for each in contents if isinstance(each, Entry) for record in each.records]


def found_now(path: Path) -> ClusterMetadata:
    """The log as a successor would find it now."""
    copy = path.parent / "copy" / path.name
    shutil.rmtree(copy.parent, ignore_errors=True)
    copy.parent.mkdir()
    shutil.copy(path, copy)
    return reopened(copy).committed


def test_the_walk_of_a_raise_fails_each_call_that_there_is(tmp_path: Path) -> None:
    path = older(tmp_path / "log", PLAIN)
    disk = FailingDisk(path)
    log = MetadataLog(path, disk)
    disk.begin(lambda number, call: None)
    append(log, RAISE)
    assert disk.calls == OF_A_RAISE
    append(log, ProducerIdsRecord(6000))
    assert disk.calls == OF_A_RAISE + OF_THE_NEXT
    log.close()


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("name", [PLAIN, SNAPSHOT])
def test_a_raise_of_which_any_call_fails_loses_nothing_that_was_answered(
    tmp_path: Path, name: str, failure: Callable[[FailingDisk], Wrong]
) -> None:
    path = older(tmp_path / "log", name)
    disk = FailingDisk(path)
    log = MetadataLog(path, disk)
    append(log, ProducerIdsRecord(4999))
    disk.begin(failure(disk))
    for record in (RAISE, ProducerIdsRecord(6000)):
        with suppress(OSError):
            append(log, record)
        assert log.committed == log.decided == found_now(path)
    disk.begin(lambda number, call: None)
    if disk.new.is_dir():
        disk.new.rmdir()
    append(log, ProducerIdsRecord(7000))
    log.close()
    assert path.read_bytes().startswith(encode(Format(log.committed.level, __version__), log.committed.level))
    assert reopened(path).committed == log.committed
    assert not disk.new.exists()


@pytest.mark.parametrize("at", [3, 4])
def test_of_a_snapshot_that_could_not_be_put_in_place_no_file_is_left(tmp_path: Path, at: int) -> None:
    """On a full disk it would take the room of the entries."""
    path = older(tmp_path / "log", PLAIN)
    disk = FailingDisk(path)
    log = MetadataLog(path, disk)
    disk.begin(refused(at)(disk))
    append(log, RAISE)
    assert disk.calls[-1].endswith(" new")
    assert not disk.new.exists()
    log.close()


@pytest.mark.parametrize("name", [PLAIN, SNAPSHOT])
def test_a_raised_level_whose_file_cannot_be_rewritten_keeps_the_old_layout_until_it_can(
    tmp_path: Path, name: str
) -> None:
    path = older(tmp_path / "log", name)
    disk = FailingDisk(path)
    log = MetadataLog(path, disk)
    not_opened(disk)
    append(log, RAISE)
    append(log, ProducerIdsRecord(6000))
    pair = PairRecord(Pair(next(iter(log.committed.names)), 0, "__states", 0))
    with pytest.raises(OSError, match="directory"):
        append(log, TopicRecord(STATES), pair)
    assert "__states" not in log.decided.topics
    assert found_now(path) == log.committed
    assert decode(next(iter(frames(path.read_bytes())))[1], 1) == Format(1)
    disk.new.rmdir()
    append(log, TopicRecord(STATES), pair)
    log.close()
    assert decode(next(iter(frames(path.read_bytes())))[1], NEWEST) == Format(NEWEST, __version__)
    assert reopened(path).committed == log.committed


def test_a_start_gives_a_file_of_a_raised_level_its_layout(tmp_path: Path) -> None:
    """A build without versions of records raised the level, or the rewriting of the file had failed."""
    path = older(tmp_path / "log", PLAIN)
    path.write_bytes(path.read_bytes() + encode(Entry(None, None, (RAISE,)), 1))
    log = reopened(path)
    assert log.committed.level == NEWEST
    assert path.read_bytes().startswith(encode(Format(NEWEST, __version__), NEWEST))
    assert reopened(path).committed == log.committed


@pytest.mark.conformance("N-E-04")
def test_the_old_layout_holds_the_kinds_that_it_had_and_no_later_one() -> None:
    log_of_all = decoded(LOGS / PLAIN)
    had = {record.KIND for record in log_of_all} | {RAISE.KIND}
    assert {kind for kind, cls in KINDS.items() if fits(cls.__new__(cls), 1)} == had
    assert all(fits(cls.__new__(cls), NEWEST) for cls in KINDS.values())


def test_the_release_that_has_raised_the_level_is_named_by_one_that_cannot_read_its_entries(tmp_path: Path) -> None:
    """The file's first frame names it. The snapshot of a raise names none, because the old layout did not."""
    path = older(tmp_path / "log", PLAIN)
    log = MetadataLog(path, release="9.9")
    append(log, RAISE)
    log.close()
    assert reopened(path).committed.release == "9.9"
    future = next(iter(frames(encode(Entry(4, log.committed.version, (ProducerIdsRecord(1),)), NEWEST))))[1]
    path.write_bytes(path.read_bytes() + framed(future.replace(b"producer_ids", b"producer_idz")))
    with pytest.raises(MetadataLogError, match=r"'producer_idz'.*Coterie 9\.9 wrote it"):
        MetadataLog(path)
