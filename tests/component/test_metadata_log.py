"""The controller's log: what it said is there again after any crash, and nothing else is."""

from __future__ import annotations

import copy
import itertools
import os
import struct
from pathlib import Path
from typing import Any

import msgpack
import pytest
from crc32c import crc32c

from actors import __version__
from actors.controller.metadata.commits import NotControllerError
from actors.controller.metadata.file import MetadataLogError
from actors.controller.metadata.frames import Entry, Format, encode, frames
from actors.controller.metadata.log import LAYOUTS, MetadataLog
from actors.log.files import FileWriter
from placement.metadata import PartitionInfo
from placement.records import (
    METADATA_LEVELS,
    ControllerEpochRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    UserScramCredentialRecord,
)
from tests.support.written_metadata import RECORDS, append, reopened, written

FULL = OSError(28, "no space left on this disk")
LEVEL = LAYOUTS[-1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "controller" / "metadata.log"


def frames_of(path: Path) -> list[bytes]:
    """The frames of a file that is whole."""
    data, ends = path.read_bytes(), [0]
    ends += [end for end, _ in frames(data)]
    assert ends[-1] == len(data)
    return [data[start:end] for start, end in itertools.pairwise(ends)]


def test_a_new_log_is_empty_and_knows_its_format(path: Path) -> None:
    log = MetadataLog(path)
    assert log.committed.cluster_id == ""
    assert log.committed.version == 0
    log.close()
    assert path.read_bytes() == encode(Format(LEVEL, __version__), LEVEL)


def test_everything_appended_is_there_again(path: Path) -> None:
    expected = written(path)
    assert reopened(path).committed.to_wire() == expected
    assert expected[0] == "the-cluster-id-of-tests"
    assert expected[4][0][0] == "t"
    assert reopened(path).committed.partition("t", 1) == PartitionInfo(0, 3, (0,), (0,))


def test_several_records_are_appended_at_once(path: Path) -> None:
    log = MetadataLog(path)
    append(log, *RECORDS)
    log.close()
    assert log.committed.version == len(RECORDS)
    assert reopened(path).committed.to_wire() == log.committed.to_wire()


@pytest.mark.parametrize("name", ["a\nb", "\x00", "\x7f", "ä", "n" * 32_767])
@pytest.mark.parametrize("salt", [b"", bytes(65_536)])
def test_a_credential_is_there_again_whatever_its_name_and_its_salt(path: Path, name: str, salt: bytes) -> None:
    log = MetadataLog(path)
    append(log, UserScramCredentialRecord(name, 1, salt, b"stored", b"server", 4096))
    log.close()
    assert reopened(path).committed.scram == {(name, 1): (salt, b"stored", b"server", 4096)}


def test_a_tail_torn_at_any_byte_leaves_the_records_before_it(path: Path) -> None:
    log = MetadataLog(path)
    append(log, *RECORDS[:-1])
    before, size = log.committed.to_wire(), path.stat().st_size
    append(log, *RECORDS[-1:])
    after = log.committed.to_wire()
    log.close()
    whole = path.read_bytes()
    for cut in range(size, len(whole)):
        path.write_bytes(whole[:cut])
        assert reopened(path).committed.to_wire() == before, f"cut at {cut}"
        assert path.stat().st_size == size, "the torn tail is cut off"
    path.write_bytes(whole)
    assert reopened(path).committed.to_wire() == after


@pytest.mark.parametrize("lost", [1, 40])
def test_of_records_appended_at_once_all_or_none_survive_a_loss_of_power(path: Path, lost: int) -> None:
    log = MetadataLog(path)
    append(log, *RECORDS[:1])
    before, size = copy.deepcopy(log.committed.to_wire()), path.stat().st_size
    append(log, *RECORDS[1:])
    log.close()
    whole = path.read_bytes()
    for hole in range(size, len(whole)):  # a block that never reached the disk, while those behind it did
        end = min(hole + lost, len(whole))
        damaged = whole[:hole] + bytes(end - hole) + whole[end:]
        path.write_bytes(damaged)
        expected = before if damaged != whole else log.committed.to_wire()
        assert reopened(path).committed.to_wire() == expected, f"bytes {hole} to {end} lost"


def test_a_flipped_bit_in_the_last_record_is_a_torn_tail(path: Path) -> None:
    written(path)
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(bytes(whole))
    assert reopened(path).committed.next_producer_id == 0


def test_zeros_at_the_end_are_a_torn_tail(path: Path) -> None:
    expected = written(path)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(100))
    assert reopened(path).committed.to_wire() == expected
    assert path.stat().st_size == size


