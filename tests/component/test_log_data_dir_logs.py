"""The data directory has the logs of its partitions, and knows how it was left."""

import os
from pathlib import Path

import pytest

from actors.log import data_dir
from actors.log.clean_stop import CLEAN_NAME
from actors.log.compaction import compact
from actors.log.config import LogConfig
from actors.log.data_dir import DataDir, remove_folder
from actors.log.errors import StorageError
from tests.component.test_log_data_dir import open_dir
from tests.support.log_helpers import NOW_MS, FullDisk, append, config, content, machine, values

T1, T2 = bytes(range(16)), bytes(range(16, 32))


def load(data_dir):
    return data_dir.load(lambda topic: LogConfig(), NOW_MS)


@pytest.mark.parametrize("clean", [True, False])
def test_logs_come_back(tmp_path, clean):
    directory = open_dir(tmp_path)
    for topic, partition in (("a", 0), ("a", 12), ("b-1.x_y", 3)):
        append(directory.create(topic, partition, T1, LogConfig(), NOW_MS), values(topic.encode()))
    assert directory.create("a", 0, T1, LogConfig(), NOW_MS) is directory.get("a", 0)
    directory.close() if clean else directory.abandon()
    directory = open_dir(tmp_path)
    assert directory.was_clean == clean
    assert load(directory) == []
    assert sorted(directory.logs) == [("a", 0), ("a", 12), ("b-1.x_y", 3)]
    assert directory.topic_ids[("a", 12)] == T1
    assert content(directory.get("b-1.x_y", 3)) == [(0, b"k", b"b-1.x_y")]
    assert (tmp_path / "a-0" / "partition.metadata").read_text().startswith("version: 0\ntopic_id: AAECAw")
    directory.close()


def test_a_deleted_log_is_gone_at_once(tmp_path):
    directory = open_dir(tmp_path)
    name = "t" * 249
    append(directory.create(name, 0, T1, LogConfig(), NOW_MS), values(b"old"))
    folder = directory.delete(name, 0)
    assert directory.get(name, 0) is None
    assert directory.delete(name, 0) is None
    again = directory.create(name, 0, T2, LogConfig(), NOW_MS)
    assert content(again) == []
    remove_folder(folder)
    remove_folder(folder)
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_dir()) == [f"{name}-0"]
    directory.close()


def test_an_interrupted_deletion_is_finished(tmp_path):
    directory = open_dir(tmp_path)
    directory.create("t", 0, T1, LogConfig(), NOW_MS)
    folder = directory.delete("t", 0)
    directory.close()
    directory = open_dir(tmp_path)
    assert load(directory) == []
    assert not folder.exists()
    assert directory.logs == {}
    directory.close()


@pytest.mark.parametrize("loaded", [True, False])
def test_a_folder_of_another_topic_of_the_same_name_is_set_aside(tmp_path, loaded):
    directory = open_dir(tmp_path)
    append(directory.create("t", 0, T1, LogConfig(), NOW_MS), values(b"old"))
    if not loaded:
        directory.close()
        directory = open_dir(tmp_path)
    log = directory.create("t", 0, T2, LogConfig(), NOW_MS)
    assert content(log) == []
    assert directory.topic_ids[("t", 0)] == T2
    aside = [each for each in tmp_path.iterdir() if each.suffix == ".stray"]
    assert len(aside) == 1
    assert (aside[0] / f"{0:020d}.log").stat().st_size > 0
    directory.close()
    directory = open_dir(tmp_path)
    assert load(directory) == [aside[0].name]
    directory.close()


def test_a_topic_id_the_disk_refused_at_first_is_written_later(tmp_path):
    directory = open_dir(tmp_path)
    in_the_way = tmp_path / "t-0" / data_dir.PARTITION_META_NAME
    in_the_way.mkdir(parents=True)
    with pytest.raises(OSError):
        directory.create("t", 0, T1, LogConfig(), NOW_MS)
    in_the_way.rmdir()
    append(directory.create("t", 0, T1, LogConfig(), NOW_MS), values(b"old"))
    directory.close()
    directory = open_dir(tmp_path)
    load(directory)
    assert directory.topic_ids == {("t", 0): T1}
    assert content(directory.create("t", 0, T2, LogConfig(), NOW_MS)) == [], "another topic of the same name"
    directory.close()


def test_odd_folders_and_bad_logs_do_not_stop_the_others(tmp_path):
    directory = open_dir(tmp_path)
    directory.create("t", 0, T1, LogConfig(), NOW_MS)
    directory.close()
    (tmp_path / "logs").mkdir()
    (tmp_path / "bad-0").mkdir()
    (tmp_path / "bad-0" / f"{0:020d}.log").mkdir()
    directory = open_dir(tmp_path)
    assert load(directory) == ["bad-0", "logs"]
    assert sorted(directory.logs) == [("t", 0)]
    directory.close()


