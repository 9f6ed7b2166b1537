"""A join changes a member's partitions: revoked, assigned and lost, the listener, and the commit before."""

from __future__ import annotations

import pytest

from actors.client.errors import CallbackError, IllegalStateError, WakeupError
from actors.client.group.assignors import BUILT_IN
from actors.client.group.assignors.protocol import Subscription
from actors.client.group.effects import CommitOutcome, Event
from tests.support.membership_script import Script, following_a_pattern, syncing, tps


@pytest.mark.conformance("E-17")
def test_eager_revokes_everything_before_the_join_and_assigns_after_the_sync():
    script = Script().stable("t-0", "t-1")
    script.calls.clear()
    script.log.clear()
    script.heartbeat(27)
    script.poll()
    script.joined(2)
    script.synced("t-1")
    script.poll()
    assert script.calls == [(Event.REVOKED, tps("t-0", "t-1")), (Event.ASSIGNED, tps("t-1"))]
    order = [entry for entry in script.log if entry != "HeartbeatRequest"]
    assert order == ["REVOKED", "JoinGroupRequest", "SyncGroupRequest", "ASSIGNED"]


@pytest.mark.conformance("E-18")
def test_cooperative_revokes_only_what_moved_after_the_sync_and_joins_again():
    script = Script("cooperative-sticky").stable("t-0", "t-1", "t-2")
    script.calls.clear()
    script.heartbeat(27)
    script.poll()
    assert script.calls == []
    assert script.member.owned == tps("t-0", "t-1", "t-2"), "kept while the rebalance runs"
    assert script.member.may_deliver(script.now)
    owned = Subscription.decode(script.last("JoinGroup").request.protocols[0].metadata)
    assert set(owned.owned) == tps("t-0", "t-1", "t-2")
    assert owned.generation == 1
    script.joined(2)
    script.synced("t-0", "t-1")
    script.poll()
    assert script.calls == [(Event.REVOKED, tps("t-2")), (Event.ASSIGNED, frozenset())]
    assert script.count("JoinGroup") == 3
    assert script.member.owned == tps("t-0", "t-1")


@pytest.mark.parametrize("fails", [None, Event.REVOKED, "assignor", Event.ASSIGNED])
def test_completing_a_join_revokes_tells_the_assignor_applies_announces_and_raises_last(fails):
    class Noting(BUILT_IN["cooperative-sticky"]):
        def on_assignment(self, assigned, generation):
            script.log.append(f"assignor {generation}")
            script.log.append(f"owned {len(script.member.owned)}")
            if fails == "assignor" and generation == 2:
                raise RuntimeError("mine")

    script = Script(assignors=(Noting(),))
    script.stable("t-0", "t-1")
    script.heartbeat(27)
    script.poll()
    script.joined(2)
    script.synced("t-1")
    script.log.clear()
    if fails is None:
        script.poll()
    else:
        if isinstance(fails, Event):
            script.raises[fails] = RuntimeError("mine")
        with pytest.raises(CallbackError if fails == "assignor" else RuntimeError, match="mine"):
            script.poll()
        assert script.member.owned == tps("t-1")
        assert script.log == ["REVOKED", "assignor 2", "owned 2", "ASSIGNED"]
        script.poll()
    assert script.log == ["REVOKED", "assignor 2", "owned 2", "ASSIGNED", "JoinGroupRequest"]


@pytest.mark.parametrize("failing", [(Event.REVOKED, "assignor", Event.ASSIGNED), ("assignor", Event.ASSIGNED)])
def test_of_all_that_callbacks_of_a_join_raise_the_first_is_raised(failing):
    """The later ones may only be its consequences."""

    class Failing(BUILT_IN["cooperative-sticky"]):
        def on_assignment(self, assigned, generation):
            if generation == 2:
                raise RuntimeError(f"number {failing.index('assignor')}")

    script = Script(assignors=(Failing(),)).stable("t-0", "t-1")
    script.heartbeat(27)
    script.poll()
    script.joined(2)
    script.synced("t-1")
    for number, event in enumerate(failing):
        if isinstance(event, Event):
            script.raises[event] = RuntimeError(f"number {number}")
    with pytest.raises((CallbackError, RuntimeError), match="number 0"):
        script.poll()
    assert script.raises == {}, "all were called"
    script.poll()
    assert script.member.owned == tps("t-1")


