"""The fixtures that pytest has from us, in runs of pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.one_process import ROOT, runs, wait_until

TESTS = """
import pathlib
import socket
import pytest

HERE = pathlib.Path(__file__).parent


def _reached(servers):
    for each in servers.split(","):
        host, _, port = each.rpartition(":")
        socket.create_connection((host, int(port)), 10).close()


@pytest.mark.parametrize("n", range(4))
def test_topics_are_new(coterie_cluster, coterie_topic, n):
    _reached(coterie_cluster.bootstrap_servers)
    (HERE / f"pid-{coterie_cluster.pid}").write_text(coterie_cluster.bootstrap_servers)
    seen = HERE / f"topic-{coterie_cluster.pid}-{coterie_topic}"
    assert not seen.exists()
    seen.touch()


@pytest.mark.parametrize("coterie_topic", [7], indirect=True)
def test_a_topic_has_as_many_partitions_as_a_test_says(coterie_cluster, coterie_topic):
    coterie_cluster.lose_leader(coterie_topic, 6)
    with pytest.raises(Exception, match="no partition 7"):
        coterie_cluster.lose_leader(coterie_topic, 7)
"""


def _pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-W", "ignore", "-m", "pytest", "-p", "coterie.pytest_plugin", *options, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(("options", "clusters"), [([], 1), (["-n", "2", "--dist", "each"], 2)], ids=["alone", "xdist"])
def test_a_run_has_one_cluster_for_each_of_its_processes(tmp_path: Path, options: list[str], clusters: int) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = _pytest(tmp_path, "-c", str(tmp_path / "pytest.ini"), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    pids = [int(path.name.partition("-")[2]) for path in tmp_path.glob("pid-*")]
    assert len(pids) == clusters
    for pid in pids:
        wait_until(lambda pid=pid: not runs(pid), what="no cluster is left")


def test_brokers_and_settings_are_those_of_the_run(tmp_path: Path) -> None:
    ini = "[pytest]\ncoterie_brokers = 2\ncoterie_settings =\n  num.partitions = 3\n  log.retention.hours=5\n"
    (tmp_path / "pytest.ini").write_text(ini)
    done = _pytest(tmp_path, "-c", str(tmp_path / "pytest.ini"), "-k", "new")
    assert done.returncode == 0, done.stdout + done.stderr
    (servers,) = {path.read_text() for path in tmp_path.glob("pid-*")}
    assert len(servers.split(",")) == 2


def test_a_setting_that_is_none_is_the_reason_why_a_test_fails(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ncoterie_settings =\n  no.such.setting = 3\n")
    done = _pytest(tmp_path, "-c", str(tmp_path / "pytest.ini"), "-k", "new and 0")
    assert done.returncode == 1
    assert "no.such.setting" in done.stdout


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("coterie_brokers = x", "coterie_brokers is a whole number, at least 1, not 'x'"),
        ("coterie_brokers = 0", "coterie_brokers is a whole number, at least 1, not '0'"),
        ("coterie_settings = num.partitions", "coterie_settings has lines NAME=VALUE, not 'num.partitions'"),
        ("coterie_settings = =3", "coterie_settings has lines NAME=VALUE, not '=3'"),
    ],
)
def test_an_option_that_no_cluster_can_have_is_named_before_any_test(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{line}\n")
    done = _pytest(tmp_path, "-c", str(tmp_path / "pytest.ini"))
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert reason in done.stderr


def test_a_run_that_asks_for_none_starts_none(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_other.py").write_text(
        "import sys\ndef test_it():\n    assert not [name for name in sys.modules if name.startswith('actors')]\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-p", "coterie.pytest_plugin", "-c", "pytest.ini", "test_other.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
