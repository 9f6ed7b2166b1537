"""Whatever a command shows of others' names, nothing of it moves a terminal's cursor or makes a line of its own."""

from __future__ import annotations

import ast
import csv
import io
import json
import logging
import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import actors.cli
from actors.cli import calls, main, output, screen, top, views
from actors.cli.clients import Clients
from actors.cli.errors import CliError, run
from actors.cli.lines import for_terminal, from_json, from_text, to_json
from actors.cli.pool_lines import text_line
from actors.client import ConsumerRecord, OffsetAndMetadata, TopicPartition
from actors.client.admin.offset_plans import Log
from actors.client.admin.types import GroupDescription, MemberDescription
from actors.client.errors import KafkaError
from actors.client.records import Node
from actors.cluster import Cluster
from actors.links.removals import PlannedMove, RemovalOutlook, RemovalStatus
from actors.links.replacements import Outlook
from actors.links.status import Absence, BrokerStatus, ClusterStatus, Load, ShardStatus, TlsListener
from actors.links.views import ClassicRebalanceView, Event, GroupHistory, LagPoint, Waited
from actors.members.deployment.description import PoolDescription, PoolState, RolloutStatus
from actors.members.logs.journal import MemberLine
from actors.members.pool import SizeChange
from actors.members.pools.status import MemberStatus
from actors.runtime import ray_runtime
from actors.security.acl import Acl, AclOperation, PatternType, PermissionType, ResourceType
from tests.support.fake_admin import FakeAdmin
from tests.support.fake_views import WALL_MS, FakeViews, broker_view, group_row

FORGED = "FORGED LINE"
EVIL = f"e\x1b]0;t\x07\x1b[2J\r\n{FORGED}\x0b\x85{FORGED}\u2028{FORGED}\u2029\u202e\u2066\x9b31m\x7f\udc1b\U000e0001z"
"""A title, a cleared screen, line breaks of every kind, turned text, a C1 CSI, DEL, half a pair, a tag."""
ESCAPED = r"e\x1b]0;t\x07\x1b[2J\r\nFORGED LINE\x0b\x85FORGED LINE\u2028"
T0 = TopicPartition(EVIL, 0)
ACL = Acl(ResourceType.GROUP, EVIL, PatternType.LITERAL, f"User:{EVIL}", EVIL, AclOperation.READ, PermissionType.ALLOW)


def check(text: str) -> None:
    """Nothing in it is unprintable but the line breaks of its lines, and no line is a made-up one."""
    assert [c for c in text if not (c.isprintable() or c == "\n")] == []
    assert not any(line.startswith(FORGED) for line in text.split("\n"))


def evil_group() -> GroupDescription:
    member = MemberDescription(EVIL, EVIL, EVIL, EVIL, (EVIL,), (T0,), b"", b"")
    return GroupDescription(EVIL, "Stable", "consumer", EVIL, (member,), Node(0, EVIL, 9092))


def evil_admin() -> FakeAdmin:
    fake = FakeAdmin(
        groups={EVIL: evil_group(), "idle": replace(evil_group(), group_id="idle", members=(), state="Empty")},
        configs={EVIL: {EVIL: EVIL}},
        logs={T0: Log(0, 9)},
        users={EVIL: {EVIL: 4096}},
        acls=[ACL],
        refusals={T0: KafkaError(EVIL)},
        no_sizes=KafkaError(EVIL),
    )
    fake.offsets = {name: {T0: OffsetAndMetadata(3, metadata=EVIL)} for name in fake.groups}
    fake.add_topic(EVIL, 1)
    return fake


def evil_views() -> FakeViews:
    waited = (Waited(EVIL, "join", 3000, EVIL, EVIL),)
    over = ClassicRebalanceView(EVIL, WALL_MS, 6, EVIL, EVIL, EVIL, EVIL, expelled=(EVIL,), waited=waited)
    return FakeViews(
        brokers=(broker_view(0, host=EVIL),),
        groups=(group_row(EVIL, kind=EVIL, state=EVIL),),
        histories={EVIL: GroupHistory(EVIL, (LagPoint(WALL_MS, 1, 1.0, 1),), (over,))},
        events=(Event(1, WALL_MS, "death", EVIL, EVIL),),
    )


