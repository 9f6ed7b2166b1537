"""A member finds its coordinator, and loses it."""

from __future__ import annotations

import pytest

from actors.client.errors import GroupAuthorizationError, SaslAuthenticationError
from actors.client.group.classic.standing import MemberState
from actors.client.group.effects import To, WantMetadata
from tests.support.membership_script import NODE, OTHER, Script, looking, lookup_answer, tps


@pytest.mark.conformance("E-02")
def test_lookup_answered_15_is_repeated_with_growing_backoff_until_it_succeeds():
    script = looking()
    waits = []
    for _ in range(3):
        script.answer("FindCoordinator", lookup_answer(code=15))
        script.poll()
        assert not script.unanswered("FindCoordinator"), "sent again before the backoff"
        waits.append(script.member.user_deadline() - script.now)
        script.poll(waits[-1])
    script.found()
    assert waits == [100, 200, 400]
    assert script.member.coordinator == NODE
    assert script.count("FindCoordinator") == 4


@pytest.mark.conformance("E-03")
def test_lookup_answered_30_raises_once_and_then_looks_again():
    script = looking()
    script.answer("FindCoordinator", lookup_answer(code=30))
    with pytest.raises(GroupAuthorizationError):
        script.poll()
    script.poll(1000)
    assert script.count("FindCoordinator") == 2


@pytest.mark.conformance("E-02", "E-03")
@pytest.mark.parametrize("code", [15, 30, None])
def test_a_failed_lookup_wants_fresh_metadata(code):
    script = looking()
    script.effects.clear()
    if code is None:
        script.fail("FindCoordinator")
    else:
        script.answer("FindCoordinator", lookup_answer(code=code))
    assert script.effects == [WantMetadata()]


@pytest.mark.conformance("E-04")
def test_lost_connection_means_a_new_lookup_and_no_new_join():
    script = Script().stable("t-0", "t-1")
    script.tick(3000)
    script.fail("Heartbeat")
    assert script.member.coordinator is None
    script.tick(100)
    script.found(OTHER)
    script.heartbeat()
    script.poll()
    assert script.last("Heartbeat").node == OTHER
    assert script.member.state is MemberState.STABLE
    assert script.member.owned == tps("t-0", "t-1")
    assert script.count("JoinGroup") == 1


@pytest.mark.conformance("E-04")
def test_a_session_is_counted_anew_from_when_its_coordinator_was_found():
    """Else, after a long lookup, the member would look for another coordinator before this one can answer."""
    script = Script(session_timeout_ms=6_000).stable("t-0")
    script.tick(3_000)
    script.fail("Heartbeat")
    for _ in range(10):
        script.tick(1_000)
        if script.unanswered("FindCoordinator"):
            script.answer("FindCoordinator", lookup_answer(code=15))
    script.tick(1_000)
    script.found(OTHER)
    looked = script.count("FindCoordinator")
    script.tick()
    assert script.last("Heartbeat").node == OTHER, "it is told at once that the member lives"
    script.tick(5_999)
    assert (script.member.coordinator, script.count("FindCoordinator")) == (OTHER, looked)
    script.tick(1)
    assert script.member.coordinator is None


@pytest.mark.conformance("E-05")
def test_one_lookup_at_a_time():
    script = Script().stable("t-0")
    script.tick(3000)
    script.fail("Heartbeat")
    for _ in range(3):
        script.poll(1000)
        script.tick(1000)
    assert len(script.unanswered("FindCoordinator")) == 1
    assert script.sent[0].to is To.ANY


def test_a_coordinator_that_refuses_connections_is_looked_up_at_growing_intervals():
    script = looking()
    gaps = []
    for _ in range(4):
        script.found()
        while not script.unanswered("JoinGroup"):
            script.poll(10)
        before = script.now
        script.fail("JoinGroup")
        while not script.unanswered("FindCoordinator"):
            script.poll(10)
        gaps.append(script.now - before)
    assert gaps == sorted(gaps)
    assert gaps[-1] >= 400


def test_finding_the_coordinator_makes_the_session_timer_fresh():
    script = Script().stable("t-0")
    script.tick(3000)
    script.fail("Heartbeat")
    script.tick(40_000)
    script.found(OTHER)
    assert script.member.live.search_at_ms == script.now + 45_000


def refused() -> Script:
    """A member of a stable group whose lookup of the coordinator was refused."""
    script = Script().stable("t-0")
    script.heartbeat(16)
    script.tick(1000)
    script.fail("FindCoordinator", SaslAuthenticationError("no"))
    return script


@pytest.mark.conformance("XF-06")
def test_a_refused_login_is_raised_once_and_lookups_go_on_without_a_poll():
    script = refused()
    before = script.count("FindCoordinator")
    script.tick(1000)
    assert script.count("FindCoordinator") == before + 1
    with pytest.raises(SaslAuthenticationError):
        script.poll()
    script.found()
    script.heartbeat(0)
    assert script.member.state is MemberState.STABLE


@pytest.mark.conformance("XF-06")
def test_a_refused_login_is_forgotten_once_the_coordinator_is_found():
    script = refused()
    script.tick(1000)
    script.found()
    script.poll()
    assert script.member.coordinator == NODE
