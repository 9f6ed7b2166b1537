"""A member of a consumer group takes over assigned partitions, and gives up lost ones."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client.errors import WakeupError
from actors.client.group.consumer_protocol.beats import BEATS, Kind
from actors.client.group.consumer_protocol.standing import MemberState
from actors.client.group.effects import Apply, CommitFirst, CommitOutcome, Event, RunListener
from tests.support.consumer_script import Script, owned_in
from tests.support.membership_script import tps

S = MemberState


def moving(**settings: Any) -> Script:
    """A member of t-0 and t-1 that is to have t-1 and t-2 instead."""
    script = Script(**settings).stable("t-0", "t-1")
    script.log.clear()
    script.calls.clear()
    script.next_beat()
    script.answer(2, "t-1", "t-2")
    return script


# --- the order of things ---


@pytest.mark.conformance("K-F-25", "K-F-26", "K-F-27", "K-F-28", "K-F-30")
def test_commit_then_revoke_then_apply_then_assign_and_only_then_acknowledge() -> None:
    script = moving(auto_commit=True)
    script.during[Event.ASSIGNED] = lambda: script.log.append(f"{len(script.in_flight(Kind.BEAT))} sent")
    script.poll()
    assert script.log == ["commit", "REVOKED", "apply", "ASSIGNED", "0 sent"]
    assert script.calls == [(Event.REVOKED, tps("t-0")), (Event.ASSIGNED, tps("t-2"))]
    assert owned_in(script.beat) == tps("t-1", "t-2")
    assert (script.state, script.member.stats.rebalances) == (S.STABLE, 2)


@pytest.mark.conformance("K-F-25", "K-F-26")
def test_what_goes_is_stopped_while_all_that_was_consumed_is_committed() -> None:
    script = moving(auto_commit=True)
    assert script.member.next_action(script.now) == CommitFirst(tps("t-0"))


@pytest.mark.conformance("K-F-26", "K-F-27")
@pytest.mark.parametrize(("owned", "log"), [(["t-0", "t-1"], ["ASSIGNED"]), (["t-1"], ["REVOKED", "ASSIGNED"])])
def test_without_auto_commit_nothing_is_committed_and_without_losses_nothing_is_revoked(
    owned: list[str], log: list[str]
) -> None:
    script = Script().stable("t-0", "t-1")
    script.log.clear()
    script.next_beat()
    script.answer(3, *owned, "t-5")
    script.poll()
    assert [each for each in script.log if each != "apply"] == log


@pytest.mark.conformance("K-F-24")
def test_nothing_is_taken_over_but_by_a_poll() -> None:
    script = moving()
    assert script.member.awaits_poll(script.now)
    for _ in range(3):
        script.next_beat()
        script.answer(2)
    assert (script.state, script.calls, script.member.owned) == (S.RECONCILING, [], tps("t-0", "t-1"))
    assert owned_in(script.beat) is None


@pytest.mark.conformance("K-F-02", "K-F-40")
def test_a_join_awaits_a_poll_as_an_assignment_does() -> None:
    """A program that works long on its records asks `awaits_poll`, and polls then."""
    script = Script().in_state(S.UNSUBSCRIBED)
    assert script.member.awaits_poll(script.now)
    script.poll()
    script.found()
    assert not script.member.awaits_poll(script.now), "a join comes by itself"
    script.tick(script.member.config.max_poll_interval_ms)
    assert (script.state, script.member.awaits_poll(script.now)) == (S.STALE, True)
    script.part()
    assert not script.member.awaits_poll(script.now)


@pytest.mark.conformance("K-F-26")
def test_the_commit_is_tried_until_the_patience_of_the_group_ends() -> None:
    script = moving(auto_commit=True, max_poll_interval_ms=10_000)
    script.commit_outcome = CommitOutcome.LATER
    script.poll()
    script.poll(5_000)
    script.settle()
    assert script.log == ["commit", "commit"]
    assert script.calls == []
    script.poll(5_000)
    assert script.log == ["commit", "commit", "commit"]
    script.poll()
    assert script.log[3:] == ["REVOKED", "apply", "ASSIGNED"]


@pytest.mark.conformance("K-F-26")
def test_a_commit_that_fails_for_good_does_not_hold_the_group_up() -> None:
    script = moving(auto_commit=True)
    script.commit_outcome = CommitOutcome.FAILED
    script.poll()
    assert script.log == ["commit", "REVOKED", "apply", "ASSIGNED"]


# --- callbacks that raise ---


@pytest.mark.conformance("K-F-31")
def test_a_failing_revocation_is_raised_tried_again_whole_and_never_acknowledged() -> None:
    script = moving(auto_commit=True)
    for _ in range(2):
        script.raises[Event.REVOKED] = ValueError("no")
        with pytest.raises(ValueError, match="no"):
            script.poll()
        assert script.state is S.RECONCILING
        assert script.member.owned == tps("t-0", "t-1")
        assert script.in_flight(*BEATS) == []
    script.poll()
    assert script.log == ["commit", "REVOKED"] * 2 + ["commit", "REVOKED", "apply", "ASSIGNED"]
    assert owned_in(script.beat) == tps("t-1", "t-2")


@pytest.mark.conformance("K-F-31")
def test_a_failing_assignment_is_raised_and_tried_again_alone() -> None:
    script = moving()
    script.raises[Event.ASSIGNED] = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        script.poll()
    assert (script.state, script.in_flight(*BEATS)) == (S.RECONCILING, [])
    script.poll()
    assert [event for event, _ in script.calls] == [Event.REVOKED, Event.ASSIGNED, Event.ASSIGNED]
    assert script.state is S.STABLE


@pytest.mark.conformance("K-F-31")
def test_partitions_stopped_for_a_revocation_that_failed_go_on_if_they_are_kept_after_all() -> None:
    script = moving(auto_commit=True)
    script.raises[Event.REVOKED] = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        script.poll()
    script.next_beat()
    script.answer(2, "t-0", "t-1")
    script.log.clear()
    script.poll()
    assert script.log == ["commit", "apply", "ASSIGNED"], "applying lets them go on"
    assert script.state is S.STABLE


@pytest.mark.parametrize("event", [Event.REVOKED, Event.ASSIGNED])
def test_a_wakeup_in_a_callback_has_it_run_again(event: Event) -> None:
    script = moving()
    script.raises[event] = WakeupError()
    if event is Event.REVOKED:
        with pytest.raises(WakeupError):
            script.poll()
    else:
        script.poll()
        assert script.state is S.RECONCILING
    script.poll()
    assert [each for each, _ in script.calls].count(event) == 2
    assert script.state is S.STABLE


# --- ids and names ---


@pytest.mark.conformance("K-F-22", "K-F-23")
def test_what_has_no_name_yet_is_taken_over_when_metadata_has_it() -> None:
    script = Script()
    script.member.subscribe(["t", "u"])
    script.metadata(t=6)
    script.poll()
    script.found()
    wanted = script.metadata_wanted
    script.answer(2, "t-0", "u-0")
    script.poll()
    assert script.member.owned == tps("t-0")
    assert owned_in(script.beat) == tps("t-0", "u-0"), "it may have both before this is read"
    assert script.metadata_wanted == wanted + 1
    assert script.state is S.RECONCILING
    script.answer(2)
    script.poll()
    assert script.metadata_wanted == wanted + 1, "not at every poll"
    later = script.member.user_deadline()
    assert later is not None
    script.poll(later - script.now)
    assert script.metadata_wanted == wanted + 2
    assert not script.member.awaits_poll(script.now)
    assert len(script.beats) == 2, "what it has was acknowledged once"
    script.metadata(2, t=6, u=6)
    assert script.member.awaits_poll(script.now)
    script.poll()
    assert script.calls[1:] == [(Event.ASSIGNED, tps("u-0"))]
    assert owned_in(script.beat) == tps("t-0", "u-0")
    assert script.state is S.STABLE


@pytest.mark.conformance("K-F-22")
def test_a_topic_that_metadata_has_lost_keeps_its_name_while_it_is_assigned() -> None:
    script = Script().stable("t-0")
    script.metadata(2, u=6)
    script.next_beat()
    script.answer(3, "t-0", "t-1")
    script.poll()
    assert script.member.owned == tps("t-0", "t-1")


@pytest.mark.conformance("K-F-23")
def test_an_assignment_of_which_nothing_new_has_a_name_is_acknowledged_with_what_is_held() -> None:
    script = Script()
    script.member.subscribe(["t", "u"])
    script.metadata(t=6)
    script.poll()
    script.found()
    script.answer(2, "t-0")
    script.poll()
    script.answer(2)
    script.calls.clear()
    script.next_beat()
    script.answer(3, "t-0", "u-0")
    script.poll()
    assert script.calls == []
    assert owned_in(script.beat) == tps("t-0", "u-0"), "it may have the new one before this is read"
    assert script.state is S.RECONCILING


# --- lost ---


@pytest.mark.conformance("K-F-32")
@pytest.mark.parametrize("event", [Event.REVOKED, Event.ASSIGNED])
def test_who_is_expelled_within_a_callback_takes_nothing_more_over(event: Event) -> None:
    script = moving()

    def expelled() -> None:
        script.next_beat()
        script.answer(code=25)

    script.during[event] = expelled
    script.poll()
    told = tps("t-1") if event is Event.REVOKED else tps("t-1", "t-2")
    assert script.calls[-1] == (Event.LOST, told), "no partition is given up twice"
    assert (script.state, script.member.owned) == (S.JOINING, frozenset())
    assert (script.beat.member_epoch, owned_in(script.beat)) == (0, frozenset())


@pytest.mark.conformance("K-F-31", "K-F-35")
@pytest.mark.parametrize("owned", [["t-1", "t-2"], ["t-2"]])
@pytest.mark.parametrize("end", ["expelled", "not polled", "refused"])
def test_a_revocation_that_failed_while_the_member_was_lost_is_told_as_a_loss(owned: list[str], end: str) -> None:
    script = Script().stable("t-0", "t-1")
    script.calls.clear()
    script.next_beat()
    script.answer(2, *owned)

    def ended() -> None:
        if end == "not polled":
            script.tick(script.member.config.max_poll_interval_ms)
            return
        script.next_beat()
        script.answer(code=25 if end == "expelled" else 112)

    script.during[Event.REVOKED] = ended
    script.raises[Event.REVOKED] = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        script.poll()
    assert script.calls[1:] == [(Event.LOST, tps("t-0", "t-1"))]
    assert script.member.owned == frozenset()


@pytest.mark.conformance("K-F-32")
def test_who_is_expelled_within_the_commit_revokes_nothing() -> None:
    script = moving(auto_commit=True)
    action = script.member.next_action(script.now)
    assert isinstance(action, CommitFirst)
    script.next_beat()
    script.answer(code=110)
    assert script.member.next_action(script.now) is action, "it is under way"
    script.member.action_done(action, script.now, outcome=CommitOutcome.FAILED)
    script.poll()
    assert script.calls == [(Event.LOST, tps("t-0", "t-1"))]
    assert script.state is S.JOINING


@pytest.mark.conformance("K-F-32", "K-F-35")
def test_a_commit_without_an_answer_does_not_keep_the_loss_from_the_listener() -> None:
    script = moving(auto_commit=True)
    action = script.member.next_action(script.now)
    assert isinstance(action, CommitFirst)
    script.next_beat()
    script.answer(code=110)
    script.member.action_done(action, script.now, outcome=CommitOutcome.LATER)
    script.poll()
    assert script.calls == [(Event.LOST, tps("t-0", "t-1"))]
    assert script.state is S.JOINING


def test_who_is_expelled_while_an_assignment_is_applied_loses_what_it_was_told_of() -> None:
    script = moving()
    action = script.member.next_action(script.now)
    assert isinstance(action, RunListener)
    script.member.action_done(action, script.now)
    apply = script.member.next_action(script.now)
    assert isinstance(apply, Apply)
    script.next_beat()
    script.answer(code=110)
    script.member.action_done(apply, script.now)
    script.poll()
    assert script.calls == [(Event.LOST, tps("t-1"))]
    assert script.member.owned == frozenset()


@pytest.mark.conformance("K-F-35")
def test_a_listener_that_fails_to_hear_of_a_loss_does_not_keep_the_member_out() -> None:
    script = Script().in_state(S.FENCED)
    script.raises[Event.LOST] = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        script.poll()
    assert (script.state, script.member.owned) == (S.JOINING, frozenset())
    assert script.beat.member_epoch == 0
