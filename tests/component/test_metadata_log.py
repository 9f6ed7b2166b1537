"""The controller's log: what it said is there again after any crash, and nothing else is."""

from __future__ import annotations

import copy
import multiprocessing
import os
import resource
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from actors.controller.metadata_log import FORMAT_VERSION, MetadataLog, MetadataLogError, _frame
from actors.log.files import FileWriter
from placement.metadata import BrokerInfo, PartitionInfo, TopicInfo, broker_record, partition_record, topic_record
from tests.support.log_helpers import FullDisk

FULL = OSError(28, "no space left on this disk")
RECORDS: list[list[Any]] = [
    ["cluster", "the-cluster-id-of-tests"],
    ["controller_epoch", 4],
    broker_record(BrokerInfo(0, "127.0.0.1", 9092, None, 0)),
    topic_record(TopicInfo("t", b"i" * 16, (PartitionInfo(0, 0, (0,), (0,)),), {"retention.ms": "5"})),
    partition_record("t", 1, PartitionInfo(0, 3, (0,), (0,))),
    ["broker_configs", "0", {"message.max.bytes": "1000"}],
    ["producer_ids", 3000],
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "controller" / "metadata.log"


def written(path: Path) -> list[Any]:
    log = MetadataLog(path)
    for record in RECORDS:
        log.append([record])
    log.close()
    return log.metadata.to_wire()


def reopened(path: Path) -> MetadataLog:
    log = MetadataLog(path)
    log.close()
    return log


def test_a_new_log_is_empty_and_knows_its_format(path: Path) -> None:
    log = MetadataLog(path)
    assert log.metadata.cluster_id == ""
    assert log.metadata.version == 0
    log.close()
    assert path.read_bytes() == _frame(["format", FORMAT_VERSION])


def test_everything_appended_is_there_again(path: Path) -> None:
    expected = written(path)
    assert reopened(path).metadata.to_wire() == expected
    assert expected[0] == "the-cluster-id-of-tests"
    assert expected[4][0][0] == "t"
    assert reopened(path).metadata.partition("t", 1) == PartitionInfo(0, 3, (0,), (0,))


def test_several_records_are_appended_at_once(path: Path) -> None:
    log = MetadataLog(path)
    log.append(RECORDS)
    log.close()
    assert log.metadata.version == len(RECORDS)
    assert reopened(path).metadata.to_wire() == log.metadata.to_wire()


@pytest.mark.parametrize("name", ["a\nb", "\x00", "\x7f", "ä", "n" * 32_767])
@pytest.mark.parametrize("salt", [b"", bytes(65_536)])
def test_a_credential_is_there_again_whatever_its_name_and_its_salt(path: Path, name: str, salt: bytes) -> None:
    log = MetadataLog(path)
    log.append([["scram", name, 1, salt, b"stored", b"server", 4096]])
    log.close()
    assert reopened(path).metadata.scram == {(name, 1): (salt, b"stored", b"server", 4096)}


def test_a_tail_torn_at_any_byte_leaves_the_records_before_it(path: Path) -> None:
    log = MetadataLog(path)
    log.append(RECORDS[:-1])
    before, size = log.metadata.to_wire(), path.stat().st_size
    log.append(RECORDS[-1:])
    after = log.metadata.to_wire()
    log.close()
    whole = path.read_bytes()
    for cut in range(size, len(whole)):
        path.write_bytes(whole[:cut])
        assert reopened(path).metadata.to_wire() == before, f"cut at {cut}"
        assert path.stat().st_size == size, "the torn tail is cut off"
    path.write_bytes(whole)
    assert reopened(path).metadata.to_wire() == after


@pytest.mark.parametrize("lost", [1, 40])
def test_of_records_appended_at_once_all_or_none_survive_a_loss_of_power(path: Path, lost: int) -> None:
    log = MetadataLog(path)
    log.append(RECORDS[:1])
    before, size = copy.deepcopy(log.metadata.to_wire()), path.stat().st_size
    log.append(RECORDS[1:])
    log.close()
    whole = path.read_bytes()
    for hole in range(size, len(whole)):  # a block that never reached the disk, while those behind it did
        end = min(hole + lost, len(whole))
        damaged = whole[:hole] + bytes(end - hole) + whole[end:]
        path.write_bytes(damaged)
        expected = before if damaged != whole else log.metadata.to_wire()
        assert reopened(path).metadata.to_wire() == expected, f"bytes {hole} to {end} lost"


def test_a_flipped_bit_in_the_last_record_is_a_torn_tail(path: Path) -> None:
    written(path)
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(bytes(whole))
    assert reopened(path).metadata.next_producer_id == 0


def test_zeros_at_the_end_are_a_torn_tail(path: Path) -> None:
    expected = written(path)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(100))
    assert reopened(path).metadata.to_wire() == expected
    assert path.stat().st_size == size


