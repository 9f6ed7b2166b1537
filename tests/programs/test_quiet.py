"""Ray's messages about a process that died: none in the terminal of `coterie up`, all of them in a user's own Ray."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.ray.support import descendants, wait_until
from tests.ray.terminal import on_a_terminal
from tests.support.ray_variables import TOKEN

DIED = "A worker died or was killed"
SLOW = 240  # for waits that take seconds on a quiet machine

A_PROGRAM = """
import sys, time
from coterie import Cluster
more = {"port": 0} if sys.argv[1] == "start" else {}
with getattr(Cluster, sys.argv[1])(data_dir=sys.argv[2], **more):
    print("ready", flush=True)
    time.sleep(240)
"""

A_POOL = """
import sys, time
from coterie import Cluster, ConsumerPool, PoolError
cluster = Cluster.connect(data_dir=sys.argv[1])
pool = ConsumerPool(["t"], "g", print, 1, bootstrap_servers=cluster.bootstrap_servers, create_topic=True)
pool.wait(lambda: pool.status()[0].state == "Running", 240)
print("ready", flush=True)
if sys.argv[2] == "waits":
    try:
        pool.wait(timeout_s=240)
    except PoolError as error:
        while pool.status()[0].error != str(error):
            time.sleep(0.05)
        print(error)
    pool.stop()
    cluster.disconnect()
    print("left")
"""

OF_THE_USERS_RAY = """
import os, signal, sys, time
import ray
from coterie import Cluster
ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR", object_store_memory=80 << 20)
with Cluster.start(data_dir=sys.argv[1], port=0) as cluster:
    os.kill(next(iter(cluster.broker_pids().values())), signal.SIGKILL)
    deadline = time.monotonic() + 240
    while not os.path.exists(sys.argv[2]) and time.monotonic() < deadline:
        time.sleep(0.05)
"""


@pytest.mark.timeout(600)
def test_the_terminal_of_up_shows_nothing_of_a_broker_that_is_killed_but_where_the_logs_are(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with on_a_terminal("-m", "actors.cli.main", "up", "--port", "0", "--data-dir", str(data)) as up:
        wait_until(lambda: "ready " in up.shown or up.process.poll() is not None, SLOW, "the ready line")
        (victim,) = [each for each in descendants(up.process.pid) if each.cmdline()[:1] == ["ray::Broker.serve"]]
        victim.kill()
        log = data / "logs" / "ray.log"
        wait_until(lambda: (log.exists() and DIED in log.read_text()) or DIED in up.shown, SLOW, "Ray's word of it")
        up.process.send_signal(signal.SIGTERM)
        assert up.ended() == 0, up.shown
        assert "raylet" not in up.shown
        *_, told, ready, end = [line.strip() for line in up.shown.splitlines() if line.strip()]
        assert told.endswith(f"logs are in {data / 'logs'}; what Ray says is in ray.log there")
        assert ready.startswith("ready bootstrap.servers=")
        assert end == "stopping the brokers; the data stays"


@pytest.mark.timeout(600)
def test_a_program_that_is_sent_a_sigterm_ends_without_a_trace_of_rays(tmp_path: Path) -> None:
    """Ray's C++ wrote its stack, as of a crash, before the program ended as it should."""
    with on_a_terminal("-c", A_PROGRAM, "start", str(tmp_path / "data")) as first:
        wait_until(lambda: "ready" in first.shown or first.process.poll() is not None, SLOW, "the cluster")
        with on_a_terminal("-c", A_PROGRAM, "connect", str(tmp_path / "data")) as second:
            wait_until(lambda: "ready" in second.shown or second.process.poll() is not None, SLOW, "the connection")
            second.process.send_signal(signal.SIGTERM)
            assert second.ended() == signal.SIGTERM, second.shown
        first.process.send_signal(signal.SIGTERM)
        assert first.ended() == signal.SIGTERM, first.shown
    assert (first.shown.split(), second.shown.split()) == (["ready"], ["ready"])


@pytest.mark.timeout(600)
def test_a_pool_that_nobody_stops_ends_with_its_program_and_one_says_that_its_ray_has_ended(tmp_path: Path) -> None:
    """The first took the end of its own Ray for deaths, and connected to another. The second did not notice."""
    with on_a_terminal("-m", "actors.cli.main", "up", "--port", "0", "--data-dir", str(tmp_path / "data")) as up:
        wait_until(lambda: "ready " in up.shown or up.process.poll() is not None, SLOW, "the ready line")
        with on_a_terminal("-c", A_POOL, str(tmp_path / "data"), "ends") as first:
            assert first.ended() == 0, first.shown
            assert first.shown.split() == ["ready"]
        with on_a_terminal("-c", A_POOL, str(tmp_path / "data"), "waits") as second:
            wait_until(lambda: "ready" in second.shown or second.process.poll() is not None, SLOW, "the pool")
            up.process.send_signal(signal.SIGTERM)
            assert up.ended() == 0, up.shown
            assert second.ended() == 0, second.shown
        assert "has ended, or cannot be reached" in second.shown
        assert "raylet" not in second.shown
        assert second.shown.split()[-1] == "left"


@pytest.mark.timeout(600)
def test_a_ray_that_the_user_has_started_says_what_it_says(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    with on_a_terminal("-c", OF_THE_USERS_RAY, str(tmp_path / "data"), str(heard), **TOKEN) as program:
        wait_until(lambda: DIED in program.shown or program.process.poll() is not None, SLOW, "Ray's word of it")
        heard.touch()
        assert program.ended() == 0, program.shown
        assert DIED in program.shown