def test_a_member_that_follows_a_pattern_takes_matching_topics_it_has_not_heard_of():
    script = following_a_pattern()
    script.synced("t1-0", "t2-0")
    script.poll()
    assert script.member.owned == tps("t1-0", "t2-0")
    assert "t2" in script.member.watched_topics
    for version in (3, 4):
        script.metadata(t1=1, version=version)
        script.poll()
    assert script.member.topics == {"t1", "t2"}, "kept while the metadata does not have it yet"
    script.metadata(t1=1, t2=1, version=5)
    script.poll()
    assert script.count("JoinGroup") == 1
    assert script.member.settled


def test_a_member_that_follows_a_pattern_does_not_take_what_does_not_match():
    script = following_a_pattern()
    script.synced("t1-0", "other-0")
    script.poll()
    assert script.member.owned == frozenset()
    assert script.member.rejoin_needed


def test_cooperative_gives_up_unsubscribed_topics_before_joining():
    script = Script("cooperative-sticky")
    script.member.subscribe(["t", "u"])
    script.metadata(t=2, u=2)
    script.poll()
    script.found()
    script.poll()
    script.joined()
    script.synced("t-0", "u-0")
    script.poll()
    script.calls.clear()
    script.member.subscribe(["t"])
    script.poll()
    assert script.calls == [(Event.REVOKED, tps("u-0"))]
    assert set(Subscription.decode(script.last("JoinGroup").request.protocols[0].metadata).owned) == tps("t-0")


@pytest.mark.conformance("E-19")
def test_an_assignment_with_an_unsubscribed_topic_is_not_applied():
    script = syncing()
    script.synced("t-0", "strange-0")
    script.poll()
    assert script.member.owned == frozenset()
    assert Event.ASSIGNED not in [event for event, _ in script.calls]
    assert script.count("JoinGroup") == 2
    assert "strange" in script.last("JoinGroup").request.reason


@pytest.mark.conformance("E-20")
@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\0\0\1"])
def test_an_assignment_too_short_is_an_error(data):
    script = syncing()
    script.synced(assignment=data)
    with pytest.raises(IllegalStateError, match="assignment"):
        script.poll()


def test_an_error_of_a_listener_is_raised_after_the_step_and_the_call_not_repeated():
    script = Script().stable("t-0")
    script.heartbeat(27)
    script.calls.clear()
    script.raises[Event.REVOKED] = RuntimeError("mine")
    with pytest.raises(RuntimeError, match="mine"):
        script.poll()
    assert script.member.owned == frozenset(), "the step was completed"
    script.poll()
    assert [event for event, _ in script.calls] == [Event.REVOKED]
    script.joined(2)
    script.synced("t-1")
    script.raises[Event.ASSIGNED] = RuntimeError("again")
    with pytest.raises(RuntimeError, match="again"):
        script.poll()
    assert script.member.owned == tps("t-1")


def test_a_wakeup_in_the_assigned_listener_repeats_it_without_a_new_join():
    script = syncing()
    script.synced("t-0")
    script.raises[Event.ASSIGNED] = WakeupError()
    script.poll()
    script.poll()
    assert script.calls == [(Event.ASSIGNED, tps("t-0"))] * 2
    assert script.count("JoinGroup") == 1
    assert script.member.settled


@pytest.mark.conformance("E-23")
def test_the_commit_is_awaited_before_the_join():
    script = Script(auto_commit=True).stable("t-0")
    script.heartbeat(27)
    script.log.clear()
    script.commit_outcome = CommitOutcome.LATER
    script.poll()
    script.poll()
    assert script.log == ["commit", "commit"]
    script.commit_outcome = CommitOutcome.DONE
    script.poll()
    assert script.log[2:] == ["commit", "REVOKED", "JoinGroupRequest"]


@pytest.mark.conformance("E-23")
def test_a_commit_that_never_finishes_holds_the_join_up_no_longer_than_the_rebalance_timeout():
    script = Script(auto_commit=True, max_poll_interval_ms=10_000).stable("t-0")
    script.heartbeat(27)
    script.commit_outcome = CommitOutcome.LATER
    script.poll()
    assert script.count("JoinGroup") == 1
    script.poll(10_000)
    script.commit_outcome = CommitOutcome.DONE
    script.poll()
    assert script.count("JoinGroup") == 2
