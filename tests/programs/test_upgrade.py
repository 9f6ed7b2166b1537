"""A cluster of an earlier build is upgraded broker by broker while clients write and read: nothing is lost.

The code that is installed is exchanged under the running processes. So the controller is of the earlier build while the
first broker is not any more; then its process ends, and one of the present build takes over, with one broker of each.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition

from actors.broker.handlers.features import OURS
from actors.wire.messages import UpdateFeaturesRequest
from placement.records import METADATA_LEVELS
from tests.compat.raw import Raw
from tests.ray.support import ROOT, patient, read_all, topic, wait_until
from tests.ray.traffic import Committer, Member, Writer
from tests.support.earlier_build import BEFORE_VERSIONS, archived, present
from tests.support.librdkafka import KEEPS_BROKERS

PARTITIONS = 4
SHELLS = str(ROOT / "tests" / "support" / "shells_of_a_build.py")
PROCESS = str(ROOT / "tests" / "support" / "build_process.py")


class Upgraded:
    """A cluster in a folder; `install` exchanges the code that its next processes have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "logs").mkdir(parents=True)
        (folder / "controller").mkdir()
        self.controller: subprocess.Popen[str]

    def install(self, code: Path) -> None:
        new = self.folder / "installed.new"
        new.symlink_to(code)
        os.replace(new, self.folder / "installed")

    def start_controller(self, *, restarted: bool = False) -> None:
        installed = (self.folder / "installed").resolve()
        with open(self.folder / "logs" / f"controller-{installed.name}.log", "wb") as log:
            self.controller = subprocess.Popen(
                [sys.executable, "-P", PROCESS, str(self.folder), "controller", str(int(restarted))],
                env={**os.environ, "PYTHONPATH": str(installed)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.heard() == "ready", self.logs()

    def heard(self) -> str:
        assert self.controller.stdout is not None
        return self.controller.stdout.readline().strip()

    def ask(self, line: str) -> str:
        assert self.controller.stdin is not None
        self.controller.stdin.write(line + "\n")
        self.controller.stdin.flush()
        return self.heard()

    def kill_controller(self) -> None:
        self.controller.send_signal(signal.SIGKILL)
        self.controller.communicate()

    def processes(self) -> list[list[str]]:
        """Each that was started: its pid, role, broker and build."""
        path = self.folder / "processes"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def bootstrap(self) -> str:
        ports = [(self.folder / f"ports-{broker}").read_text() for broker in range(2)]
        return ",".join(f"127.0.0.1:{port.split(':')[1].strip(' }')}" for port in ports)

    def logs(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()}" for path in sorted((self.folder / "logs").iterdir()))

    def end(self) -> None:
        """No process is left."""
        for pid, *_ in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(int(pid))
                if str(self.folder) in process.cmdline():
                    process.kill()
        self.controller.kill()
        self.controller.communicate()


@pytest.fixture
def builds(tmp_path: Path) -> Iterator[Path]:
    """A folder with the code of both builds, in `earlier` and `present`."""
    archived(BEFORE_VERSIONS, tmp_path / "earlier")
    present(tmp_path / "present")
    yield tmp_path
    shutil.rmtree(tmp_path / "earlier")


@pytest.fixture
def cluster(builds: Path) -> Iterator[Upgraded]:
    made = Upgraded(builds / "cluster")
    made.install(builds / "earlier")
    try:
        made.start_controller()
        yield made
    finally:
        made.end()


def newest_format(address: str) -> str:
    """Have the metadata written in the newest format, as `kafka-features upgrade` does; why not, if that is refused."""
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature=OURS, max_version_level=METADATA_LEVELS[-1])
    with Raw(address) as raw:
        return raw.call(UpdateFeaturesRequest(feature_updates=[update]), 2).error_message or ""


def test_an_earlier_build_is_upgraded_broker_by_broker_and_nothing_acknowledged_is_lost(
    cluster: Upgraded, builds: Path
) -> None:
    servers = cluster.bootstrap()
    name = topic(servers, "flights", PARTITIONS, 2)
    commits = Consumer({"bootstrap.servers": servers, "group.id": "commits", "log_level": 0, **KEEPS_BROKERS})
    with (
        Writer(servers, name) as writer,
        Member(servers, "members", name) as member,
        Committer(commits, name) as committed,
    ):
        wait_until(lambda: member.values and committed.last, what="traffic")

        def go_on() -> None:
            values, last = len(member.values), committed.last
            wait_until(lambda: len(member.values) > values + 20 and committed.last > last, what=cluster.logs)

        cluster.install(builds / "present")
        assert cluster.ask("restart 0") == "back"  # by a controller of the earlier build
        go_on()
        assert "the other end is of an older build: RaiseMetadataVersion" in newest_format(servers.split(",")[0])
        cluster.kill_controller()
        cluster.start_controller(restarted=True)  # of the present build, with one broker of each
        go_on()
        assert newest_format(servers.split(",")[0]).startswith("broker 1 (an old build, which does not say so) speaks")
        assert cluster.ask("restart 1") == "back"
        assert cluster.ask("leaders") == "[0, 1]"
        assert newest_format(servers.split(",")[1]) == ""
        go_on()
        committed.end()
        writer.end()
        wait_until(lambda: writer.acknowledged <= member.values, what="the group to read all")
    assert writer.failed == 0
    assert writer.acknowledged <= read_all(servers, name, len(writer.acknowledged))
    (offset,) = patient(lambda: commits.committed([TopicPartition(name, 0)], timeout=10))
    assert offset.offset >= committed.last
    commits.close()
    brokers = [(broker, build) for _, role, broker, build in cluster.processes() if role == "broker"]
    assert brokers == [("0", "earlier"), ("1", "earlier"), ("0", "present"), ("1", "present")]
    said = cluster.logs()
    for wrong in ("hung up on a", "refused a message", "no version of our protocols", "Traceback"):
        assert wrong not in said, said
    cluster.ask("end")
    assert cluster.controller.wait(60) == 0


def test_a_controller_of_the_earlier_build_starts_processes_where_the_present_one_is_installed(builds: Path) -> None:
    """Ray brings the classes of its actors along, and what they are told; all that they call is installed there."""
    for build, verb in (("earlier", "dump"), ("present", "load")):
        done = subprocess.run(
            [sys.executable, "-P", SHELLS, verb, str(builds / "shells"), str(builds / "data")],
            env={**os.environ, "PYTHONPATH": str(builds / build)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout == "actors.links.versions"
    assert "was started by version 0.0.9" in done.stderr
