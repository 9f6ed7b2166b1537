"""Heartbeats, the session, the right to deliver, and what a member does when it has not polled for too long."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client.errors import FencedInstanceIdError, GroupAuthorizationError
from actors.client.group.classic.standing import MemberState
from actors.client.group.effects import Drop, Event, To
from actors.wire.messages import HeartbeatResponse
from tests.support.membership_script import ASIDE, NODE, Script, joining, lookup_answer, tps


@pytest.mark.conformance("E-13")
def test_heartbeat_27_rejoins_when_stable_and_is_ignored_when_preparing():
    script = Script("cooperative-sticky").stable("t-0")
    script.tick(3000)
    script.member.request_rejoin("test")
    script.poll()
    assert script.member.state is MemberState.PREPARING_REBALANCE
    script.answer("Heartbeat", HeartbeatResponse(error_code=27))
    assert script.count("JoinGroup") == 2
    assert script.member.state is MemberState.PREPARING_REBALANCE
    script.joined(2)
    script.synced("t-0")
    script.poll()
    script.heartbeat(27)
    assert script.member.rejoin_needed
    script.poll()
    assert script.count("JoinGroup") == 3


def beat_until(script: Script, until: int) -> None:
    """Time passes; each heartbeat is answered at once, while the group is well."""
    while (due := script.member.next_deadline()) is not None and due <= until:
        script.tick(due - script.now)
        if script.unanswered("Heartbeat"):
            script.answer("Heartbeat", HeartbeatResponse())
    script.tick(until - script.now)


@pytest.mark.parametrize("interval", [250, 1_000, 2_000, 3_000])
def test_heartbeats_come_once_in_an_interval(interval):
    script = Script(heartbeat_interval_ms=interval).stable("t-0")
    beat_until(script, script.now + 30_000)
    assert script.count("Heartbeat") == 30_000 // interval


@pytest.mark.conformance("B-64")
@pytest.mark.parametrize("after", [0, 1, 1_999, 2_000, 2_001, 7_300])
def test_a_rebalance_is_heard_of_within_one_interval(after):
    script = Script(heartbeat_interval_ms=2_000).stable("t-0")
    beat_until(script, script.now + after)
    announced = script.now
    script.heartbeat(27)
    assert script.now - announced <= 2_000
    script.poll()
    assert script.unanswered("JoinGroup")


@pytest.mark.parametrize("answered_before", [0, 1, 5])
def test_with_three_heartbeats_to_a_session_one_that_is_lost_expels_nobody(answered_before):
    """It is lost with its connection, which answers in order: what was sent behind it would not be answered, either."""
    script = Script(session_timeout_ms=6_000, heartbeat_interval_ms=2_000).stable("t-0")
    for _ in range(answered_before):
        script.heartbeat()
    counted_from = script.now
    script.tick(2_000)
    script.tick(1_500)
    assert len(script.unanswered("Heartbeat")) == 1
    script.fail("Heartbeat")
    script.tick()
    script.found()
    script.heartbeat()
    assert script.now - counted_from < 6_000, "the coordinator has expelled it"
    assert script.member.may_deliver(script.now)
    assert script.member.state is MemberState.STABLE
    assert script.count("JoinGroup") == 1


def test_no_heartbeat_is_sent_behind_one_that_is_not_answered():
    script = Script(session_timeout_ms=6_000, heartbeat_interval_ms=2_000).stable("t-0")
    for _ in range(59):
        script.tick(100)
    assert script.count("Heartbeat") == 1
    assert script.member.coordinator == NODE
    script.tick(100)
    assert Drop(NODE) in script.effects, "the connection is given up with the session"


@pytest.mark.conformance("E-14")
def test_heartbeat_82_is_raised_by_the_next_poll():
    script = Script(group_instance_id="i1").stable("t-0")
    script.heartbeat(82)
    assert not script.member.may_deliver(script.now)
    with pytest.raises(FencedInstanceIdError, match="i1"):
        script.poll()


@pytest.mark.parametrize(("code", "member_id"), [(22, "me"), (25, "")])
def test_heartbeat_22_and_25_report_the_loss_and_join_again(code, member_id):
    script = Script().stable("t-0")
    script.heartbeat(code)
    assert not script.member.may_deliver(script.now)
    script.calls.clear()
    script.poll()
    assert script.calls == [(Event.LOST, tps("t-0"))]
    assert script.last("JoinGroup").request.member_id == member_id


@pytest.mark.parametrize("code", [22, 25, 82])
def test_a_heartbeat_of_an_older_generation_is_ignored(code):
    script = Script("cooperative-sticky").stable("t-0")
    script.tick(3000)
    script.member.request_rejoin("test")
    script.poll()
    script.joined(2)
    script.answer("Heartbeat", HeartbeatResponse(error_code=code))
    assert script.member.state is MemberState.COMPLETING_REBALANCE
    assert script.member.generation.id == 2


@pytest.mark.parametrize("code", [29, 14, 99])
def test_a_failed_heartbeat_is_repeated_after_a_growing_backoff_and_tells_nobody(code):
    script = Script().stable("t-0")
    script.heartbeat(code)
    gaps = []
    for _ in range(3):
        gaps.append(script.member.next_deadline() - script.now)
        script.heartbeat(code)
    script.poll()
    assert gaps == [100, 200, 400]
    script.heartbeat(0)
    assert script.member.next_deadline() - script.now == 3000


@pytest.mark.conformance("XF-06")
def test_a_heartbeat_without_rights_is_told_and_the_next_ones_go_on():
    script = Script().stable("t-0")
    script.heartbeat(30)
    with pytest.raises(GroupAuthorizationError):
        script.poll()
    script.heartbeat(0)
    script.poll()
    assert script.member.state is MemberState.STABLE


@pytest.mark.parametrize("code", [15, 16])
def test_heartbeat_15_and_16_look_for_the_coordinator(code):
    script = Script().stable("t-0")
    script.heartbeat(code)
    assert script.member.coordinator is None
    assert Drop(NODE) in script.effects
    script.tick()
    assert script.unanswered("FindCoordinator")


@pytest.mark.conformance("E-15")
def test_no_poll_for_too_long_leaves_and_the_next_poll_reports_the_loss():
    script = Script(max_poll_interval_ms=5_000).stable("t-0")
    script.heartbeat()
    script.tick(2_500)
    assert script.count("LeaveGroup") == 1
    assert script.last("LeaveGroup").request.members[0].member_id == "me"
    assert "max.poll.interval" in script.last("LeaveGroup").request.members[0].reason
    assert not script.member.may_deliver(script.now)
    script.calls.clear()
    script.poll(100)
    assert script.calls == [(Event.LOST, tps("t-0"))]
    assert script.count("JoinGroup") == 2


@pytest.mark.conformance("E-16")
def test_no_answered_heartbeat_for_the_session_timeout_forgets_the_coordinator_and_does_not_leave():
    script = Script(session_timeout_ms=6_000).stable("t-0")
    start = script.now
    script.tick(3000)
    while script.now < start + 7_000:
        script.tick(100)
    assert Drop(NODE) in script.effects
    assert script.unanswered("FindCoordinator")
    assert script.count("LeaveGroup") == 0
    assert script.member.state is MemberState.STABLE


def test_polling_regularly_while_the_coordinator_is_away_never_leaves():
    script = Script(max_poll_interval_ms=5_000).stable("t-0")
    script.tick(3000)
    script.fail("Heartbeat")
    for _ in range(20):
        script.poll(1000)
        script.tick()
        if script.unanswered("FindCoordinator"):
            script.answer("FindCoordinator", lookup_answer(code=15))
    assert script.count("LeaveGroup") == 0
    script.poll(1000)
    script.found()
    script.tick()
    assert script.member.state is MemberState.STABLE


def test_the_right_to_deliver_counts_from_when_the_last_answered_heartbeat_was_sent():
    script = Script(session_timeout_ms=6_000).stable("t-0")
    script.tick(3000)
    sent = script.now
    script.now += 2_000
    script.answer("Heartbeat", HeartbeatResponse())
    assert script.member.may_deliver(sent + 5_999)
    assert not script.member.may_deliver(sent + 6_000)


def waiting(strategy: str = "cooperative-sticky", **settings: Any) -> Script:
    """A member with a partition whose second JoinGroup waits for the others."""
    script = Script(strategy, session_timeout_ms=6_000, **settings).stable("t-0")
    script.heartbeat(27)
    script.poll()
    assert script.member.state is MemberState.PREPARING_REBALANCE
    return script


@pytest.mark.parametrize("code", [27, 0])
def test_a_member_whose_join_waits_longer_than_its_session_goes_on_delivering_what_it_keeps(code):
    script = waiting()
    for _ in range(10):
        script.tick(3_000)
        assert script.member.may_deliver(script.now)
        (beat,) = script.unanswered(ASIDE)
        assert (beat.to, beat.node) == (To.ASIDE, NODE), "on the group's own connection it would wait for the join"
        assert (beat.request.generation_id, beat.request.member_id) == (1, "me")
        script.answer(ASIDE, HeartbeatResponse(error_code=code))
    assert script.count("JoinGroup") == 2
    script.joined(2)
    script.synced("t-0")
    script.poll()
    assert script.member.state is MemberState.STABLE


@pytest.mark.parametrize("code", [15, 16, 22, 25, 82, 30])
def test_heartbeats_aside_prove_the_session_and_decide_nothing_else(code):
    script = waiting()
    before = script.now
    script.tick(3_000)
    script.answer(ASIDE, HeartbeatResponse(error_code=code))
    assert script.member.state is MemberState.PREPARING_REBALANCE
    assert script.member.coordinator == NODE
    assert not script.member.may_deliver(before + 6_000)
    script.tick(3_000)
    script.fail(ASIDE)
    assert script.unanswered("JoinGroup"), "the join goes on"
    assert script.member.coordinator == NODE


def until_due(script: Script) -> None:
    """Time passes until something is due."""
    due = script.member.next_deadline()
    assert due is not None
    script.tick(max(0, due - script.now))


def failed(**settings: Any) -> Script:
    """The same, after the coordinator's broker went down with the JoinGroup; the program is long at its records."""
    script = waiting(**settings)
    script.fail("JoinGroup")
    assert (script.member.join, script.member.coordinator) == (None, None)
    return script


