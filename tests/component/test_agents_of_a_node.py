"""The stand-ins for Ray's agents: the ports they write down, the calls they pass on, and their end with the raylet."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from actors.runtime import ray_inside
from actors.runtime.fork_server import agents
from tests.support.waiting import wait_until

_AGENT = """
import os, socket, socketserver, sys, time
given = dict(word.split("=", 1) for word in sys.argv[1:])
assert given["--port"] == "0", "another listens there"

class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"%d %s" % (os.getpid(), self.rfile.readline()))

server = socketserver.ThreadingTCPServer((given["--node-ip-address"], 0), Echo, bind_and_activate=False)
server.server_bind()
with open(os.path.join(given["--session-dir"], "calls_" + given["--node-id"]), "w") as file:
    time.sleep(0.2)
    file.write(str(server.server_address[1]))
time.sleep(0.2)
server.server_activate()
server.serve_forever()
"""
"""An agent: it answers each line with its process id and that line. As Ray's, it writes down where it listens before it
does."""

StandIn = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def raylet() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def stand_in(raylet: subprocess.Popen[bytes], tmp_path: Path) -> Iterator[StandIn]:
    """Start the stand-in for an agent of node "n" whose folder is `tmp_path`."""
    script = tmp_path / "agent.py"
    script.write_text(_AGENT)
    session, node, host = ray_inside.AGENT_ARGUMENTS
    arguments = [f"{session}={tmp_path}", f"{node}=n", f"{host}=127.0.0.1"]
    started: list[subprocess.Popen[bytes]] = []

    def start(does: str, *names: str, inherited: tuple[int, ...] = (), **chosen: int) -> subprocess.Popen[bytes]:
        words = ["PID_OF_RAYLET", *ray_inside.AGENT_ARGUMENTS, does, *names]
        agent = [str(script), *arguments, *(f"--{name}={value}" for name, value in chosen.items())]
        command = [sys.executable, "-IS", agents.__file__, *words, "--", *agent]
        variables = os.environ | {"PID_OF_RAYLET": str(raylet.pid)}
        started.append(subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, pass_fds=inherited))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def port(folder: Path, name: str) -> int:
    """The port that is written down for node "n", once it is."""
    file = folder / f"{name}_n"
    wait_until(file.exists, what=str(file))
    return int(file.read_text())


def call(connection: socket.socket, word: bytes) -> tuple[int, bytes]:
    """The process that answers, and what."""
    connection.sendall(word + b"\n")
    with connection.makefile("rb") as stream:
        pid, _, text = stream.readline().partition(b" ")
    return int(pid), text.rstrip()


def test_an_agent_that_serves_nothing_has_no_ports(stand_in: StandIn, tmp_path: Path) -> None:
    process = stand_in(agents.NOTHING, "one", "two")
    assert [port(tmp_path, name) for name in ("one", "two")] == [-1, -1]
    assert process.poll() is None, "the raylet would end with it"


def test_at_the_first_calls_a_stand_in_becomes_the_agent(stand_in: StandIn, tmp_path: Path) -> None:
    process = stand_in(agents.CALLS, "calls", "--port", port=0)
    at = port(tmp_path, "calls")
    calls = [socket.create_connection(("127.0.0.1", at), timeout=30) for _ in range(3)]
    answers = [call(connection, b"%d" % number) for number, connection in enumerate(calls)]
    assert answers == [(process.pid, b"0"), (process.pid, b"1"), (process.pid, b"2")]
    for connection in calls:
        connection.close()
    with socket.create_connection(("127.0.0.1", at), timeout=30) as later:
        assert call(later, b"later") == (process.pid, b"later")


def test_a_port_that_was_chosen_is_where_calls_come(stand_in: StandIn, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        chosen = free.getsockname()[1]
    process = stand_in(agents.CALLS, "calls", "--port", port=chosen)
    assert port(tmp_path, "calls") == chosen
    with socket.create_connection(("127.0.0.1", chosen), timeout=30) as connection:
        assert call(connection, b"x") == (process.pid, b"x")


@pytest.mark.parametrize("does", [agents.NOTHING, agents.CALLS])
def test_a_stand_in_ends_with_its_raylet(
    stand_in: StandIn, raylet: subprocess.Popen[bytes], tmp_path: Path, does: str
) -> None:
    process = stand_in(does, "calls", "--port", port=0)
    port(tmp_path, "calls")
    raylet.kill()
    raylet.wait()
    assert process.wait(30) == 0


def test_a_raylet_waited_for_ever_for_the_end_of_an_agent_whose_files_its_fork_had(
    stand_in: StandIn, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    process = stand_in(agents.CALLS, "calls", "--port", port=0, inherited=(writing,))
    os.close(writing)
    with socket.create_connection(("127.0.0.1", port(tmp_path, "calls")), timeout=30) as connection:
        call(connection, b"x")
        process.kill()
        assert select.select([reading], [], [], 30)[0], "nobody has the other end any more"
    os.close(reading)


def test_what_passes_calls_on_ends_with_the_raylet(
    stand_in: StandIn, raylet: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    process = stand_in(agents.CALLS, "calls", "--port", port=0)
    with socket.create_connection(("127.0.0.1", port(tmp_path, "calls")), timeout=30) as connection:
        call(connection, b"x")
    (fork,) = psutil.Process(process.pid).children()
    raylet.kill()
    raylet.wait()
    assert psutil.wait_procs([fork], 30)[1] == [] or fork.status() == psutil.STATUS_ZOMBIE
