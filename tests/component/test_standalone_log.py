"""The log of the only controller: of a voter from level 5 on, and a file of one node becomes that without a loss."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from actors import __version__
from actors.controller import settings_in_force
from actors.controller.from_files import records_of_files
from actors.controller.metadata.commits import NotControllerError
from actors.controller.metadata.file import MetadataLogError
from actors.controller.metadata.frames import Format, decode, encode, frames
from actors.controller.metadata.log import LAYOUTS, MetadataLog
from actors.controller.metadata.standalone import StandaloneLog
from actors.controller.pool_seals import POOLS_KEY
from actors.controller.settings_in_force import Changed
from actors.log.files import Buffer, FileWriter
from actors.runtime.private import write_private
from placement.metadata import ClusterMetadata, ClusterSettings
from placement.records import (
    METADATA_LEVELS,
    METADATA_VERSION,
    QUORUM,
    SHARED,
    ControllerEpochRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    Record,
)
from tests.support.controller_world import controller, create
from tests.support.runtime_helpers import FakeBroker, until

OLDER = Path(__file__).with_name("metadata_logs") / "format-1-snapshot.log"
RAISE = FeatureLevelRecord(METADATA_VERSION, QUORUM)
FULL = OSError(28, "no space left on this disk")


class CrashError(BaseException):
    """The machine stops here."""


class Disk(FileWriter):
    """Raises `error` at call number `at`, before or after doing it, and at the following calls: `times` in all."""

    def __init__(self) -> None:
        self.begin(0, FULL)

    def begin(self, at: int, error: BaseException, *, after: bool = False, times: int = 1) -> None:
        self.calls: list[str] = []
        self._wrong, self._error, self._after = range(at, at + times), error, after

    def _call(self, name: str, do: Callable[[], object]) -> None:
        self.calls.append(name)
        due = len(self.calls) in self._wrong
        if due and not self._after:
            raise self._error
        do()
        if due:
            raise self._error

    def write(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        self._call("write", lambda: super(Disk, self).write(fd, buffers, position))
        return sum(map(len, buffers))

    def fsync(self, fd: int) -> None:
        self._call("fsync", lambda: super(Disk, self).fsync(fd))

    def fsync_directory(self, path: Path) -> None:
        self._call("directory", lambda: super(Disk, self).fsync_directory(path))


OF_A_RAISE = [
    *("write", "fsync"),  # the record, in the old layout
    *("write", "fsync"),  # a file of the newest layout of one node, where the old one was older
    *("write", "fsync"),  # the voter's journal
    *("directory", "write", "fsync", "write", "fsync"),  # its state, and the first entry of its epoch
]

OF_A_START = ["directory", *OF_A_RAISE[4:]]
"""The calls of a start that completes a raise which lacked only the voter's journal."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "controller" / "metadata.log"


def older(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    shutil.copy(OLDER, path)
    return path


def ids(log: StandaloneLog, number: int, epoch: int) -> None:
    assert log.append([ProducerIdsRecord(number)], epoch).done
    assert log.committed == log.decided


def begin(log: StandaloneLog) -> int:
    """A controller begins; its epoch."""
    epoch = log.next_epoch
    log.append([ControllerEpochRecord(epoch)], epoch)
    return epoch


def found(path: Path) -> ClusterMetadata:
    """The log as a successor would find it now."""
    copy = path.parent / "copy" / path.name
    shutil.rmtree(copy.parent, ignore_errors=True)
    copy.parent.mkdir()
    shutil.copy(path, copy)
    log = StandaloneLog(copy)
    log.close()
    return log.committed


def form(path: Path) -> Format:
    """The first frame of a file."""
    content = decode(next(iter(frames(path.read_bytes())))[1], LAYOUTS[-1])
    assert isinstance(content, Format)
    return content


def test_a_new_cluster_has_the_log_of_a_voter_and_each_start_begins_an_epoch(path: Path) -> None:
    for start in (1, 2, 3):
        log = StandaloneLog(path, new_directory=lambda: "directory")
        assert (begin(log), log.committed.level) == (start, METADATA_LEVELS[-1])
        ids(log, start, start)
        with pytest.raises(NotControllerError):
            log.append([ProducerIdsRecord(0)], start - 1)
        log.close()
        assert found(path).next_producer_id == start
    assert form(path) == Format(QUORUM, __version__, "directory")


@pytest.mark.conformance("N-E-07")
def test_an_older_log_keeps_its_form_until_the_level_is_raised_and_the_controller_goes_on(path: Path) -> None:
    log = StandaloneLog(older(path))
    epoch = begin(log)
    decided = log.decided
    ids(log, 1, epoch)
    assert form(path) == Format(1)
    log.append([RAISE], epoch)
    assert form(path).directory
    ids(log, 2, epoch)
    assert log.decided is decided, "all that is known beside the records is still there"
    log.close()
    assert found(path) == log.committed
    again = StandaloneLog(path)
    assert (begin(again), again.committed.next_producer_id) == (epoch + 1, 2)
    again.close()


def raised(path: Path, disk: Disk) -> tuple[StandaloneLog, int]:
    log = StandaloneLog(older(path), disk)
    epoch = begin(log)
    ids(log, 4999, epoch)
    return log, epoch


def test_the_walk_of_a_raise_has_each_call_that_there_is(path: Path) -> None:
    disk = Disk()
    log, epoch = raised(path, disk)
    disk.begin(0, FULL)
    log.append([RAISE], epoch)
    assert disk.calls == OF_A_RAISE
    ids(log, 6000, epoch)
    assert disk.calls == [*OF_A_RAISE, "write", "fsync"]
    log.close()


@pytest.mark.conformance("N-C-01")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, len(OF_A_RAISE) + 1))
def test_a_crash_at_any_call_of_a_raise_loses_nothing(path: Path, at: int, after: bool) -> None:
    disk = Disk()
    log, epoch = raised(path, disk)
    before = log.committed.copy()
    disk.begin(at, CrashError(), after=after)
    with pytest.raises(CrashError):
        log.append([RAISE], epoch)
    log.close()
    again = StandaloneLog(path)
    now = before.copy()
    now.apply(RAISE)
    assert again.committed in ((before, now) if at <= 2 else (now,))
    assert bool(form(path).directory) == (again.committed.level == QUORUM)
    successor = begin(again)
    assert successor == epoch + 1
    ids(again, 7000, successor)
    again.close()
    assert found(path) == again.committed