@pytest.mark.parametrize("kept", [1, 8, 20])
def test_a_torn_record_in_the_middle_is_refused_and_nothing_is_cut_off(path: Path, kept: int) -> None:
    written(path)
    found = frames_of(path)
    before = b"".join(found[:4])
    content = before + found[4][:kept] + b"".join(found[5:])
    path.write_bytes(content)
    with pytest.raises(
        MetadataLogError, match=rf"{path} is damaged at byte {len(before)}:.*byte {len(before) + kept} "
    ):
        MetadataLog(path)
    assert path.read_bytes() == content
    path.write_bytes(before)  # the lock is free, and the way out that the error names leads to a log of use
    assert reopened(path).committed.version == 3


def test_a_flipped_bit_in_any_record_but_the_last_is_refused(path: Path) -> None:
    written(path)
    whole = path.read_bytes()
    last = len(whole) - len(frames_of(path)[-1])
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
    append(log, ProducerIdsRecord(9000))
    log.close()
    assert reopened(path).committed.next_producer_id == 9000


def test_a_file_cut_within_its_first_record_begins_anew(path: Path) -> None:
    MetadataLog(path).close()
    path.write_bytes(path.read_bytes()[:5])
    log = MetadataLog(path)
    append(log, *RECORDS)
    log.close()
    assert reopened(path).committed.next_producer_id == 3000


def test_a_newer_format_is_refused_by_name_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    content = encode(Format(METADATA_LEVELS[-1] + 1, "9.9"), LEVEL) + framed(["something", "new"])
    path.write_bytes(content)
    with pytest.raises(MetadataLogError, match=rf"{path}.*format {METADATA_LEVELS[-1] + 1}"):
        MetadataLog(path)
    assert path.read_bytes() == content


def framed(body: list[Any]) -> bytes:
    """A frame of what no release has written yet."""
    data: bytes = msgpack.packb(body)
    return struct.pack(">II", len(data), crc32c(data)) + data


FUTURE = {
    "an unknown kind": (["from_the_future", 0, 1], "kind 'from_the_future', version 0"),
    "a newer version": (["producer_ids", 1, 5000], "kind 'producer_ids', version 1: versions up to 0"),
    "no version": (["producer_ids", "x", 5000], "kind 'producer_ids', version x"),
}


@pytest.mark.conformance("N-E-03")
@pytest.mark.parametrize(("record", "named"), FUTURE.values(), ids=FUTURE)
def test_a_record_of_a_newer_release_is_refused_by_name_not_skipped(path: Path, record: list[Any], named: str) -> None:
    log = MetadataLog(path, release="9.9")
    append(log, ControllerEpochRecord(1, "9.9"))
    log.close()
    content = path.read_bytes() + framed(["entry", 1, 1, [record]])
    path.write_bytes(content)
    with pytest.raises(
        MetadataLogError, match=rf"{path}, byte \d+: a record of the {named}.*Coterie 9\.9 wrote it.*start"
    ):
        MetadataLog(path)
    assert path.read_bytes() == content


@pytest.mark.conformance("N-E-02")
def test_values_beyond_the_known_fields_of_a_record_are_left_out(path: Path) -> None:
    written(path)
    more = ["producer_ids", 0, 5000, "a field of a newer release"]
    path.write_bytes(path.read_bytes() + framed(["entry", 4, len(RECORDS), [more]]))
    assert reopened(path).committed.next_producer_id == 5000


@pytest.mark.parametrize(
    ("epoch", "index", "wrong"),
    [
        (4, len(RECORDS) + 1, "an entry after 8 records, but 7 come before it"),
        (3, len(RECORDS), "epoch 3 after epoch 4"),
    ],
)
def test_an_entry_out_of_its_order_is_refused(path: Path, epoch: int, index: int, wrong: str) -> None:
    written(path)
    path.write_bytes(path.read_bytes() + encode(Entry(epoch, index, (ProducerIdsRecord(1),)), LEVEL))
    with pytest.raises(MetadataLogError, match=wrong):
        MetadataLog(path)


