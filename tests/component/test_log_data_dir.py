"""The data directory: who may use it, and what is in it."""

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from actors.log import data_dir
from actors.log.clean_stop import CLEAN_NAME
from actors.log.compaction import compact
from actors.log.config import LogConfig
from actors.log.data_dir import DataDir, read_properties, remove_folder
from actors.log.errors import DataDirError, StorageError
from actors.log.files import REAL_WRITER
from tests.support.log_helpers import NOW_MS, FullDisk, append, content, machine, values

T1, T2 = bytes(range(16)), bytes(range(16, 32))


def open_dir(path, cluster="c-1", broker=1, timeout=0.0, writer=REAL_WRITER):
    return DataDir.open(path, cluster, broker, machine(writer), lock_timeout_s=timeout)


def load(data_dir):
    return data_dir.load(lambda topic: LogConfig(), NOW_MS)


def test_a_new_directory_gets_an_identity(tmp_path):
    directory = open_dir(tmp_path / "a" / "b")
    assert read_properties(tmp_path / "a" / "b" / "meta.properties") == {
        "version": "1",
        "cluster.id": "c-1",
        "node.id": "1",
        "directory.id": directory.directory_id,
    }
    assert not directory.was_clean
    directory.close()
    again = open_dir(tmp_path / "a" / "b")
    assert again.was_clean
    again.abandon()
    assert not open_dir(tmp_path / "a" / "b").was_clean


@pytest.mark.parametrize(
    ("meta", "told"),
    [
        (None, ["is not empty", "topic-0", "no meta.properties"]),
        ("version=2\ncluster.id=c-1\nnode.id=1\n", ["version 2", "up to 1"]),
        ("cluster.id=c-1\nnode.id=1\n", ["version missing"]),
        ("version=1\ncluster.id=c-2\nnode.id=1\n", ["cluster.id=c-2", "expected cluster.id=c-1"]),
        ("version=1\nnode.id=1\n", ["cluster.id=missing", "expected cluster.id=c-1"]),
        ("version=1\ncluster.id=c-1\nnode.id=7\n", ["node.id=7", "expected node.id=1"]),
        ("version=0\ncluster.id=c-1\nbroker.id=7\n", ["node.id=7", "expected node.id=1"]),
    ],
)
def test_a_directory_that_is_not_ours_is_refused(tmp_path, meta, told):
    (tmp_path / "topic-0").mkdir()
    if meta is not None:
        (tmp_path / "meta.properties").write_text(meta)
    with pytest.raises(DataDirError) as caught:
        open_dir(tmp_path)
    for each in [str(tmp_path), *told]:
        assert each in str(caught.value)
    if meta is not None:
        (tmp_path / "meta.properties").write_text("# mine\nversion=0\ncluster.id=c-1\nbroker.id=1\n")
        open_dir(tmp_path).close()


@pytest.mark.conformance("N-E-07")
def test_a_directory_keeps_its_id_and_one_of_an_earlier_release_gets_one(tmp_path):
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c-1\nbroker.id=1\n")
    first = open_dir(tmp_path)
    first.close()
    assert first.directory_id
    assert read_properties(tmp_path / "meta.properties")["broker.id"] == "1", "the rest stays"
    again = open_dir(tmp_path)
    again.close()
    assert again.directory_id == first.directory_id
    assert open_dir(tmp_path / "other").directory_id != first.directory_id


@pytest.mark.conformance("N-D-01")
@pytest.mark.parametrize("meta", ["directory.id=old\n", ""])
def test_a_directory_whose_broker_was_replaced_is_refused_and_left_as_it_is(tmp_path, meta):
    text = f"version=1\ncluster.id=c-1\nnode.id=1\n{meta}"
    (tmp_path / "meta.properties").write_text(text)
    (tmp_path / ".clean_shutdown").touch()
    with pytest.raises(DataDirError, match=r"broker 1 was replaced and has directory.id=new now"):
        DataDir.open(tmp_path, "c-1", 1, machine(), directory_id="new")
    assert (tmp_path / "meta.properties").read_text() == text
    assert (tmp_path / ".clean_shutdown").exists()