@pytest.mark.conformance("N-C-01")
@pytest.mark.parametrize("at", range(1, len(OF_A_RAISE) + 1))
def test_a_raise_of_which_any_call_is_refused_is_made_up_for_and_loses_nothing(path: Path, at: int) -> None:
    disk = Disk()
    log, epoch = raised(path, disk)
    disk.begin(at, FULL)
    with suppress(OSError):
        log.append([RAISE], epoch)
    assert (log.committed.level == QUORUM) == (at > 2)
    assert log.committed == log.decided == found(path)
    log.append([RAISE], epoch)
    ids(log, 7000, epoch)
    log.close()
    assert form(path).directory
    assert found(path) == log.committed


def test_a_file_that_could_not_be_replaced_is_at_the_next_start(path: Path) -> None:
    log, epoch = raised(path, Disk())
    path.with_suffix(".new").mkdir()
    log.append([RAISE], epoch)
    ids(log, 6000, epoch)
    log.close()
    assert not form(path).directory
    path.with_suffix(".new").rmdir()
    again = StandaloneLog(path)
    assert (again.committed, again.next_epoch) == (log.committed, epoch + 1)
    again.close()
    assert form(path).directory


def raised_in_part(path: Path) -> ClusterMetadata:
    log = MetadataLog(older(path))
    log.append([ControllerEpochRecord(log.next_epoch), RAISE], log.next_epoch)
    log.close()
    return log.committed


def test_the_walk_of_a_start_has_each_call_that_there_is(path: Path) -> None:
    raised_in_part(path)
    disk = Disk()
    StandaloneLog(path, disk).close()
    assert disk.calls == OF_A_START


@pytest.mark.conformance("N-C-01")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, len(OF_A_START) + 1))
def test_a_crash_at_any_call_of_a_start_that_makes_up_for_a_raise_loses_nothing(
    path: Path, at: int, after: bool
) -> None:
    before = raised_in_part(path)
    disk = Disk()
    disk.begin(at, CrashError(), after=after)
    with pytest.raises(CrashError):
        StandaloneLog(path, disk)
    copy = path.parent / "copy" / path.name
    assert found(path) == before
    again = StandaloneLog(copy)
    assert again.next_epoch > before.controller_epoch
    again.close()
    assert form(copy).directory


@pytest.mark.parametrize("times", range(1, 7))
@pytest.mark.parametrize("at", range(1, 5))
def test_changes_that_the_disk_refuses_leave_no_trace_and_the_next_one_is_made(path: Path, at: int, times: int) -> None:
    disk = Disk()
    log = StandaloneLog(path, disk)
    epoch = begin(log)
    disk.begin(at, FULL, times=times)
    for number in range(4):
        with suppress(OSError):
            log.append([ProducerIdsRecord(number)], epoch)
        assert log.committed == log.decided == found(path)
    disk.begin(0, FULL)
    ids(log, 7000, epoch)
    log.close()
    assert found(path) == log.committed


