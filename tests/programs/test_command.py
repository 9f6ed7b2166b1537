"""`coterie up`, `down` and `status` as a user has them: signals, a crash, and every error in one line with its fix."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.ray.support import (
    ROOT,
    Up,
    assert_gone,
    commit,
    committed,
    consumer,
    coterie,
    descendants,
    free_port,
    produce,
    read_all,
    topic,
    up,
    wait_until,
)


def refused(*arguments: str, code: int = 1) -> str:
    """The one line on stderr of a command that must fail."""
    done = coterie(*arguments)
    lines = done.stderr.splitlines()
    assert (done.returncode, len(lines), done.stdout) == (code, 1, ""), done
    return lines[0]


# --- signals ---


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_everything_in_order(number: int, tmp_path: Path) -> None:
    with up(tmp_path / "data", brokers=2) as running:
        with contextlib.closing(consumer(running.servers, "g")) as client:
            commit(client, topic(running.servers, "t", 1), 3)
        loaded = [each.path for each in psutil.Process(running.process.pid).memory_maps()]
        assert any("_raylet" in path for path in loaded)
        assert not any("libarrow" in path for path in loaded), "who only starts a cluster is spared it"
        code, seconds = running.end(number)
    print(f"{signal.Signals(number).name}: {seconds:.2f} s")  # noqa: T201
    assert code == 0
    assert seconds < 60  # 5 s on a quiet machine
    assert len(running.family) > 5
    for broker in (0, 1):
        assert (tmp_path / "data" / f"broker-{broker}" / ".clean_shutdown").exists()


def _to_its_group(running: Up, number: int) -> None:
    """As `timeout` does it: to the command, and then to its process group."""
    os.kill(running.process.pid, number)
    os.killpg(running.process.pid, number)


def _to_each_process(running: Up, number: int) -> None:
    """As systemd does it."""
    for process in [psutil.Process(running.process.pid), *running.family]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


@pytest.mark.parametrize("to", [_to_its_group, _to_each_process])
def test_sigterm_to_more_than_the_command_waited_a_minute_for_a_ray_that_had_ended(
    to: Callable[[Up, int], None], tmp_path: Path
) -> None:
    with up(tmp_path / "data") as running:
        code, seconds = running.end(signal.SIGTERM, to=to)
    print(f"{to.__name__}: {seconds:.2f} s")  # noqa: T201
    assert code == 0
    assert "GCS" not in "".join(running.errors)
    # Whichever it finds first: Ray's processes gone, or, where the machine is busy, a controller that cannot answer.
    said = [line for line in running.errors if "Ray has been ended at the same time" in line or "in order" in line]
    assert bool(said) == (to is _to_each_process)
    if to is _to_its_group:
        assert (tmp_path / "data" / "broker-0" / ".clean_shutdown").exists()


def test_a_signal_while_it_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "actors.cli.main", "up", "--port", "0", "--data-dir", str(tmp_path / "d")]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 90
        while not any("raylet" in program for program in _programs(descendants(process.pid))):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        family = descendants(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert_gone(family)


def _programs(processes: list[psutil.Process]) -> Iterator[str]:
    for process in processes:
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            yield " ".join(process.cmdline()[:1])


def test_after_sigkill_everything_acknowledged_is_there_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    values = {b"value-%d" % i for i in range(500)}
    family = {}
    with up(data, port=free_port()) as first:
        produce(first.servers, topic(first.servers, "t"), values)
        with contextlib.closing(consumer(first.servers, "g")) as client:
            commit(client, "t", 10, 20, 30)
        for p in descendants(first.process.pid):
            with contextlib.suppress(psutil.NoSuchProcess):  # not all of Ray's live as long as it does
                family[p] = " ".join(p.cmdline())
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
    # Not waiting for its actors, which live on for a while: the next one waits for their locks and their ports.
    with up(data, port=int(first.servers.rsplit(":", 1)[1])) as second:
        with contextlib.closing(consumer(second.servers, "g")) as reader:
            assert committed(reader, "t") == [10, 20, 30]
        assert read_all(second.servers, "t", len(values)) == values
    ours = [p for p, line in family.items() if line.startswith(("ray::Controller", "ray::Broker", "ray::OffsetsPart"))]
    assert len(ours) >= 3
    assert_gone(ours)
    for process in family.keys() - set(ours):
        # Ray's own agents end with the raylet, unless nobody reaps it, as where PID 1 is no init.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


# --- errors before anything is started ---


def test_a_port_that_is_taken_is_named_with_the_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused("up", "--port", str(port), "--data-dir", str(tmp_path / "d"))
    assert f"cannot listen on 127.0.0.1:{port}, which --port {port} chose" in line


def test_a_port_in_listeners_that_contradicts_the_port_is_refused(tmp_path: Path) -> None:
    listeners = ["--listeners", "PLAINTEXT://127.0.0.1:29095"]
    line = refused("up", "--port", "29092", *listeners, "--data-dir", str(tmp_path / "d"))
    assert "29092" in line
    assert "29095" in line


def test_the_port_of_listeners_is_where_brokers_listen(tmp_path: Path) -> None:
    port = free_port()
    listeners = ["--config", f"listeners=PLAINTEXT://127.0.0.1:{port}"]
    advertised = ["--advertised-listeners", f"PLAINTEXT://localhost:{port}"]
    with up(tmp_path / "data", *listeners, *advertised, port=port) as running:
        assert running.servers == f"localhost:{port}"
        topic(running.servers, "t", 1)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("ofsets.retention.minutes=5", "offsets.retention.minutes"),
        ("group.max.size=-3", "group.max.size"),
        ("group.max.size=many", "group.max.size"),
    ],
)
def test_a_setting_that_cannot_be_is_named(setting: str, says: str, tmp_path: Path) -> None:
    line = refused("up", "--port", "0", "--data-dir", str(tmp_path / "d"), "--config", setting)
    assert says in line


def test_a_directory_that_cannot_be_made_is_named() -> None:
    assert "/proc/coterie-data" in refused("up", "--port", "0", "--data-dir", "/proc/coterie-data")


@pytest.mark.parametrize(
    "arguments", [["--brokers", "0"], ["--port", "70000"], ["--nonsense"], ["--config", "novalue"]]
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], tmp_path: Path) -> None:
    line = refused("up", "--data-dir", str(tmp_path / "d"), *arguments, code=2)
    assert "--help" in line


# --- errors of the data directory ---


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a cluster that was started and stopped once."""
    data = tmp_path_factory.mktemp("stopped") / "data"
    with up(data):
        pass
    return data


