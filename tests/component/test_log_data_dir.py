"""The data directory belongs to one broker, and to one process at a time."""

import os
import subprocess
import sys
import textwrap
import threading

import pytest

from actors.log.data_dir import DataDir, read_properties
from actors.log.errors import DataDirError
from actors.log.files import REAL_WRITER
from tests.support.log_helpers import machine


def open_dir(path, cluster="c-1", broker=1, timeout=0.0, writer=REAL_WRITER):
    return DataDir.open(path, cluster, broker, machine(writer), lock_timeout_s=timeout)


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