def evil_pool() -> PoolDescription:
    member = MemberStatus(
        slot=0, pid=7, node_id=EVIL, state="Failed", error=EVIL, member_id=EVIL, generation_id=3,
        assignment=((EVIL, 0),), handled=1, dead_letters=0, restarts=0, version=3,
    )  # fmt: skip
    return PoolDescription(
        name=EVIL, state=PoolState.RUNNING, version=3, running_version=3, group_id=EVIL, topics=(EVIL,), size=1,
        autoscale=None, paused=False, deployed_at_ms=WALL_MS, bootstrap_servers=EVIL, members=(member,),
        supervisor_pid=9, supervisor_node_id=EVIL, last_error=EVIL, size_changes=(SizeChange(WALL_MS, 1, 2, EVIL),),
        rollout=RolloutStatus(2, 3, 1, 2, rolled_back=EVIL),
    )  # fmt: skip


class EvilPool:
    """In place of a DeployedPool."""

    name = EVIL

    def __init__(self, *_: Any, **__: Any) -> None: ...

    @classmethod
    def deployed(cls, *_: Any, **__: Any) -> list[PoolDescription]:
        return [evil_pool()]

    def describe(self) -> PoolDescription:
        return evil_pool()

    def logs(self, *_: Any, **__: Any) -> list[MemberLine]:
        return [MemberLine(WALL_MS, 0, 7, 1, EVIL, EVIL)]

    def done(self, *_: Any, **__: Any) -> None: ...

    scale = pause = resume = restart = stop = done


class EvilCluster:
    """In place of a Cluster."""

    notes = (EVIL,)
    bootstrap_servers = ray_address = EVIL
    controllers = SimpleNamespace(add=lambda controller_id: None, remove=lambda controller_id: None)

    def __enter__(self) -> EvilCluster:
        return self

    def __exit__(self, *_: object) -> None: ...

    def status(self) -> dict[str, Any]:
        load = Load(tls=(TlsListener(EVIL, 4.5, EVIL),))
        shards = (ShardStatus(3, 41, EVIL, 5, EVIL),)
        away = Absence(WALL_MS, node_is_gone=True, sole_copies=(EVIL,))
        broker = BrokerStatus(0, EVIL, 9092, EVIL, 2, True, 40, load, EVIL, shards, absence=away)
        return {**asdict(ClusterStatus("an-id", 1, (broker,), EVIL)), "name": EVIL}

    def add_brokers(self, *_: Any, **__: Any) -> list[int]:
        return [1]

    def restart_broker(self, *_: Any, **__: Any) -> None: ...

    def replacement(self, *_: Any, **__: Any) -> Outlook:
        return Outlook(1, 3, (EVIL,), copies_away=(EVIL,))

    def replace_broker(self, *_: Any, **__: Any) -> str:
        return EVIL

    def removal(self, *_: Any, **__: Any) -> RemovalOutlook:
        return RemovalOutlook(1, None, (PlannedMove(EVIL, 0, (0, 1), (0, 2)),))

    def remove_broker(self, *_: Any, told: Callable[[RemovalStatus], None], **__: Any) -> None:
        told(RemovalStatus(3, 2, 1, 0, waits_for=EVIL))

    def call_off_removal(self, *_: Any) -> None: ...

    def roll(self, *_: Any, **__: Any) -> None: ...

    def disconnect(self) -> None: ...


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAdmin]:
    admin, cluster = evil_admin(), EvilCluster()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(calls, "connect", admin.connect)
    monkeypatch.setattr(calls, "check_reachable", lambda _: None)
    monkeypatch.setattr(views, "connect", evil_views().connect)
    monkeypatch.setattr("actors.members.deployment.deployed.DeployedPool", EvilPool)
    monkeypatch.setattr(ray_runtime, "join", lambda *_: False)
    for verb in ("connect", "start"):
        monkeypatch.setattr(Cluster, verb, lambda *_, **__: cluster)
    monkeypatch.setattr(Cluster, "end", lambda *_, **__: 3)
    yield admin
    for number, handler in before.items():
        signal.signal(number, handler)