def of_another_format(line: str) -> str:
    return "version=99" if line.startswith("version=") else line


def of_another_cluster(line: str) -> str:
    return "cluster.id=of-somebody-else" if line.startswith("cluster.id") else line


@pytest.mark.parametrize(
    ("changed", "says"), [(of_another_format, "version 99"), (of_another_cluster, "of-somebody-else")]
)
def test_a_brokers_directory_that_this_cluster_cannot_use_is_named(
    stopped: Path, changed: Callable[[str], str], says: str
) -> None:
    meta = stopped / "broker-0" / "meta.properties"
    text = meta.read_text()
    try:
        meta.write_text("".join(f"{changed(each)}\n" for each in text.splitlines()))
        assert meta.read_text() != text
        line = refused("up", "--port", "0", "--data-dir", str(stopped))
    finally:
        meta.write_text(text)
    assert str(stopped / "broker-0") in line
    assert says in line


def test_a_brokers_directory_that_is_missing_is_named_not_made_anew(stopped: Path) -> None:
    folder, aside = stopped / "broker-0", stopped / "aside"
    folder.rename(aside)
    try:
        line = refused("up", "--port", "0", "--data-dir", str(stopped))
        assert not (folder / "meta.properties").exists()
    finally:
        if folder.exists():
            folder.rmdir()
        aside.rename(folder)
    assert str(folder) in line
    assert "missing" in line