@pytest.mark.conformance("N-D-01")
def test_the_directory_of_a_replacement_is_empty_and_what_was_there_is_set_aside(tmp_path):
    path = tmp_path / "broker-1"
    old = open_dir(path)
    (path / "t-0").mkdir()
    with pytest.raises(DataDirError, match="in use"):
        DataDir.open(path, "c-1", 1, machine(), 0.0, directory_id="new", anew=True)
    old.close()
    new = DataDir.open(path, "c-1", 1, machine(), directory_id="new", anew=True)
    assert (new.directory_id, (path / "t-0").exists(), new.was_clean) == ("new", False, False)
    (aside,) = tmp_path.glob("broker-1.*.replaced")
    assert (aside / "t-0").is_dir()
    assert read_properties(aside / "meta.properties")["directory.id"] == old.directory_id
    new.close()
    again = DataDir.open(path, "c-1", 1, machine(), directory_id="new", anew=True)
    assert (again.was_clean, len(list(tmp_path.glob("*.replaced")))) == (True, 1), "a second start finds the first's"
    again.close()


@pytest.mark.parametrize("owner", ["cluster.id=c-2\nnode.id=1\n", "cluster.id=c-1\nnode.id=7\n"])
def test_a_replacement_does_not_set_another_clusters_or_brokers_directory_aside(tmp_path, owner):
    path = tmp_path / "broker-1"
    path.mkdir()
    (path / "meta.properties").write_text(f"version=1\n{owner}directory.id=old\n")
    with pytest.raises(DataDirError, match="belongs to another cluster or broker"):
        DataDir.open(path, "c-1", 1, machine(), directory_id="new", anew=True)
    assert [each.name for each in tmp_path.iterdir()] == ["broker-1"]


def test_a_crash_while_the_identity_is_written_does_not_matter(tmp_path):
    (tmp_path / ".lock").write_text("")
    (tmp_path / "meta.properties.tmp").write_text("versi")
    open_dir(tmp_path).close()


def test_a_path_that_is_no_directory(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirError, match="file"):
        open_dir(tmp_path / "file")


HOLDER = """
    import sys
    from actors.log.data_dir import DataDir
    from tests.support.log_helpers import machine
    directory = DataDir.open(sys.argv[1], "c-1", 1, machine(), lock_timeout_s=0)
    print("locked", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of tmp_path."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=os.getcwd(),
    )
    assert process.stdout.readline() == b"locked\n"
    yield process
    process.kill()
    process.communicate()


def test_two_processes_do_not_share_a_directory(tmp_path, holder):
    with pytest.raises(DataDirError) as caught:
        open_dir(tmp_path, timeout=0.1)
    assert str(tmp_path) in str(caught.value)
    assert f"pid {holder.pid}" in str(caught.value)


def test_a_dying_owner_is_waited_for(tmp_path, holder):
    opened = []
    waiting = threading.Thread(target=lambda: opened.append(open_dir(tmp_path, timeout=30)))
    waiting.start()
    holder.kill()
    holder.wait()
    waiting.join(30)
    assert opened
    assert not opened[0].was_clean
    opened[0].close()


def test_a_refused_directory_is_not_left_locked(tmp_path):
    open_dir(tmp_path).close()
    with pytest.raises(DataDirError):
        open_dir(tmp_path, cluster="other")
    open_dir(tmp_path).close()


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
    limits = LogConfig.from_configs(
        {
            "segment.bytes": "70",
            "cleanup.policy": "compact,delete",
            "retention.ms": "1",
            "min.cleanable.dirty.ratio": "0",
        }
    )
    disk = FullDisk()
    directory = open_dir(tmp_path, writer=disk)
    old = directory.create("t", 0, T1, limits, NOW_MS)
    for value in (b"1", b"2", b"3", b"4"):
        append(old, values(value))
    old.flush()
    append(old, values(b"5"))
    written = compact(old.plan_compaction(NOW_MS), disk)
    done, later = old.begin_flush(), old.begin_flush()
    done.run()
    old.delete_records_before(3)
    failing = directory.create("u", 0, T1, limits, NOW_MS)
    append(failing, values(b"1"))
    disk.fsync_error = OSError(5, "Input/output error")
    with pytest.raises(StorageError):
        failing.flush()
    disk.fsync_error = None
    repair = failing.begin_repair(NOW_MS)

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
    old.finish_flush(done)
    old.finish_flush(later)
    assert old.swap(written, NOW_MS) == []
    assert old.apply_retention(NOW_MS + 1000) == []
    for refused in (old.write_checkpoint, lambda: old.truncate_to(1), lambda: old.reset_to(9)):
        with pytest.raises(StorageError):
            refused()
    with pytest.raises(StorageError):
        failing.finish_repair(repair)
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
