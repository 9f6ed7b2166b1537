"""The machine loses power: after a clean stop nothing is lost that had been on disk, and epochs are known again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.log.clean_stop import CLEAN_NAME
from actors.log.config import LogConfig
from actors.log.data_dir import DataDir
from tests.support.left_open import LEFT_OPEN
from tests.support.log_helpers import NOW_MS, append, content, machine, open_log, values

TOPIC_ID = bytes(range(16))
EPOCHS = "leader-epoch-checkpoint"
SMALL_FILES = ("log.checkpoint", EPOCHS)


def opened(path: Path) -> DataDir:
    directory = DataDir.open(path, "c", 0, machine(boot=lambda: b"a boot"))
    LEFT_OPEN.callback(directory.abandon)
    assert directory.load(lambda topic: LogConfig(), NOW_MS) == []
    return directory


def closed_with_former_files(path: Path, *, start: int = 0) -> None:
    """Five records in two epochs, all on disk; but the small files beside them are as they were after the first record.

    So it may be after a loss of power: nobody has flushed their newest contents.
    """
    directory = opened(path)
    log = directory.create("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    append(log, values(b"0"), epoch=1)
    log.flush()
    log.write_checkpoint()
    former = {name: (path / "t-0" / name).read_bytes() for name in SMALL_FILES}
    for number in range(1, 5):
        append(log, values(b"%d" % number), epoch=7)
    log.retention.delete_before(start)
    directory.close()
    for name, data in former.items():
        assert (path / "t-0" / name).read_bytes() != data
        (path / "t-0" / name).write_bytes(data)


def test_all_records_are_there_although_the_checkpoint_is_an_older_one(tmp_path: Path) -> None:
    """The log was cut where the older one said that it ended."""
    closed_with_former_files(tmp_path)
    directory = opened(tmp_path)
    log = directory.logs["t", 0]
    assert [value for _, _, value in content(log)] == [b"0", b"1", b"2", b"3", b"4"]
    assert log.epoch_entries() == [(1, 0), (7, 1)]
    assert (log.high_watermark, directory.intact) == (5, True)
    directory.abandon()
    checkpoint = (tmp_path / "t-0" / "log.checkpoint").read_text()
    assert '"recovery_point": 5' in checkpoint, "the mark has gone"
    log = opened(tmp_path).logs["t", 0]
    assert (log.log_end_offset, log.epoch_entries()) == (5, [(1, 0), (7, 1)]), "also after a crash that follows"


def test_records_that_were_deleted_do_not_come_back(tmp_path: Path) -> None:
    closed_with_former_files(tmp_path, start=3)
    log = opened(tmp_path).logs["t", 0]
    assert [value for _, _, value in content(log)] == [b"3", b"4"]
    assert log.epoch_entries() == [(7, 3)]


def earlier(mark: Path) -> None:
    mark.write_bytes(b"")


def cut_off(mark: Path) -> None:
    mark.write_bytes(mark.read_bytes()[:-5])


def odd(mark: Path) -> None:
    mark.write_bytes(mark.read_bytes().replace(b"epochs", b"epoch!"))


def another(mark: Path) -> None:
    mark.write_bytes(b'{"logs": {}}')


@pytest.mark.parametrize("change", [earlier, cut_off, odd, another])
def test_a_mark_that_does_not_say_how_a_log_was_closed_loses_none_of_it(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    closed_with_former_files(tmp_path)
    change(tmp_path / CLEAN_NAME)
    directory = opened(tmp_path)
    assert directory.was_clean == (change is not cut_off)
    log = directory.logs["t", 0]
    assert (log.log_end_offset, log.epoch_entries()) == (5, [(1, 0), (7, 1)])


def test_fields_that_a_later_release_has_in_the_mark_are_passed_over(tmp_path: Path) -> None:
    closed_with_former_files(tmp_path, start=3)
    mark = tmp_path / CLEAN_NAME
    mark.write_bytes(mark.read_bytes().replace(b'"cleaned_to"', b'"newer": {}, "cleaned_to"'))
    assert opened(tmp_path).logs["t", 0].log_start_offset == 3


def test_a_folder_that_somebody_has_put_in_the_place_of_a_log_is_not_cut_to_its_end(tmp_path: Path) -> None:
    """As from a backup, or of another broker."""
    other = opened(tmp_path / "other")
    log = other.create("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    for number in range(9):
        append(log, values(b"%d" % number))
    other.close()
    closed_with_former_files(tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "t-0")
    shutil.copytree(tmp_path / "other" / "t-0", tmp_path / "data" / "t-0")
    log = opened(tmp_path / "data").logs["t", 0]
    assert (log.log_end_offset, log.epoch_entries()) == (9, [(0, 0)])


def test_the_mark_speaks_of_a_log_that_the_next_owner_could_not_open(tmp_path: Path) -> None:
    closed_with_former_files(tmp_path)
    in_the_way = tmp_path / "t-0" / "odd.tmp"
    in_the_way.mkdir()
    directory = DataDir.open(tmp_path, "c", 0, machine(boot=lambda: b"a boot"))
    assert directory.load(lambda topic: LogConfig(), NOW_MS) == ["t-0"]
    directory.close()
    in_the_way.rmdir()
    assert opened(tmp_path).logs["t", 0].log_end_offset == 5


def test_a_log_that_was_made_anew_is_not_the_one_that_the_mark_speaks_of(tmp_path: Path) -> None:
    closed_with_former_files(tmp_path)
    directory = opened(tmp_path)
    directory.delete("t", 0)
    log = directory.create("t", 0, bytes(16), LogConfig(), NOW_MS)
    assert (log.log_end_offset, log.epoch_entries(), log.is_short) == (0, [], False)
    directory.close()
    for name in (tmp_path / "t-0").iterdir():
        name.unlink()
    (tmp_path / "t-0").rmdir()
    directory = opened(tmp_path)
    log = directory.create("t", 0, TOPIC_ID, LogConfig(), NOW_MS)
    assert (log.log_end_offset, log.is_short, directory.intact) == (0, False, True)


def test_without_their_file_epochs_are_found_again_in_all_segments(tmp_path: Path) -> None:
    """Only the newest ones were found: an older one seemed to end where its followers have other records."""
    log = open_log(tmp_path, segment_bytes="300")
    for number in range(12):
        append(log, values(b"%d" % number * 60), epoch=1 + number // 4)
    log.flush()
    log.write_checkpoint()
    append(log, values(b"x"), epoch=9)
    log.abandon()
    (tmp_path / EPOCHS).unlink()
    log = open_log(tmp_path, segment_bytes="300")
    assert log.epoch_entries() == [(1, 0), (2, 4), (3, 8), (9, 12)]
    assert log.end_offset_for_epoch(1) == (1, 4)