# --- a second command beside a running cluster ---


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Up, Path]]:
    data = tmp_path_factory.mktemp("running") / "data"
    with up(data) as cluster:
        yield cluster, data


def test_a_data_directory_in_use_is_refused_and_its_cluster_goes_on(running: tuple[Up, Path]) -> None:
    cluster, data = running
    topic(cluster.servers, "precious", 1)
    line = refused("up", "--port", "0", "--data-dir", str(data))
    assert str(data) in line
    assert "in use" in line
    produce(cluster.servers, "precious", [b"x"])
    assert read_all(cluster.servers, "precious", 1) == {b"x"}


def test_status_finds_a_running_cluster_by_its_directory(running: tuple[Up, Path]) -> None:
    cluster, data = running
    done = coterie("status", "--data-dir", str(data), "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (broker,) = found["brokers"]
    assert f"{broker['host']}:{broker['port']}" == cluster.servers
    assert psutil.pid_exists(broker["pid"])
    assert psutil.pid_exists(found["controller_pid"])
    rows = coterie("status", "--data-dir", str(data)).stdout.splitlines()
    assert rows[0].split()[:4] == ["ROLE", "ID", "STATE", "PID"]
    assert any(row.split()[:3] == ["broker", "0", "Alive"] for row in rows)


def test_a_second_cluster_of_the_same_name_on_its_ray_is_refused_and_another_name_is_not(
    running: tuple[Up, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, data = running
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(data / "ray-token")}
    monkeypatch.setattr("tests.ray.support.without_ray", lambda: os.environ | token)
    address = ["--ray-address", cluster.ray_address]
    line = refused("up", *address, "--host", "127.0.0.1", "--port", "0", "--data-dir", str(tmp_path / "a"))
    assert "'default'" in line
    assert "coterie down default" in line
    # Actors of a running Ray outlive the command, and `coterie down` ends them.
    second = ["--name", "second", "--host", "127.0.0.1", "--port", "0", "--data-dir", str(tmp_path / "b")]
    done = coterie("up", *address, *second)
    assert done.returncode == 0, done.stderr
    servers = done.stdout.split()[1].partition("=")[2]
    produce(servers, topic(servers, "t", 1), [b"outlived"])
    assert read_all(servers, "t", 1) == {b"outlived"}
    third = ["--name", "third", "--host", "127.0.0.1", "--port", "0", "--data-dir", str(tmp_path / "b")]
    assert f"{tmp_path / 'b'} is in use by cluster 'second' on this Ray: stop that" in refused("up", *address, *third)

    def status() -> dict[str, Any] | None:
        done = coterie("status", *address, "--name", "second", "--format", "json")
        if done.returncode != 0:
            return None
        found: dict[str, Any] = json.loads(done.stdout)
        return found if "shards" in found["brokers"][0] else None  # left out of a broker that is slow to answer

    found = wait_until(status, what="an answer of the broker")
    assert found is not None
    pids = [found["controller_pid"], found["brokers"][0]["pid"], *(s["pid"] for s in found["brokers"][0]["shards"])]
    family = [psutil.Process(pid) for pid in pids]
    done = coterie("down", "second", *address)
    assert (done.returncode, done.stdout) == (0, "stopped second\n"), done.stderr
    assert_gone(family)
    # Ray's books may be behind: what it still names is ended again.
    done = wait_until(lambda: again if (again := coterie("down", "second", *address)).returncode else None)
    assert done is not None
    assert (done.returncode, len(done.stderr.splitlines()), done.stdout) == (1, 1, ""), done
    assert "second" in done.stderr


def test_down_without_a_cluster_says_so(stopped: Path, tmp_path: Path) -> None:
    assert str(tmp_path) in refused("down", "--data-dir", str(tmp_path))
    assert "no Ray answers" in refused("down", "--data-dir", str(stopped))  # it ran once, and does not any more
