"""A cluster in a child process ends with its parent, however that ends, and leaves no file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import coterie.testing
from coterie.testing import OrderError
from tests.support.one_process import ROOT, program, runs, wait_until

HAS_ONE = """
import os, sys
import coterie.testing
cluster = coterie.testing.cluster().start()
print(cluster.pid, flush=True)
{more}
sys.stdin.read()
"""
FORKS = "os.fork() or (print(os.getpid(), flush=True), sys.stdin.read(), os._exit(0))"
"""A process of the program's own that has its end of the socket, too, and lives on."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where clusters have their files, of which none may be left. Its name is short: there are sockets in it."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as made:
        yield Path(made)


def _first_line(started: subprocess.Popen[str]) -> int:
    assert started.stdout is not None
    return int(started.stdout.readline())


def _killed(started: subprocess.Popen[str]) -> None:
    started.kill()
    started.wait()


def _is_gone(child: int, folder: Path) -> None:
    wait_until(lambda: not runs(child), what="the child has ended")
    assert _left(folder) == []


def _left(folder: Path) -> list[Path]:
    return list(folder.glob("coterie-*"))


def test_kill_9_of_the_program_leaves_neither_process_nor_file(folder: Path) -> None:
    with program(HAS_ONE.format(more=""), TMPDIR=str(folder)) as started:
        child = _first_line(started)
        assert len(_left(folder)) == 1
        _killed(started)
        _is_gone(child, folder)


def test_kill_9_leaves_nothing_where_another_process_has_the_socket_too(folder: Path) -> None:
    with program(HAS_ONE.format(more=FORKS), TMPDIR=str(folder)) as started:
        child, other = _first_line(started), _first_line(started)
        try:
            _killed(started)
            _is_gone(child, folder)
            assert runs(other)
        finally:
            os.kill(other, signal.SIGKILL)


def test_kill_9_of_pytest_leaves_neither_process_nor_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_with_a_cluster(coterie_cluster, coterie_topic):\n"
        "    print(coterie_cluster.pid, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    code = "import sys, pytest; pytest.main(['-s', '-q', '-p', 'coterie.pytest_plugin', sys.argv[1]])"
    with program(code, str(tmp_path), TMPDIR=str(folder), PYTEST_ADDOPTS="") as started:
        child = _first_line(started)
        assert runs(child)
        _killed(started)
        _is_gone(child, folder)


def test_the_end_of_the_block_leaves_nothing(folder: Path) -> None:
    with coterie.testing.cluster(within=folder) as cluster:
        child = cluster.pid
        assert runs(child)
    assert not runs(child)
    assert _left(folder) == []


def test_the_end_of_the_program_leaves_nothing(folder: Path) -> None:
    code = "import coterie.testing; print(coterie.testing.cluster().start().pid, flush=True)"
    with program(code, TMPDIR=str(folder)) as started:
        _is_gone(_first_line(started), folder)


def test_the_thread_that_has_started_it_may_end() -> None:
    """The kernel tells a child of the end of the thread that started it, as of the end of its parent."""
    started: list[coterie.testing.Cluster] = []
    thread = threading.Thread(target=lambda: started.append(coterie.testing.cluster().start()))
    thread.start()
    thread.join()
    try:
        assert started[0].create_topic("orders") == "orders"
    finally:
        started[0].close()


def test_ctrl_c_is_for_the_program() -> None:
    with coterie.testing.cluster() as cluster:
        os.kill(cluster.pid, signal.SIGINT)
        assert cluster.create_topic("orders") == "orders"


def test_a_child_that_was_killed_is_said_to_have_ended(folder: Path) -> None:
    with coterie.testing.cluster(within=folder) as cluster:
        os.kill(cluster.pid, signal.SIGKILL)
        with pytest.raises(OrderError, match="the cluster's process has ended"):
            cluster.create_topic("orders")
    assert _left(folder) == []


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"num.partitions": "many"}, "num.partitions"), ({"no.such.setting": "1"}, "no.such.setting")],
)
def test_why_it_does_not_start_is_said_at_once(folder: Path, settings: dict[str, str], reason: str) -> None:
    with pytest.raises(OrderError, match=reason), coterie.testing.cluster(settings=settings, within=folder):
        pass
    assert _left(folder) == []


def test_who_uses_it_imports_no_ray_and_nothing_of_brokers() -> None:
    code = """
import sys, coterie.testing, coterie.pytest_plugin
heavy = {"ray", "pyspark", "numpy", "pyarrow", "pandas", "uvloop", "aiokafka"}
rooms = {".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("actors.")}
print(sorted(heavy & sys.modules.keys()), sorted(rooms))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[] ['actors.links', 'actors.one_process']\n"


def test_a_plugin_that_nobody_uses_imports_nothing_of_ours() -> None:
    code = "import sys, coterie.pytest_plugin; print([name for name in sys.modules if name.startswith('actors')])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_child_imports_no_ray_and_nothing_that_only_columns_need() -> None:
    code = """
import sys, actors.one_process.child
print(sorted({"ray", "pyspark", "numpy", "pyarrow", "pandas", "uvloop", "rich", "click"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
