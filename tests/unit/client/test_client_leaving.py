"""Members that leave, and members without partitions."""

from __future__ import annotations

import pytest

from actors.client.group.classic.standing import MemberState
from actors.client.group.effects import Apply, Event
from actors.wire.messages import LeaveGroupResponse
from tests.support.membership_script import Script, joining, part, tps


@pytest.mark.conformance("E-25")
def test_a_dynamic_member_hears_of_its_partitions_and_says_goodbye():
    script = Script().stable("t-0")
    script.calls.clear()
    part(script)
    assert script.calls == [(Event.REVOKED, tps("t-0"))]
    assert script.count("LeaveGroup") == 1
    assert script.member.state is MemberState.UNJOINED
    script.answer("LeaveGroup", LeaveGroupResponse(error_code=25))
    script.poll()


@pytest.mark.conformance("E-25", "B-91")
def test_a_static_member_leaves_without_a_word():
    script = Script(group_instance_id="i1").stable("t-0")
    part(script)
    assert script.count("LeaveGroup") == 0
    assert script.member.state is MemberState.UNJOINED


def test_partitions_are_lost_not_revoked_when_leaving_during_a_rebalance():
    script = Script("cooperative-sticky").stable("t-0")
    script.heartbeat(27)
    script.poll()
    script.calls.clear()
    part(script)
    assert script.calls == [(Event.LOST, tps("t-0"))]


def test_a_member_that_only_has_an_id_leaves_too():
    script = joining()
    script.join_error(79, member_id="given")
    part(script)
    assert script.last("LeaveGroup").request.members[0].member_id == "given"


def test_nothing_is_said_when_the_coordinator_is_unknown():
    script = Script().stable("t-0")
    script.tick(3000)
    script.fail("Heartbeat")
    part(script)
    assert script.count("LeaveGroup") == 0


@pytest.mark.conformance("E-28")
def test_a_member_without_partitions_stays_a_member():
    script = Script().stable()
    assert script.member.state is MemberState.STABLE
    assert script.calls[-1] == (Event.ASSIGNED, frozenset())
    script.heartbeat()
    script.poll()
    assert script.member.state is MemberState.STABLE
    assert script.count("JoinGroup") == 1


def test_apply_names_what_starts_from_its_committed_offset():
    script = Script("cooperative-sticky").stable("t-0")
    script.heartbeat(27)
    script.poll()
    script.joined(2)
    script.synced("t-0", "t-1")
    action = script.member.next_action(script.now)
    assert action == Apply(tps("t-0", "t-1"), tps("t-1"))
