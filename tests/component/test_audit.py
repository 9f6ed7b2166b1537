"""What no authorizer costs, and what is logged of denials."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from actors.security.acl import AclOperation
from actors.wire import messages as m
from actors.wire.errors import ErrorCode
from tests.support.acl_requests import commit, metadata
from tests.support.acl_world import RELAYED, World
from tests.support.acls import GROUP, TOPIC, allowed, forbidden

READ = AclOperation.READ


@pytest.mark.conformance("XC-14", "XC-77", "XC-88")
def test_without_an_authorizer_nothing_is_asked(tmp_path: Path) -> None:
    world = World(tmp_path, authorizer_class_name="")
    assert world.broker.context.authorizer is None
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
    world = World(tmp_path, authorizer_class_name="")
    counted: Any = Counted(world.broker.context, part)
    world.door._broker = counted
    assert world.ask(commit("t"), 9) == RELAYED
    assert counted.times == 1


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


@pytest.mark.conformance("XC-09")
def test_made_up_names_do_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "coterie.audit")
    world = World(tmp_path)
    for number in range(1_100):
        world.ask(m.HeartbeatRequest(group_id=f"{number}" + "x" * 1_000), 4)
    lines = audited(caplog)
    assert len(lines) == 1_000
    assert max(len(text) for _, text in lines) < 450
    world.broker.loop.now += 1.0
    world.ask(m.HeartbeatRequest(group_id="g"), 4)
    assert audited(caplog)[0][1] == "100 more decisions, which are too many to list"