def test_a_member_whose_join_had_failed_sent_no_heartbeat_until_its_next_poll():
    """A handler that took longer than the session then cost the member its partitions."""
    script = failed()
    until_due(script)
    script.found()
    for _ in range(10):
        until_due(script)
        (beat,) = script.unanswered(ASIDE)
        assert beat.request.generation_id == 1
        script.answer(ASIDE, HeartbeatResponse())
        assert script.member.may_deliver(script.now)
    assert script.count("JoinGroup") == 2
    script.poll()
    assert script.count("JoinGroup") == 3


@pytest.mark.parametrize("code", [15, 16, None])
def test_a_heartbeat_after_a_failed_join_looks_for_the_coordinator_that_it_does_not_find(code):
    script = failed()
    until_due(script)
    script.found()
    until_due(script)
    if code is None:
        script.fail(ASIDE)
    else:
        script.answer(ASIDE, HeartbeatResponse(error_code=code))
    assert script.member.coordinator is None
    until_due(script)
    assert script.unanswered("FindCoordinator")


@pytest.mark.parametrize("code", [25, 82])
def test_a_member_that_was_expelled_after_a_failed_join_delivers_nothing_more(code):
    """Others may have its partitions by then. Its next JoinGroup would say so, but it may poll long before."""
    script = failed(group_instance_id="i" if code == 82 else None)
    until_due(script)
    script.found()
    until_due(script)
    script.answer(ASIDE, HeartbeatResponse())
    until_due(script)
    script.answer(ASIDE, HeartbeatResponse(error_code=code))
    assert not script.member.may_deliver(script.now)
    assert script.member.state is MemberState.UNJOINED
    assert script.member.next_deadline() is None


