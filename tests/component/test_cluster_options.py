"""Where a cluster listens, what a start shows and says, and what a killed one leaves behind. No Ray is started."""

from __future__ import annotations

import io
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from ray.exceptions import ActorDiedError

from actors.broker.spec import BrokerSpec, BrokerStart
from actors.cli.output import working
from actors.cluster import WARM, Cluster, ClusterError
from actors.controller.driver_ray import ActorName
from actors.controller.listeners import ListenerPlan, check_apart, listeners_of, plan_listeners
from actors.controller.preparation import effective_config, prepare_folder, socket_dir, sweep_socket_dirs, warn_if_open
from actors.runtime.data_folder import place_of
from actors.runtime.environment import Clock
from actors.settings import BrokerConfig
from placement.nodes import Node
from tests.support.fake_driver_ray import FakeActor, FakeDriverRay, Method, in_turn, raising, unavailable
from tests.support.fake_ray import NODES
from tests.support.launched import Launched


def plans(host: str | None = None, port: int | None = None, **settings: str) -> tuple[ListenerPlan, ...]:
    config = BrokerConfig.from_mapping({name.replace("_", "."): text for name, text in settings.items()})
    return plan_listeners(config, host, port)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ("10.0.0.9", 0, "10.0.0.9", 0)),
        ({"listeners": "PLAINTEXT://10.0.0.5:9095"}, ("10.0.0.5", 9096, "10.0.0.5", 0)),
        ({"listeners": "PLAINTEXT://:9095"}, ("0.0.0.0", 9096, "10.0.0.9", 0)),
        ({"listeners": "PLAINTEXT://[::1]:9095"}, ("::1", 9096, "::1", 0)),
        ({"listeners": "CONTROLLER://:9093,PLAINTEXT://:9095"}, ("0.0.0.0", 9096, "10.0.0.9", 0)),
        (
            {"listeners": "PLAINTEXT://0.0.0.0:0", "advertised_listeners": "PLAINTEXT://kafka.example.com:19092"},
            ("0.0.0.0", 0, "kafka.example.com", 19093),
        ),
    ],
)
def test_listeners_name_hosts_and_ports(settings: dict[str, str], expected: tuple[str, int, str, int]) -> None:
    """Of broker 1, on a node at 10.0.0.9."""
    (door,) = listeners_of(plans(**settings), 1, "10.0.0.9", {})
    assert (door.host, door.port, door.advertised_host, door.advertised_port) == expected


@pytest.mark.conformance("XA-06")
def test_each_listener_has_a_port_for_each_broker() -> None:
    two = plans(listeners="PLAINTEXT://h:9092,SSL://h:0")
    doors = listeners_of(two, 2, "n", {"SSL": 40404})
    assert [(door.listener, door.port, door.port_chosen_by) for door in doors] == [
        ("PLAINTEXT", 9094, "listeners"),
        ("SSL", 40404, ""),
    ]
    check_apart(two, 1000)
    near = plans(listeners="PLAINTEXT://h:9092,SSL://h:9094")
    check_apart(near, 2)
    with pytest.raises(ClusterError, match=r"port 9094 is in both; leave 3 between them"):
        check_apart(near, 3)
    with pytest.raises(ClusterError, match="out of range: 0 to 65532"):
        check_apart(plans(port=65533), 3)


ISSUER, AUDIENCE = "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.expected.audience"
TOKENS = {"sasl.oauthbearer.jwks.endpoint.url": "https://issuer/keys", ISSUER: "https://issuer", AUDIENCE: "kafka"}
UNVERIFIED = {f"sasl.oauthbearer.allow.unverified.{claim}": "true" for claim in ("issuer", "audience")}