@pytest.mark.parametrize("kept", [1, 8, 20])
def test_a_torn_record_in_the_middle_is_refused_and_nothing_is_cut_off(path: Path, kept: int) -> None:
    frames = [_frame(record) for record in (["format", FORMAT_VERSION], *RECORDS)]
    before = b"".join(frames[:4])
    content = before + frames[4][:kept] + b"".join(frames[5:])
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(
        MetadataLogError, match=rf"{path} is damaged at byte {len(before)}:.*byte {len(before) + kept} "
    ):
        MetadataLog(path)
    assert path.read_bytes() == content
    path.write_bytes(before)  # the lock is free, and the way out that the error names leads to a log of use
    assert reopened(path).metadata.version == 3


def test_a_flipped_bit_in_any_record_but_the_last_is_refused(path: Path) -> None:
    written(path)
    whole = path.read_bytes()
    last = len(whole) - len(_frame(RECORDS[-1]))
    for at in range(last):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(MetadataLogError, match="is damaged at byte"):
            MetadataLog(path)
        assert path.read_bytes() == damaged


def test_appending_goes_on_after_a_torn_tail(path: Path) -> None:
    written(path)
    path.write_bytes(path.read_bytes()[:-3])
    log = MetadataLog(path)
    log.append([["producer_ids", 9000]])
    log.close()
    assert reopened(path).metadata.next_producer_id == 9000


def test_a_file_cut_within_its_first_record_begins_anew(path: Path) -> None:
    MetadataLog(path).close()
    path.write_bytes(path.read_bytes()[:5])
    log = MetadataLog(path)
    log.append(RECORDS)
    log.close()
    assert reopened(path).metadata.next_producer_id == 3000


def test_a_newer_format_is_refused_by_name_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    content = _frame(["format", FORMAT_VERSION + 1]) + _frame(["something", "new"])
    path.write_bytes(content)
    with pytest.raises(MetadataLogError, match=rf"{path}.*format {FORMAT_VERSION + 1}"):
        MetadataLog(path)
    assert path.read_bytes() == content


def test_a_record_of_unknown_kind_is_refused_not_skipped(path: Path) -> None:
    MetadataLog(path).close()
    path.write_bytes(path.read_bytes() + _frame(["from_the_future", 1]))
    with pytest.raises(ValueError, match="from_the_future"):
        MetadataLog(path)


def test_a_long_log_is_rewritten_as_a_snapshot_that_says_the_same(path: Path) -> None:
    expected = written(path)
    log = MetadataLog(path)
    for i in range(200):
        log.append([["producer_ids", 3000 + i]])
    expected = log.metadata.to_wire()
    log.close()
    long = path.stat().st_size
    log = MetadataLog(path, snapshot_every=100)
    assert path.stat().st_size < long / 5
    assert log.metadata.to_wire() == expected
    log.append([["producer_ids", 7]])
    log.close()
    found = reopened(path).metadata
    assert found.next_producer_id == 7
    assert found.version == expected[2] + 1
    assert not path.with_suffix(".new").exists()


def test_a_log_in_use_is_rewritten_each_time_it_has_become_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewritten = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda old, new: (rewritten.append(new), replace(old, new)))
    log = MetadataLog(path, snapshot_every=20)
    for i in range(200):
        log.append([["producer_ids", i]])
    log.close()
    assert len(rewritten) == 11, "every 18 records: the snapshot counts as two"
    assert path.stat().st_size < 25 * len(_frame(["producer_ids", 199])) + len(_frame(log.metadata.to_wire()))
    assert reopened(path).metadata.to_wire() == log.metadata.to_wire()


