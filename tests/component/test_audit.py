"""The cost of having no authorizer, and the log of denials."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.broker.authorization import ALLOW_ALL
from actors.broker.context import BrokerContext
from actors.runtime.logs import LogPlace
from actors.runtime.process import audit_to
from actors.security.acl import AclOperation, PatternType
from actors.wire import messages as m
from actors.wire.errors import ErrorCode
from tests.support.acl_requests import commit, metadata
from tests.support.acl_world import RELAYED, World
from tests.support.acls import GROUP, TOPIC, allowed, forbidden

READ = AclOperation.READ


@pytest.mark.conformance("XC-14", "XC-77", "XC-88")
def test_without_an_authorizer_nothing_is_asked(tmp_path: Path) -> None:
    world = World(tmp_path, authorizer_class_name="")
    assert world.broker.context.authorizer is ALLOW_ALL
    assert world.ask(commit("t"), 9) == RELAYED
    assert world.ask(metadata(), 10).cluster_authorized_operations == 8096
    filters = m.DeleteAclsRequest.DeleteAclsFilter()
    assert world.ask(m.DescribeAclsRequest(), 3).error_code == ErrorCode.SECURITY_DISABLED
    assert (
        world.ask(m.DeleteAclsRequest(filters=[filters]), 3).filter_results[0].error_code == ErrorCode.SECURITY_DISABLED
    )
    created = world.ask(m.CreateAclsRequest(creations=[m.CreateAclsRequest.AclCreation()] * 2), 3)
    assert [result.error_code for result in created.results] == [ErrorCode.SECURITY_DISABLED] * 2


class Counted:
    """A broker's context that counts how often a part of it is looked for."""

    def __init__(self, context: Any, counted: str) -> None:
        self.context = context
        self.counted = counted
        self.times = 0

    def __getattr__(self, name: str) -> Any:
        if name == self.counted:
            self.times += 1
        return getattr(self.context, name)


@pytest.mark.conformance("XC-88", "XD-08")
@pytest.mark.parametrize("part", ["authorizer", "quotas"])
def test_without_an_authorizer_or_quotas_one_look_is_all_that_a_request_of_a_group_costs(
    tmp_path: Path, part: str
) -> None:
    seen: list[Counted] = []

    def counted(context: BrokerContext) -> Counted:
        seen.append(Counted(context, part))
        return seen[0]

    world = World(tmp_path, seen_as=counted, authorizer_class_name="")
    assert world.ask(commit("t"), 9) == RELAYED
    assert [each.times for each in seen] == [1]