def test_of_a_full_disk_each_change_says_so(path: Path) -> None:
    disk = Disk()
    log = StandaloneLog(path, disk)
    epoch = begin(log)
    for _ in range(3):
        disk.begin(1, FULL)
        with pytest.raises(OSError, match="no space"):
            log.append([ProducerIdsRecord(5)], epoch)
    assert log.committed.next_producer_id == 0
    log.close()


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize("at", range(3, 12))
def test_a_snapshot_that_the_disk_refuses_costs_no_change(path: Path, at: int, times: int) -> None:
    disk = Disk()
    log = StandaloneLog(path, disk, snapshot_every=5)
    epoch = begin(log)
    for number in range(2):
        ids(log, number, epoch)
    disk.begin(at, FULL, times=times)
    ids(log, 2, epoch)  # calls 1 and 2; the snapshot follows
    assert len(disk.calls) > 3
    disk.begin(0, FULL)
    ids(log, 3, epoch)
    log.close()
    assert found(path) == log.committed


@pytest.mark.conformance("N-E-04")
def test_releases_from_before_refuse_the_file_by_its_first_frame(path: Path) -> None:
    """They read a level in it that they do not know, with the release that has written it."""
    StandaloneLog(path).close()
    body = next(iter(frames(path.read_bytes())))[1]
    assert isinstance(content := decode(body, 1), Format)
    assert (content.level, content.release) == (QUORUM, __version__)
    with pytest.raises(MetadataLogError, match="is the journal of a voter"):
        MetadataLog(path)


@pytest.mark.parametrize("level", [METADATA_LEVELS[-1] + 1, 99])
def test_a_form_of_a_newer_release_is_refused_and_let_go(path: Path, level: int) -> None:
    path.parent.mkdir()
    for newer in (Format(level, "9.9"), Format(level, "9.9", "directory")):
        path.write_bytes(encode(newer, LAYOUTS[-1]))
        with pytest.raises(MetadataLogError, match=f"format {level}, .* start the version that wrote it"):
            StandaloneLog(path)
    path.unlink()
    StandaloneLog(path, lock_timeout_s=0).close()


def test_a_level_of_a_newer_release_is_refused_and_let_go(path: Path) -> None:
    log = StandaloneLog(path)
    log.append([FeatureLevelRecord(METADATA_VERSION, METADATA_LEVELS[-1] + 1)], log.next_epoch)
    log.close()
    for _ in range(2):
        with pytest.raises(MetadataLogError, match=f"has level {METADATA_LEVELS[-1] + 1}"):
            StandaloneLog(path, lock_timeout_s=0)


async def test_a_controller_serves_on_while_its_log_becomes_a_voters(tmp_path: Path) -> None:
    path = older(tmp_path / "controller" / "metadata.log")
    log = StandaloneLog(path)
    async with controller(tmp_path, log=log) as c:
        broker = await FakeBroker(0).register(c.port)
        c.server.publisher.commit([RAISE])
        assert form(path).directory
        assert (await create(broker, "t"))["error_code"] == 0
        epoch = c.server.epoch
    again = StandaloneLog(path)
    async with controller(tmp_path, log=again) as c:
        assert "t" in c.metadata.topics
        assert c.server.epoch == c.metadata.controller_epoch == epoch + 1


# --- what the controller has in files beside it ---


@pytest.mark.conformance("N-C-07")
async def test_what_is_in_files_is_taken_into_the_log_once_the_level_is_raised_and_once_only(tmp_path: Path) -> None:
    (tmp_path / "controller").mkdir()
    write_private(tmp_path / POOLS_KEY, bytes(range(32)).hex())
    settings_in_force.keep(tmp_path, Changed({"num.partitions": "3"}))
    from_files = partial(records_of_files, tmp_path)
    async with controller(tmp_path, lease_ms=1_000, from_files=from_files) as c:
        await until(lambda: c.metadata.cluster_id != "")
        assert (c.metadata.level, c.metadata.pools.key) == (LAYOUTS[-1], b"")
        c.server.publisher.commit([FeatureLevelRecord(METADATA_VERSION, SHARED)])
        await until(lambda: c.metadata.pools.key == bytes(range(32)), what="the key")
        assert c.metadata.settings == ClusterSettings({"num.partitions": "3"})
        version = c.metadata.version
    async with controller(tmp_path, lease_ms=1_000, from_files=from_files) as c:
        await asyncio.sleep(0.5)
        assert c.metadata.version == version + 1, "it has begun, and has nothing to add"


@pytest.mark.conformance("N-C-07")
async def test_a_disk_that_refuses_it_keeps_nobody_from_leading_and_is_tried_again(tmp_path: Path) -> None:
    write_private(tmp_path / POOLS_KEY, bytes(range(32)).hex())
    disk = Disk()
    log = StandaloneLog(tmp_path / "metadata.log", disk)
    refused = []

    def from_files(metadata: ClusterMetadata) -> list[Record]:
        if not refused:
            refused.append(True)
            disk.begin(1, FULL)
        return records_of_files(tmp_path, metadata)

    async with controller(tmp_path, lease_ms=1_000, log=log, from_files=from_files) as c:
        assert c.metadata.pools.key == b""
        await until(lambda: c.metadata.pools.key == bytes(range(32)), what="the key")