@pytest.mark.conformance("XA-09", "XB-28")
def test_who_listens_to_strangers_is_warned(recwarn: pytest.WarningsRecorder) -> None:
    def warned(listeners: str, mechanisms: str = "PLAIN", **more: str) -> list[str]:
        texts = {
            "listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EVERY:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SASL_SSL",
            "sasl.enabled.mechanisms": mechanisms,
            **TOKENS,
            **UNVERIFIED,
            **more,
        }
        config = BrokerConfig.from_mapping(texts)
        recwarn.clear()
        warn_if_open(plan_listeners(config, None, None), config)
        return [str(each.message) for each in recwarn.list]

    assert warned("PLAINTEXT://127.0.0.1:1,TLS://0.0.0.0:2,LOGIN://127.0.0.1:3") == []
    (line,) = warned("PLAINTEXT://127.0.0.1:1,EVERY://:2")
    assert line.startswith("listener EVERY on 0.0.0.0 asks for no authentication")
    (line,) = warned("LOGIN://:2")
    assert line.startswith("listener LOGIN on 0.0.0.0 takes passwords in clear")
    assert warned("LOGIN://:2", "SCRAM-SHA-256") == []
    (line,) = warned("LOGIN://:2", "OAUTHBEARER,SCRAM-SHA-256")
    assert line.startswith("listener LOGIN on 0.0.0.0 takes tokens in clear")
    assert warned("TLS://:2", "OAUTHBEARER") == []
    (line,) = warned("TLS://127.0.0.1:2", "OAUTHBEARER", **{AUDIENCE: ""})
    assert line == f"listener TLS takes tokens that may be meant for others: {AUDIENCE} would say which ones are for it"
    (line,) = warned("TLS://127.0.0.1:2", "OAUTHBEARER", **{AUDIENCE: "", ISSUER: ""})
    assert f"{ISSUER} and {AUDIENCE}" in line
    own = {f"listener.name.tls.oauthbearer.{name}": "x" for name in (AUDIENCE, ISSUER)}
    assert warned("TLS://127.0.0.1:2", "OAUTHBEARER", **own, **{AUDIENCE: "", ISSUER: ""}) == []


def test_a_setting_of_one_listener_is_named_as_without_effect_if_it_has_none() -> None:
    texts = {
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.scram-sha-256.connections.max.reauth.ms": "5",
        "listener.name.login.num.io.threads": "5",
        "num.io.threads": "5",
    }
    (note,) = effective_config(texts, 3)[1]
    assert note == "accepted, but without effect here: listener.name.login.num.io.threads, num.io.threads"


MAP = "PLAINTEXT:PLAINTEXT"


@pytest.mark.parametrize(
    ("port", "listener_port", "chosen"), [(None, None, 0), (9092, None, 9092), (None, 9095, 9095), (9095, 9095, 9095)]
)
def test_the_port_of_listeners_counts(port: int | None, listener_port: int | None, chosen: int) -> None:
    """It was ignored."""
    settings = {"listeners": f"PLAINTEXT://h:{listener_port}"} if listener_port else {}
    assert plans(port=port, **settings)[0].port == chosen


def test_two_different_ports_are_refused_not_one_ignored() -> None:
    with pytest.raises(ClusterError, match=r"--port 9092 and the port 9095 of listeners contradict each other"):
        plans(port=9092, listeners="PLAINTEXT://h:9095")


# --- what a start shows ---


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_start_shows_a_sign_of_life_on_a_terminal_and_nothing_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        with working("starting 3 brokers"):
            pass
        assert ("starting 3 brokers" in stream.getvalue()) is shown


# --- a start on a Ray that the test plays ---


def controller(**methods: Method) -> FakeActor:
    """A controller that starts, and has no topics."""
    usual: dict[str, Method] = {
        "addresses": list,
        "start_brokers": lambda: [("127.0.0.1", 9092)],
        "ray_asks_for_token": lambda: True,
        "ray_environment": dict,
        "left_out": list,
        "has_topic": lambda: False,
        "stop": lambda: None,
    }
    return FakeActor(**{**usual, **methods})


