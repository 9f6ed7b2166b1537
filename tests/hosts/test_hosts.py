"""The harness itself: what is cut, muted, slow, killed and emptied on hosts. There is no Ray."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from tests.hosts.host import Host
from tests.hosts.hosts import Hosts
from tests.ray.support import ROOT, wait_until

PORT = 7
ECHO = f"""
import socket, sys
here = (sys.argv[1], {PORT})
if sys.argv[2] == "datagrams":
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.bind(here)
        print("listens", flush=True)
        while True:
            heard, sender = server.recvfrom(100)
            server.sendto(heard, sender)
            print(heard.decode(), flush=True)
with socket.create_server(here) as server:
    print("listens", flush=True)
    while True:
        found, _ = server.accept()
        while heard := found.recv(65536):
            found.sendall(heard)
"""
HELD = """
import subprocess
from tests.hosts.hosts import Hosts
from tests.hosts.space import child_of
with Hosts() as hosts:
    host = hosts.add()
    inside = host.start("sh", "-c", "echo runs; exec sleep 1000", stdout=subprocess.PIPE)
    inside.stdout.readline()
    print(hosts.network.device, host.disk, host.space.pid, child_of(inside.pid), flush=True)
    input()
"""
DEADLINE_S = 60


class Echo:
    """A server on a host that sends back what it hears. `heard` waits for the next datagram that it heard."""

    def __init__(self, host: Host, kind: str) -> None:
        self.host = host
        command = (sys.executable, "-I", "-S", "-c", ECHO, host.address, kind)
        self.process = host.start(*command, stdout=subprocess.PIPE, bufsize=0)
        assert self.heard() == "listens"

    def heard(self) -> str:
        assert select.select([self.process.stdout], [], [], DEADLINE_S)[0], "it hears nothing"
        return self.process.stdout.readline().decode().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def host(hosts: Hosts) -> Iterator[Host]:
    made = hosts.add()
    yield made
    hosts.remove(made)


@pytest.fixture
def datagrams() -> Iterator[socket.socket]:
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.settimeout(DEADLINE_S)
        yield client


def test_a_link_is_cut_or_muted_in_one_direction_and_what_was_sent_meanwhile_is_lost(
    hosts: Hosts, host: Host, datagrams: socket.socket
) -> None:
    network, server = hosts.network, Echo(host, "datagrams")

    def send(text: str) -> None:
        datagrams.sendto(text.encode(), (host.address, PORT))

    def echo() -> str:
        return datagrams.recv(100).decode()

    network.cut(host.name)
    send("while cut")
    network.heal(host.name)
    send("healed")
    assert (server.heard(), echo()) == ("healed", "healed")
    network.mute(host.name)
    send("heard by the muted")
    assert server.heard() == "heard by the muted"
    network.unmute(host.name)
    network.mute("outside", host.name)
    send("said by the muted")
    network.unmute("outside", host.name)
    send("whole")
    assert (server.heard(), echo()) == ("whole", "whole")
    server.end()


def test_a_mute_between_two_hosts_leaves_others_alone(hosts: Hosts, host: Host, datagrams: socket.socket) -> None:
    other = hosts.add()
    server, beside = Echo(host, "datagrams"), Echo(other, "datagrams")
    hosts.network.mute(other.name, host.name)
    sends = "import socket, sys; socket.socket(type=socket.SOCK_DGRAM).sendto(b'%s', (sys.argv[1], 7))"
    other.python("-c", sends % "muted", host.address)
    host.python("-c", sends % "heard", other.address)
    assert beside.heard() == "heard"
    datagrams.sendto(b"outside", (other.address, PORT))
    assert (beside.heard(), datagrams.recv(100)) == ("outside", b"outside")
    hosts.network.unmute(other.name, host.name)
    other.python("-c", sends % "unmuted", host.address)
    assert server.heard() == "unmuted"
    hosts.remove(other)


def test_a_slow_link_delays_whole_streams_in_each_direction(hosts: Hosts, host: Host) -> None:
    Echo(host, "streams")
    sent = os.urandom(300_000)

    def connected_s() -> float:
        begun = time.monotonic()
        with socket.create_connection((host.address, PORT), DEADLINE_S) as client:
            connected = time.monotonic() - begun
            client.sendall(sent)
            with client.makefile("rb") as echo:
                assert echo.read(len(sent)) == sent
        return connected

    hosts.network.slow(host.name, 50)
    assert connected_s() >= 0.1
    hosts.network.slow(host.name, 0)
    wait_until(lambda: connected_s() < 0.1, what="a connection that nothing delays")


def test_a_killed_host_comes_back_elsewhere_with_its_disk_or_with_an_empty_one(hosts: Hosts, host: Host) -> None:
    echo = Echo(host, "streams")
    (host.files / "kept").write_text("by the host")
    first = host.address
    with socket.create_connection((host.address, PORT), DEADLINE_S) as client:
        host.kill()
        with suppress(ConnectionResetError):  # if its server had not taken the connection
            assert client.recv(1) == b""
    assert echo.process.wait(DEADLINE_S)
    host.boot(number=hosts.free_number())
    assert host.address != first
    assert host.run("cat", f"{host.disk}/kept") == "by the host"
    Echo(host, "streams")
    with socket.create_connection((host.address, PORT), DEADLINE_S) as client:
        host.kill(silently=True)
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
    host.boot(empty=True)
    assert "kept" not in host.run("ls", str(host.disk))


class BrokenOffError(Exception):
    """A test that fails."""


def broken_off(host: Host) -> NoReturn:
    """Fail while another set of hosts exists beside this host. The exception lists everything that belonged to it."""
    with Hosts() as others:
        other = others.add(host.name)
        Echo(other, "streams")
        link, first = Path("/sys/class/net", others.network.device), Path(f"/proc/{other.space.pid}")
        made = [link, first, other.files, other.disk]
        assert all(each.exists() for each in made)
        assert (other.address, other.disk) != (host.address, host.disk)
        raise BrokenOffError(*made)


def test_two_stand_side_by_side_and_nothing_is_left_of_one_that_fails(host: Host) -> None:
    with pytest.raises(BrokenOffError) as failed:
        broken_off(host)
    assert not any(each.exists() for each in failed.value.args)
    Echo(host, "streams")
    socket.create_connection((host.address, PORT), DEADLINE_S).close()


def test_no_process_and_no_link_is_left_when_the_program_is_killed(hosts: Hosts, tmp_path: Path) -> None:
    here = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    program = subprocess.Popen(
        [sys.executable, "-c", HELD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=here
    )
    assert program.stdout is not None
    device, disk, *pids = program.stdout.readline().split()
    inside = [psutil.Process(int(pid)) for pid in pids]
    program.kill()
    program.communicate()
    assert psutil.wait_procs(inside, DEADLINE_S)[1] == []
    wait_until(lambda: not Path("/sys/class/net", device).exists(), what="the end of the link")
    Path(disk).rmdir()