def test_a_round_that_went_on_without_a_member_whose_join_failed_expels_it_not():
    """The coordinator has had the JoinGroup: what the member keeps is still its own."""
    script = failed()
    until_due(script)
    script.found()
    until_due(script)
    script.answer(ASIDE, HeartbeatResponse(error_code=22))
    assert script.member.state is MemberState.PREPARING_REBALANCE
    assert script.member.may_deliver(script.now)


def test_a_program_that_hangs_after_a_failed_join_leaves():
    script = failed(max_poll_interval_ms=20_000)
    until_due(script)
    script.found()
    polled = script.member.live.last_poll_ms
    while script.now < polled + 20_000:
        until_due(script)
        if script.unanswered(ASIDE):
            script.answer(ASIDE, HeartbeatResponse())
    assert script.now == polled + 20_000
    assert (script.count("LeaveGroup"), script.member.state) == (1, MemberState.UNJOINED)


def test_a_late_answer_to_a_heartbeat_aside_brings_no_lost_membership_back():
    script = waiting()
    script.tick(3_000)
    script.join_error(25)
    assert not script.member.may_deliver(script.now)
    script.answer(ASIDE, HeartbeatResponse())
    assert not script.member.may_deliver(script.now)


def test_who_keeps_nothing_during_a_join_sends_no_heartbeats():
    for script in (joining(), waiting("range")):
        beats = script.count("Heartbeat")
        assert script.member.next_deadline() is None
        script.tick(30_000)
        assert script.count("Heartbeat") == beats


def test_without_a_subscription_everything_may_be_delivered():
    assert Script().member.may_deliver(10**9)


def test_a_failure_of_the_background_thread_surfaces_at_the_next_poll():
    script = Script().stable("t-0")
    script.member.fail(RuntimeError("authentication failed"), script.now)
    with pytest.raises(RuntimeError, match="authentication"):
        script.poll()
    script.poll()