def test_a_cluster_with_an_embedded_ray_leaves_its_address_and_ends_with_it(short: Path) -> None:
    ray = FakeDriverRay(connected=False)
    ray.next = controller()
    with Cluster.start(name="c", data_dir=short / "d", port=0, ray=ray) as cluster:
        assert cluster.bootstrap_servers == "127.0.0.1:9092"
        assert ray.embedded == [(short / "d", WARM)]
        assert (place_of(short / "d") / "ray-address").read_text() == ray.address
        assert "logs are in" in cluster.notes[-1]
        assert [asked for asked, *_ in ray.next.asked] == ["addresses", "start_brokers", "left_out", "has_topic"]
        assert not ray.left
    assert (ray.next.killed, ray.left) == (True, 1)


def test_on_a_ray_that_is_not_ours_it_is_said_how_open_it_is_and_what_its_head_keeps(short: Path) -> None:
    ray = FakeDriverRay()
    ray.next = controller(ray_asks_for_token=lambda: False)
    ray.alive = [replace(NODES[0], head=True)]
    with Cluster.start(name="c", data_dir=short / "d", port=0, ray=ray) as cluster:
        token, head = cluster.notes[-2:]
        assert token.startswith(f"warning: the Ray at {ray.address}: it asks for no token")
        assert head.startswith(f"warning: the Ray at {ray.address} keeps its state in memory")
        assert ray.tasks == [], "the controller is on the head, and there is no other node"
    assert (ray.next.killed, ray.left) == (True, 0)


def test_on_a_ray_of_several_nodes_brokers_listen_to_them_also_if_only_one_lives(short: Path) -> None:
    ray = FakeDriverRay()
    ray.next = controller()
    ray.alive, ray.lost = NODES[:1], 1
    with pytest.raises(ClusterError, match="insecure"):
        Cluster.start(name="c", data_dir=short / "d", port=0, ray=ray)
    assert not ray.told


def test_a_controller_that_ends_while_the_cluster_starts_is_said_and_the_embedded_ray_ends(short: Path) -> None:
    ray = FakeDriverRay(connected=False)
    ray.next = controller(start_brokers=raising(unavailable()))
    with pytest.raises(ClusterError, match=f"process ended while it .*, see {short}/d/logs/controller.log"):
        Cluster.start(name="c", data_dir=short / "d", port=0, ray=ray)
    assert (ray.names(), ray.left) == ([], 1)
    ray.next = controller()
    Cluster.start(name="c", data_dir=short / "d", port=0, ray=ray).stop()  # nobody holds the directory


def test_a_controller_that_dies_right_after_the_start_is_said_and_nothing_is_left(short: Path) -> None:
    """Ray's own error went out, the embedded Ray went on, and the directory stayed locked."""

    class Quick(Cluster):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named, clock=Clock(monotonic=count(0, 10).__next__, sleep=lambda _: None))

    ray = FakeDriverRay(connected=False)
    ray.next = controller(left_out=raising(ActorDiedError()))
    with pytest.raises(ClusterError, match="the controller of cluster 'c' does not answer"):
        Quick.start(name="c", data_dir=short / "d", port=0, ray=ray)
    assert ray.left == 1
    ray.next = controller()
    Cluster.start(name="c", data_dir=short / "d", port=0, ray=ray).stop()  # nobody holds the directory


def test_three_controllers_start_and_the_next_one_answers_when_the_first_dies_right_after(short: Path) -> None:
    dying = controller(leads=in_turn(True, False), left_out=raising(ActorDiedError()))
    ray = three(dying, controller(leads=lambda: True), controller(leads=lambda: False))
    with Cluster.start(name="c", data_dir=short / "d", port=0, controllers=3, ray=ray) as cluster:
        assert cluster.bootstrap_servers == "127.0.0.1:9092"
        assert ray.actors[ActorName("coterie-c", "controller-1")].asked.count(("left_out",)) == 1
    assert (ray.names(), ray.left) == ([], 1)