def audited(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    found = [(r.levelno, r.getMessage()) for r in caplog.records if r.name == "coterie.audit"]
    caplog.clear()
    return found


@pytest.mark.conformance("XC-09")
def test_denials_are_logged_once_a_second(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "coterie.audit")
    world = World(tmp_path, [allowed(READ, GROUP, "g"), forbidden(READ, TOPIC, "t")])
    for _ in range(3):
        world.ask(m.HeartbeatRequest(group_id="a\n'b"), 4)
    world.ask(m.HeartbeatRequest(group_id="g"), 4)
    assert audited(caplog) == [
        (
            logging.INFO,
            r"""denied 'User:ANONYMOUS' at 127.0.0.1: READ on Group "a\n'b" for Heartbeat, """
            "rule: no ACL is about the resource",
        )
    ]
    world.broker.loop.now += 1.0
    world.ask(commit("t"), 9)
    (_, more), (_, other) = audited(caplog)
    assert more.endswith("2 more times")
    assert other == (
        "denied 'User:ANONYMOUS' at 127.0.0.1: READ on Topic 't' for OffsetCommit, "
        "rule: DENY READ of 'User:ANONYMOUS' at '*' on LITERAL 't'"
    )


@pytest.mark.conformance("XC-09")
def test_what_is_allowed_is_logged_for_who_wants_it_and_lists_are_no_denials(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "coterie.audit")
    world = World(tmp_path, [allowed(READ, GROUP, "g")])
    world.ask(m.HeartbeatRequest(group_id="g"), 4)
    ((level, text),) = audited(caplog)
    assert (level, text.split(":")[0]) == (logging.DEBUG, "allowed 'User")
    world.ask(m.ListGroupsRequest(), 5)
    world.ask(metadata(), 10)
    assert audited(caplog) == []


def denied(world: World, group: str, principal: str = "User:eve", peer: str = "10.0.0.7") -> None:
    world.broker.connection.principal, world.broker.connection.peer = principal, peer
    world.ask(m.HeartbeatRequest(group_id=group), 4)


def written(tmp_path: Path, script: Callable[[World], None], log_format: str = "text", **config: str) -> list[str]:
    """The lines that a broker has in its files of the audit log after what `script` does, the older files first."""
    files = tmp_path / "logs"
    files.mkdir()
    log = logging.getLogger("coterie.audit")
    before = log.handlers[:], log.propagate, log.level
    world = World(tmp_path, **config)
    settings = world.broker.config
    audit_to(
        LogPlace(str(files), "c", log_format),
        "audit-of-0",
        settings.integer("coterie.audit.file.max.bytes"),
        settings.integer("coterie.audit.files.max"),
        role="broker",
        broker=0,
    )
    log.setLevel(logging.INFO)
    try:
        script(world)
    finally:
        for handler in log.handlers:
            handler.close()
        log.handlers[:], log.propagate = before[:2]
        log.setLevel(before[2])
    found = sorted(files.iterdir(), key=lambda file: int(file.suffix[1:]) if file.suffix[1:].isdigit() else 0)
    return [line for file in reversed(found) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.conformance("XC-09")
@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("name", ["x", "\u00e9", "\x1b", "\U0001f600"])
def test_a_login_without_rights_wrote_two_megabytes_a_second(tmp_path: Path, log_format: str, name: str) -> None:
    """It is 170 GB a day: each request named another group. Now its bytes a minute are bounded, whatever the names."""

    def flood(world: World) -> None:
        for second in range(120):
            world.broker.loop.now = float(second)
            for number in range(20):
                denied(world, f"{second}.{number}" + name * 400)
            world.broker.context.authorizer.tick()
        world.broker.loop.now = 120.0
        world.broker.context.authorizer.tick()

    lines = written(tmp_path, flood, log_format, coterie_audit_max_bytes_per_principal="8192")
    counts = [line for line in lines if "more decisions, beyond" in line]
    single = [line for line in lines if line not in counts]
    assert len(counts) == 2
    assert 0 < sum(len(line.encode()) + 1 for line in single) <= 2 * 8192
    left_out = sum(int(re.findall(r"(\d+) more decisions", line)[0]) for line in counts)
    assert left_out + len(single) == 120 * 20


@pytest.mark.conformance("XC-09")
def test_the_same_denial_again_and_again_is_bounded_too_and_every_one_is_counted(tmp_path: Path) -> None:
    def flood(world: World) -> None:
        for step in range(600):
            world.broker.loop.now = step / 10
            for group in ("a", "b", "c"):
                denied(world, group + "x" * 200)
        world.broker.context.authorizer.close()

    lines = written(tmp_path, flood, coterie_audit_max_bytes_per_principal="8192")
    assert sum(len(line) + 1 for line in lines[:-1]) <= 8192
    counted = [re.findall(r"(\d+) more", line) for line in lines]
    assert sum(int(found[0]) if found else 1 for found in counted) == 600 * 3


@pytest.mark.conformance("XC-09")
def test_one_client_pushes_the_denials_of_no_other_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each principal has bytes of its own; without a principal each address has, or each /64 network of IPv6."""
    caplog.set_level(logging.INFO, "coterie.audit")
    world = World(tmp_path, coterie_audit_max_bytes_per_principal="4096")
    for number in range(50):
        denied(world, f"{number}", "User:eve", f"10.0.0.{number}")
        denied(world, f"{number}", "User:ANONYMOUS", "10.0.0.9")
        denied(world, f"{number}", "User:ANONYMOUS", f"2001:db8:0:1::{number + 1:x}")
    flood = audited(caplog)
    denied(world, "g", "User:ann", "10.0.0.9")
    denied(world, "g", "User:ANONYMOUS", "10.0.0.8")
    denied(world, "g", "User:ANONYMOUS", "2001:db8:0:2::1")
    assert len(audited(caplog)) == 3
    by_client = Counter("ANONYMOUS" if "ANONYMOUS" in text else "eve" for _, text in flood)
    assert by_client["ANONYMOUS"] <= 2 * by_client["eve"] < 30
    world.broker.loop.now += 60.0
    denied(world, "g", "User:ann")
    said = [text for _, text in audited(caplog) if "more decisions" in text]
    assert [text.partition(": ")[0] for text in said] == [
        "denied 'User:eve'",
        "denied 'User:ANONYMOUS at 10.0.0.9'",
        "denied 'User:ANONYMOUS at 2001:db8:0:1::/64'",
    ]


@pytest.mark.conformance("XC-09")
def test_who_has_many_networks_has_not_so_many_accounts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "coterie.audit")
    world = World(tmp_path, coterie_audit_max_bytes_per_principal="4096")
    for second in range(30):
        world.broker.loop.now = float(second)
        for number in range(500):
            denied(world, f"{second}", "User:ANONYMOUS", f"2001:db8:{number:x}::1")
    lines = audited(caplog)
    assert sum(len(text) for _, text in lines) < 66 * 2 * 4096
    denied(world, "g", "User:ann")
    assert len(audited(caplog)) == 1


@pytest.mark.conformance("XC-09")
def test_what_is_allowed_takes_nothing_of_what_says_denials(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "coterie.audit")
    world = World(tmp_path, [allowed(READ, GROUP, "g", by="User:eve", pattern=PatternType.PREFIXED)])
    for number in range(900):
        denied(world, f"g{number}")
    assert all(level == logging.DEBUG for level, _ in audited(caplog))
    denied(world, "other")
    assert [level for level, _ in audited(caplog)] == [logging.INFO]


@pytest.mark.conformance("XC-09")
def test_files_of_the_audit_log_are_rotated_and_few(tmp_path: Path) -> None:
    """Many principals, each within its bytes: the disk has no more and no larger files than the settings allow."""

    def flood(world: World) -> None:
        for number in range(3_000):
            world.broker.loop.now = number / 100
            denied(world, "g" * 200, f"User:eve-{number % 900}")

    sizes = {"coterie_audit_file_max_bytes": "65536", "coterie_audit_files_max": "3"}
    lines = written(tmp_path, flood, **sizes)
    files = sorted((tmp_path / "logs").iterdir())
    assert [file.name for file in files] == ["audit-of-0.log", "audit-of-0.log.1", "audit-of-0.log.2"]
    assert all(file.stat().st_size <= 65536 for file in files)
    assert "eve-299'" in lines[-1]


@pytest.mark.conformance("XC-09")
def test_more_decisions_than_can_be_listed_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "coterie.audit")
    world = World(tmp_path)
    for number in range(1_100):
        denied(world, "x" * 1_000, f"User:eve-{number % 50}" + f"{number}")
    lines = audited(caplog)
    assert len(lines) == 1_000
    assert max(len(text) for _, text in lines) < 450
    world.broker.loop.now += 1.0
    denied(world, "g")
    assert audited(caplog)[0][1] == "100 more decisions, which are too many to list"