def test_a_log_that_cannot_close_makes_the_stop_unclean(tmp_path, monkeypatch):
    directory = open_dir(tmp_path)
    good = directory.create("t", 0, T1, LogConfig(), NOW_MS)
    bad = directory.create("t", 1, T1, LogConfig(), NOW_MS)
    append(good, values(b"v"))

    def fail():
        raise StorageError("the disk is gone")

    monkeypatch.setattr(bad, "close", fail)
    directory.close()
    bad.abandon()
    directory = open_dir(tmp_path)
    assert not directory.was_clean
    directory.close()


@pytest.mark.parametrize("later", [False, True])
def test_a_log_that_was_not_checked_makes_the_stop_unclean(tmp_path, later):
    directory = open_dir(tmp_path)
    append(directory.create("t", 0, T1, LogConfig(), NOW_MS), values(b"v"))
    directory.abandon()
    directory = open_dir(tmp_path)
    in_the_way = tmp_path / "t-0" / "odd.tmp"
    in_the_way.mkdir()
    assert load(directory) == ["t-0"]
    in_the_way.rmdir()
    if later:
        assert len(content(directory.create("t", 0, T1, LogConfig(), NOW_MS))) == 1
    directory.close()
    directory = open_dir(tmp_path)
    assert directory.was_clean == later
    directory.close()


def test_a_mark_the_disk_refuses_makes_the_stop_unclean_and_gives_the_lock_back(tmp_path):
    directory = open_dir(tmp_path)
    append(directory.create("t", 0, T1, LogConfig(), NOW_MS), values(b"v"))
    in_the_way = tmp_path / f"{CLEAN_NAME}.tmp"
    in_the_way.mkdir()
    directory.close()
    in_the_way.rmdir()
    directory = open_dir(tmp_path)
    assert not directory.was_clean
    directory.close()


def test_what_was_not_closed_is_intact_unless_the_machine_has_booted_since(tmp_path: Path) -> None:
    seen = []
    for boot, told in [(b"one", True), (b"one", True), (b"two", False), (b"two", True), (b"two", False)]:
        opened = DataDir.open(tmp_path, "c", 0, machine(boot=lambda boot=boot: boot))
        seen.append(opened.intact)
        if told:
            opened.note_boot()
        opened.abandon()
    # A first start has nothing to lose. A start that could not tell anybody leaves that to the next one.
    assert seen == [True, True, False, False, True]


def test_what_was_under_way_for_a_deleted_log_does_nothing_to_its_namesake(tmp_path):
    limits = LogConfig(
        segment_bytes=70, cleanup_policy=("compact", "delete"), retention_ms=1, min_cleanable_dirty_ratio=0
    )
    disk = FullDisk()
    directory = open_dir(tmp_path, writer=disk)
    old = directory.create("t", 0, T1, limits, NOW_MS)
    for value in (b"1", b"2", b"3", b"4"):
        append(old, values(value))
    old.flush()
    append(old, values(b"5"))
    written = compact(old.cleaning.plan(NOW_MS), disk)
    done, later = old.flushing.begin(), old.flushing.begin()
    done.run()
    old.retention.delete_before(3)
    failing = directory.create("u", 0, T1, limits, NOW_MS)
    append(failing, values(b"1"))
    disk.fsync_error = OSError(5, "Input/output error")
    with pytest.raises(StorageError):
        failing.flush()
    disk.fsync_error = None
    repair = failing.repairs.begin(NOW_MS)

    news = []
    for topic in ("t", "u"):
        directory.delete(topic, 0)
        news.append(directory.create(topic, 0, T2, LogConfig(), NOW_MS))
        append(news[-1], values(b"new"))
        (news[-1].directory / "00000000000000000000.log.cleaned").touch()  # of a compaction under way

    def files():
        return {path: path.read_bytes() for new in news for path in new.directory.iterdir()}

    before = files()
    later.run()
    repair.run()
    old.flushing.finish(done)
    old.flushing.finish(later)
    assert old.cleaning.swap(written, NOW_MS) == []
    assert old.retention.apply(NOW_MS + 1000) == []
    for refused in (old.write_checkpoint, lambda: old.truncate_to(1), lambda: old.reset_to(9)):
        with pytest.raises(StorageError):
            refused()
    with pytest.raises(StorageError):
        failing.repairs.finish(repair)
    assert files() == before
    directory.close()