@pytest.mark.parametrize("refused", ["fsync", "replace"])
def test_a_log_that_cannot_be_rewritten_is_used_on_and_nothing_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    asked = []

    def full(*arguments: Any) -> None:
        asked.append(arguments)
        raise OSError(28, "no space left on this disk")

    class NoSnapshots(FileWriter):
        def fsync(self, fd: int) -> None:
            if refused == "fsync" and os.readlink(f"/proc/self/fd/{fd}").endswith(".new") and not asked:
                full(fd)
            super().fsync(fd)

    log = MetadataLog(path, NoSnapshots(), snapshot_every=20)
    for i in range(18):
        log.append([["producer_ids", i]])
    with monkeypatch.context() as patch:
        if refused == "replace":
            patch.setattr(os, refused, full)
        for i in range(18, 38):
            log.append([["producer_ids", i]])
    assert len(asked) == 1, "not at each record"
    assert reopened_copy(path).metadata.to_wire() == log.metadata.to_wire()
    long = path.stat().st_size
    for i in range(38, 42):
        log.append([["producer_ids", i]])
    log.close()
    assert path.stat().st_size < long
    assert reopened(path).metadata.next_producer_id == 41


def test_a_snapshot_whose_name_may_not_survive_takes_no_records(path: Path) -> None:
    """After a loss of power the old file would be there again, without them."""
    refusals: list[OSError] = []

    class RefusesNames(FileWriter):
        def fsync_directory(self, path: Path) -> None:
            if refusals:
                raise refusals.pop()
            super().fsync_directory(path)

    log = MetadataLog(path, RefusesNames(), snapshot_every=20)
    for i in range(19):
        log.append([["producer_ids", i]])
    refusals += [FULL, FULL]
    for _ in range(2):
        with pytest.raises(OSError, match="disk"):
            log.append([["producer_ids", 99]])
    assert log.metadata.next_producer_id == 18
    log.append([["producer_ids", 100]])
    log.close()
    assert reopened(path).metadata.next_producer_id == 100


def reopened_copy(path: Path) -> MetadataLog:
    """What a successor would find now."""
    copied = path.parent.with_name("copy") / path.name
    copied.parent.mkdir()
    copied.write_bytes(path.read_bytes())
    return reopened(copied)


def test_a_crash_before_the_snapshot_is_in_place_leaves_the_log(path: Path) -> None:
    expected = written(path)
    path.with_suffix(".new").write_bytes(b"half a snaps")
    assert reopened(path).metadata.to_wire() == expected


def test_a_write_the_disk_refuses_applies_nothing_and_leaves_no_trace(path: Path) -> None:
    written(path)
    size = path.stat().st_size
    disk = FullDisk()
    log = MetadataLog(path, disk)
    disk.fsync_error = FULL
    with pytest.raises(OSError, match="disk"):
        log.append([["producer_ids", 1]])
    disk.fsync_error = None
    assert log.metadata.next_producer_id == 3000
    assert path.stat().st_size == size
    log.append([["producer_ids", 2]])
    log.close()
    assert reopened(path).metadata.next_producer_id == 2


@pytest.mark.parametrize("room", [0, 1, 8, 20])
def test_a_write_the_disk_takes_in_part_applies_nothing_and_leaves_no_trace(path: Path, room: int) -> None:
    expected = written(path)
    size = path.stat().st_size
    log = MetadataLog(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            log.append([["producer_ids", 4000], ["producer_ids", 5000]])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert log.metadata.to_wire() == expected
    assert path.stat().st_size == size
    log.append([["producer_ids", 6000]])
    log.close()
    assert reopened(path).metadata.next_producer_id == 6000


def test_what_a_refused_write_left_is_gone_before_the_next_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(path)
    size = path.stat().st_size
    disk = FullDisk()
    log = MetadataLog(path, disk)
    file = log._file

    class CannotBeCut:
        fileno = file.fileno

        def truncate(self, at: int) -> None:
            if os.fstat(file.fileno()).st_size > at:
                raise OSError(5, "cannot be cut")

    with monkeypatch.context() as patch:
        patch.setattr(log, "_file", CannotBeCut())
        disk.fsync_error = FULL
        for _ in range(2):
            with pytest.raises(OSError, match="cannot be cut"):
                log.append([["producer_ids", 4000], ["producer_ids", 5000]])
    disk.fsync_error = None
    assert path.stat().st_size > size
    log.append([["producer_ids", 6000]])
    log.close()
    assert reopened(path).metadata.next_producer_id == 6000


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