def test_three_controllers_that_are_ended_right_after_the_start_leave_nothing(short: Path) -> None:
    ray = three(*(controller(leads=lambda: True) for _ in range(3)))

    def end() -> NoReturn:
        ray.actors.clear()
        raise ActorDiedError

    for each in ray.made.values():
        each.methods["left_out"] = end
    with pytest.raises(ClusterError, match="cluster 'c' has been ended by `coterie down`"):
        Cluster.start(name="c", data_dir=short / "d", port=0, controllers=3, ray=ray)
    assert (ray.names(), ray.left) == ([], 1)
    ray.next, ray.made = controller(), {}
    Cluster.start(name="c", data_dir=short / "d", port=0, ray=ray).stop()  # nobody holds the directory


def three(*controllers: FakeActor) -> FakeDriverRay:
    """A Ray on which these controllers of cluster `c` start."""
    ray = FakeDriverRay(connected=False)
    voters = SimpleNamespace(controllers=[SimpleNamespace(role="Voter")] * 3)
    for number, each in enumerate(controllers):
        each.methods |= {"own_address": list, "cluster_started": lambda: None, "status": lambda: voters}
        each.methods["has_log"] = lambda: False
        ray.made[ActorName("coterie-c", f"controller-{number}")] = each
    ray.alive = NODES[:1]
    return ray


# --- socket folders ---


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary directory with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="s-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def left(parent: Path, mark: str, *, age_s: float = 3600.0) -> tuple[Path, socket.socket]:
    """A folder with a socket as a start that long ago made it."""
    folder = parent / f"coterie-{mark}"
    folder.mkdir(mode=0o700)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "0.sock"))
    listener.listen()
    os.utime(folder, (time.time() - age_s,) * 2)
    return folder, listener


def test_a_start_sweeps_the_socket_folders_of_clusters_that_were_killed(short: Path) -> None:
    dead, listener = left(short, "0123456789ab")
    listener.close()
    empty = short / "coterie-00000000000f"
    empty.mkdir()
    os.utime(empty, (0, 0))
    made = socket_dir(short / "data", prepare_folder(short / "data"))
    assert sorted(short.iterdir()) == [made, short / "data"]
    assert made.stat().st_mode & 0o777 == 0o700
    assert not dead.exists()


def test_folders_in_use_too_young_or_not_ours_stay(short: Path) -> None:
    living, listener = left(short, "0123456789ab")
    young, gone = left(short, "0123456789ac", age_s=1)
    gone.close()
    others = [short / "coterie-data", short / "coterie-0123456789ad"]
    for folder in others:
        folder.mkdir()
        (folder / "precious").touch()
        os.utime(folder, (0, 0))
    link = short / "coterie-0123456789ae"
    link.symlink_to(others[0])
    sweep_socket_dirs(short)
    assert sorted(short.iterdir()) == sorted([living, young, *others, link])
    assert (living / "0.sock").exists()
    listener.close()


# --- racks ---


def test_a_broker_takes_the_rack_of_the_node_it_comes_back_on_and_else_the_settings(tmp_path: Path) -> None:
    w = Launched(tmp_path)
    config = {"broker.rack": "of all", "message.max.bytes": "1000"}
    first, second, third = (Node(f"{i:056x}", "10.0.0.1", 1.0, rack) for i, rack in enumerate(("a", "b", None), 1))
    w.launcher.add(BrokerSpec(0, "10.0.0.1", (), "", "", config), first)
    for node in (first, second, third):
        w.ray.alive = [node]
        w.launcher.start_broker(0)
    told = [BrokerConfig.from_mapping(BrokerStart.decoded(each.told).spec.config) for each in w.ray.started]
    assert [each.text("broker.rack") for each in told] == ["a", "b", "of all"]
    assert {each.integer("message.max.bytes") for each in told} == {1000}