def test_a_controller_that_was_followed_by_another_decides_nothing(path: Path) -> None:
    written(path)
    log = MetadataLog(path)
    size = path.stat().st_size
    with pytest.raises(NotControllerError, match="epoch 4 has begun: that of epoch 3 decides nothing"):
        log.append([ProducerIdsRecord(1)], epoch=3)
    assert (path.stat().st_size, log.decided.next_producer_id) == (size, 3000)
    assert log.append([ControllerEpochRecord(5)], epoch=5).done
    with pytest.raises(NotControllerError):
        log.append([ProducerIdsRecord(1)], epoch=4)
    log.close()


def test_a_record_that_cannot_be_applied_is_never_written(path: Path) -> None:
    """It would keep every later controller from starting."""
    expected = written(path)
    log = MetadataLog(path)
    size = path.stat().st_size
    with pytest.raises(KeyError):
        append(log, ProducerIdsRecord(9), RemoveTopicRecord("no such topic"))
    assert log.decided.to_wire() == log.committed.to_wire() == expected
    assert path.stat().st_size == size
    append(log, ProducerIdsRecord(10))
    log.close()
    assert reopened(path).committed.next_producer_id == 10


def test_a_long_log_is_rewritten_as_a_snapshot_that_says_the_same(path: Path) -> None:
    expected = written(path)
    log = MetadataLog(path)
    for i in range(200):
        append(log, ProducerIdsRecord(3000 + i))
    expected = log.committed.to_wire()
    log.close()
    long = path.stat().st_size
    log = MetadataLog(path, snapshot_every=100)
    assert path.stat().st_size < long / 5
    assert log.committed.to_wire() == expected
    append(log, ProducerIdsRecord(7))
    log.close()
    found = reopened(path).committed
    assert found.next_producer_id == 7
    assert found.version == expected[2] + 1
    assert not path.with_suffix(".new").exists()


def test_a_log_in_use_is_rewritten_each_time_it_has_become_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewritten = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda old, new: (rewritten.append(new), replace(old, new)))
    log = MetadataLog(path, snapshot_every=20)
    for i in range(200):
        append(log, ProducerIdsRecord(i))
    log.close()
    assert len(rewritten) == 11, "every 18 records: the snapshot counts as two"
    one = len(encode(Entry(0, 199, (ProducerIdsRecord(199),)), LEVEL))
    assert path.stat().st_size < 25 * one + len(encode(log.committed.image(), LEVEL))
    assert reopened(path).committed.to_wire() == log.committed.to_wire()


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
        append(log, ProducerIdsRecord(i))
    with monkeypatch.context() as patch:
        if refused == "replace":
            patch.setattr(os, refused, full)
        for i in range(18, 38):
            append(log, ProducerIdsRecord(i))
    assert len(asked) == 1, "not at each record"
    assert reopened_copy(path).committed.to_wire() == log.committed.to_wire()
    long = path.stat().st_size
    for i in range(38, 42):
        append(log, ProducerIdsRecord(i))
    log.close()
    assert path.stat().st_size < long
    assert reopened(path).committed.next_producer_id == 41


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
        append(log, ProducerIdsRecord(i))
    refusals += [FULL, FULL]
    for _ in range(2):
        with pytest.raises(OSError, match="disk"):
            append(log, ProducerIdsRecord(99))
    assert log.committed.next_producer_id == 18
    append(log, ProducerIdsRecord(100))
    log.close()
    assert reopened(path).committed.next_producer_id == 100


def reopened_copy(path: Path) -> MetadataLog:
    """The log as a successor would find it now."""
    copied = path.parent.with_name("copy") / path.name
    copied.parent.mkdir()
    copied.write_bytes(path.read_bytes())
    return reopened(copied)


def test_a_crash_before_the_snapshot_is_in_place_leaves_the_log(path: Path) -> None:
    expected = written(path)
    path.with_suffix(".new").write_bytes(b"half a snaps")
    assert reopened(path).committed.to_wire() == expected