CALLS: dict[str, tuple[tuple[str, ...], ...]] = {
    "up": (("--ray-address", "r:1"),),
    "down": ((EVIL,),),
    "status": ((), ("--format", "json")),
    "top": (("--once",), ("--format", "json")),
    "brokers add": ((),),
    "brokers remove": (("1",), ("1", "--dry-run"), ("1", "--dry-run", "--format", "json"), ("1", "--cancel")),
    "brokers replace": (("1", "--yes"), ("1",)),
    "brokers restart": (("1",),),
    "brokers roll": ((),),
    "controller add": (("1",),),
    "controller remove": (("1",),),
    "topics list": ((), ("--format", "json")),
    "topics describe": ((), ("--format", "json"), (EVIL + "2",)),
    "topics create": ((EVIL,), (EVIL, "--if-not-exists"), (EVIL + "2",)),
    "topics alter": ((EVIL, "--partitions", "3"), (EVIL + "2", "--partitions", "3")),
    "topics delete": ((EVIL,), (EVIL + "2",)),
    "topics delete-records": ((EVIL, "--before-offset", "99"), (EVIL, "--before-offset", "99", "--format", "json")),
    "topics reassign": ((EVIL,), (EVIL, "--execute")),
    "groups list": ((), ("--state",), ("--format", "json"), ("--type", "classic")),
    "groups describe": (
        ("--all-groups",),
        ("--all-groups", "--verbose"),
        ("--all-groups", "--members", "--verbose"),
        ("--all-groups", "--state"),
        ("--all-groups", "--state", "--verbose"),
        ("--all-groups", "--format", "json"),
    ),
    "groups history": ((EVIL,), (EVIL, "--format", "json"), (EVIL + "2",)),
    "groups reset-offsets": (
        ("idle", "--to-latest", "--all-topics"),
        ("idle", "--to-latest", "--all-topics", "--export"),
        ("idle", "--to-offset", "99", "--all-topics", "--export"),
        (EVIL, "--to-latest", "--all-topics"),
        (EVIL + "2", "--to-latest", "--topic", EVIL, "--export"),
    ),
    "groups delete": ((EVIL,), ("idle",), (EVIL + "2",)),
    "groups delete-offsets": ((EVIL, "--topic", EVIL), (EVIL, "--topic", EVIL + "2")),
    "pools list": ((), ("--format", "json")),
    "pools describe": ((EVIL,), (EVIL, "--format", "json")),
    "pools logs": ((EVIL,), (EVIL, "--format", "json"), (EVIL, "--member", "4")),
    "pools scale": ((EVIL, "2"),),
    "pools pause": ((EVIL,),),
    "pools resume": ((EVIL,),),
    "pools restart": ((EVIL,),),
    "pools stop": ((EVIL,),),
    "users list": ((), ("--format", "json")),
    "users set": ((EVIL, "--password-file", "/no/such/file"),),
    "users delete": ((EVIL,), (EVIL + "2",)),
    "acls list": ((), ("--format", "json")),
    "acls add": (("--allow-principal", f"User:{EVIL}", "--group", EVIL), ("--allow-principal", EVIL, "--group", EVIL)),
    "acls remove": (("--group", EVIL, "--force"), ("--group", EVIL + "2"), ("--group", EVIL)),
    "which": ((EVIL,), (EVIL, "--format", "json")),
    "consume": ((EVIL + "2",), (EVIL, "--format", EVIL)),
    "produce": ((EVIL, "--format", EVIL),),
    "doctor": (("--format", EVIL),),
    "console": (("--port", EVIL),),
}
"""Each verb, with the arguments by which it shows or complains of names of others."""


def leaves(command: click.Command, path: str = "") -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from leaves(below, f"{path} {name}".strip())


class NoTopics(Clients):
    """Clients of a cluster without topics."""

    def consumer(self, *_: Any) -> Any:
        return SimpleNamespace(partitions_for_topic=lambda _: None, close=lambda: None)


def called(verb: str, arguments: tuple[str, ...]) -> Result:
    return CliRunner().invoke(main.cli, [*verb.split(), *arguments], obj=NoTopics())


def test_every_verb_is_walked() -> None:
    assert sorted(leaves(main.cli)) == sorted(CALLS)