def test_a_clean_stop_before_the_controller_knows_of_a_loss_leaves_it_to_the_successor(tmp_path: Path) -> None:
    opened = DataDir.open(tmp_path, "c", 0, machine(boot=lambda: b"one"))
    opened.note_boot()
    opened.abandon()
    seen = []
    for told in (False, True, True):
        opened = DataDir.open(tmp_path, "c", 0, machine(boot=lambda: b"two"))
        seen.append(opened.intact)
        if told:
            opened.note_boot()
        opened.close()
    assert seen == [False, False, True]


@pytest.mark.parametrize(
    ("was_clean", "position"), [(True, 4), (True, 8), (True, 100), (False, 8), (False, 16), (False, 100)]
)
def test_a_directory_is_not_intact_if_a_log_has_lost_what_was_on_disk(
    tmp_path: Path, was_clean: bool, position: int
) -> None:
    """The last batch is damaged, and cut off as a torn one. But no crash has torn it."""
    directory = open_dir(tmp_path)
    logs = [directory.create("t", index, T1, LogConfig(), NOW_MS) for index in range(2)]
    for log in logs:
        for number in range(3):
            append(log, values(b"%d" % number * 80))
        log.flush()
    directory.note_boot()
    path, size = logs[0].segments.active.path, logs[0].size_bytes
    if was_clean:
        directory.close()
    else:
        directory.abandon()
    data = bytearray(path.read_bytes())
    data[size * 2 // 3 + position] ^= 0x40
    if was_clean and position == 100:
        del data[size * 2 // 3 + position :]
    path.write_bytes(data)

    directory = open_dir(tmp_path)
    assert directory.intact
    load(directory)
    assert not directory.intact
    assert directory.logs["t", 0].log_end_offset == 2
    for log in directory.logs.values():
        log.flush()
    directory.abandon()  # before the controller knew

    directory = open_dir(tmp_path)
    assert not directory.intact
    load(directory)
    directory.note_boot()
    directory.abandon()

    directory = open_dir(tmp_path)
    load(directory)
    assert directory.intact
    directory.close()


def test_a_loss_of_power_is_remembered_until_each_log_has_been_looked_at(tmp_path: Path) -> None:
    """The first start after it cannot open a log, and the second one is in the same boot of the machine."""
    directory = DataDir.open(tmp_path, "c", 0, machine(boot=lambda: b"one"))
    log = directory.create("t", 0, T1, config(segment_bytes="250"), NOW_MS)
    for _ in range(5):
        append(log, values(b"v" * 20))
    directory.note_boot()
    paths = [segment.path for segment in log.segments]
    assert len(paths) == 3
    directory.abandon()
    os.truncate(paths[1], paths[1].stat().st_size // 2)
    aside = paths[2].rename(tmp_path / "aside")
    paths[2].mkdir()
    directory = DataDir.open(tmp_path, "c", 0, machine(boot=lambda: b"two"))
    assert load(directory) == ["t-0"]
    directory.note_boot()
    directory.abandon()
    paths[2].rmdir()
    aside.rename(paths[2])
    directory = DataDir.open(tmp_path, "c", 0, machine(boot=lambda: b"two"))
    assert load(directory) == []
    assert (directory.intact, directory.logs["t", 0].log_end_offset) == (False, 3)
    directory.note_boot()
    directory.close()
    directory = DataDir.open(tmp_path, "c", 0, machine(boot=lambda: b"two"))
    assert directory.intact
    directory.close()


def test_a_log_that_is_opened_late_and_has_lost_what_was_on_disk_is_named(tmp_path: Path) -> None:
    """When the directory was loaded, its segment could not be read."""
    directory = open_dir(tmp_path)
    log = directory.create("t", 0, T1, LogConfig(), NOW_MS)
    for number in range(3):
        append(log, values(b"%d" % number))
    log.flush()
    directory.note_boot()
    path, size = log.segments.active.path, log.size_bytes
    directory.abandon()
    kept = path.read_bytes()
    path.unlink()
    path.mkdir()

    directory = open_dir(tmp_path)
    assert load(directory) == ["t-0"]
    assert (directory.intact, directory.not_opened, directory.shortened) == (True, {("t", 0)}, set())
    path.rmdir()
    path.write_bytes(kept[: size * 2 // 3])
    assert directory.create("t", 0, T1, LogConfig(), NOW_MS).log_end_offset == 2
    assert (directory.intact, directory.not_opened, directory.shortened) == (False, set(), {("t", 0)})
    directory.abandon()  # before the controller knew

    directory = open_dir(tmp_path)
    assert not directory.intact
    directory.close()