@pytest.mark.parametrize(
    ("verb", "arguments"), [(verb, given) for verb, many in CALLS.items() for given in many],
    ids=[f"{verb} {number}" for verb, many in CALLS.items() for number in range(len(many))],
)  # fmt: skip
def test_no_verb_lets_a_name_of_others_reach_the_terminal_raw(
    verb: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTERIE_DEBUG", "1")
    done = called(verb, arguments)
    assert done.stdout or done.stderr
    check(done.stdout)
    check(done.stderr)


@pytest.mark.parametrize("error", [CliError(EVIL), KafkaError(EVIL), ValueError(EVIL), click.UsageError(EVIL)])
def test_no_error_lets_a_name_of_others_reach_the_terminal_raw(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTERIE_DEBUG", "1")

    def fails() -> None:
        raise error

    assert run(fails) > 0
    said = capsys.readouterr().err
    assert r"\x1b" in said
    check(said)


def test_json_is_read_as_what_it_was() -> None:
    found = json.loads(called("groups list", ("--format", "json")).stdout)
    assert EVIL in [row["group"] for row in found]
    record = ConsumerRecord("t", 0, 0, 0, 0, 0, b"k", EVIL.replace("\udc1b", "é").encode(), [], -1, 2)
    line = to_json(record)
    check(line.decode())
    assert "é" in line.decode()
    assert from_json(line, []).value == record.value


def test_an_export_is_read_as_what_it_was(world: FakeAdmin, tmp_path: Path) -> None:
    world.groups = {name: replace(evil_group(), group_id=name, members=(), state="Empty") for name in (EVIL, "idle")}
    one = TopicPartition("orders", 0)
    world.add_topic("orders", 1)
    world.logs[one] = Log(0, 9)
    world.offsets = {name: {one: OffsetAndMetadata(3)} for name in world.groups}
    exported = called("groups reset-offsets", ("--all-groups", "--all-topics", "--to-latest", "--export")).stdout
    check(exported)
    assert len(list(csv.reader(io.StringIO(exported)))) == 2
    (file := tmp_path / "offsets.csv").write_text(exported)
    assert called("groups reset-offsets", ("--all-groups", "--from-file", str(file), "--execute")).exit_code == 0
    assert {each[one].offset for each in world.offsets.values()} == {9}


def test_a_file_that_may_mean_either_of_two_groups_is_refused(world: FakeAdmin, tmp_path: Path) -> None:
    """Somebody may call a group `a`, ESC, and wait for offsets of the group `a\\x1b` as Kafka's tools export them."""
    world.groups = {name: replace(evil_group(), group_id=name, members=()) for name in ("a\x1b", r"a\x1b")}
    (file := tmp_path / "offsets.csv").write_text("a\\x1b,orders,0,1\n")
    done = called("groups reset-offsets", ("--all-groups", "--from-file", str(file)))
    assert done.exit_code == 1
    assert "may mean group" in done.stderr


def test_records_on_a_terminal_have_line_breaks_and_tabs_alone() -> None:
    line = b"k\t\x1b[2J\xff\nv\xe2\x80\xa8\n"
    assert for_terminal(line) == b"k\t\\x1b[2J\\xff\nv\\u2028\n"
    assert from_text(line, None, []).value == line


def test_a_line_of_a_pools_member_moves_no_cursor() -> None:
    check(text_line(MemberLine(WALL_MS, 0, 7, 1, "stdout", EVIL)))


@pytest.mark.parametrize("terminal", [True, False])
def test_no_picture_on_a_screen_has_a_name_raw(terminal: bool) -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=4000, height=50, force_terminal=terminal, color_system=None)
    source = evil_views()
    found, groups = source.view(top.GetOverview(6)), source.view(top.ListGroupRows()).groups
    console.print(top.picture(console, found, groups, top.Shown("lag"), trouble=EVIL))
    console.print(screen.lines_of(EVIL.replace(FORGED, "")))
    console.print(screen.line_of(EVIL))
    said = stream.getvalue()
    check(said)
    assert ESCAPED in said


def test_what_our_client_logs_in_a_command_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    output.Remarks().handle(logging.makeLogRecord({"msg": "no topic %s", "args": (EVIL,), "levelno": 30}))
    check(capsys.readouterr().err)


PRINTING = {"echo", "secho", "print_exc", "print_exception", "print", "Text", "TextColumn"}
SCREENS = {"output.py", "screen.py"}


def calls_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            named = node.func
            yield named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")


def test_commands_print_through_the_one_place_that_escapes() -> None:
    folder = Path(actors.cli.__file__ or "").parent
    past = {
        (file.name, name)
        for file in folder.glob("*.py")
        if file.name not in SCREENS
        for name in calls_of(ast.parse(file.read_text()))
        if name in PRINTING
    }
    assert past == set()
