"""A member of a consumer group leaves, also if nobody polls, and delivers records only while it has a place."""

from __future__ import annotations

import pytest

from actors.client.errors import CommitFailedError
from actors.client.group.consumer_protocol.beats import BEATS, Kind
from actors.client.group.consumer_protocol.standing import MemberState
from actors.client.group.effects import Event
from actors.client.group.generation import Generation
from actors.client.records import GroupMembershipOperation
from tests.support.consumer_script import MEMBER, Script, owned_in, says
from tests.support.membership_script import NODE, tps

S = MemberState
DEFAULT, LEAVE, REMAIN = GroupMembershipOperation


# --- leaving ---


@pytest.mark.conformance("K-F-15", "K-F-16")
@pytest.mark.parametrize(
    ("instance", "operation", "epoch"),
    [
        (None, DEFAULT, -1),
        (None, LEAVE, -1),
        (None, REMAIN, None),
        ("i", DEFAULT, -2),
        ("i", LEAVE, -1),
        ("i", REMAIN, -2),
    ],
)
def test_how_each_member_parts(instance: str | None, operation: GroupMembershipOperation, epoch: int | None) -> None:
    script = Script(group_instance_id=instance).stable("t-0")
    script.part(operation)
    assert script.state is S.UNSUBSCRIBED
    assert script.calls[1:] == [(Event.REVOKED, tps("t-0"))]
    leaves = script.in_flight(Kind.LEAVE)
    if epoch is None:
        assert leaves == []
        return
    assert (script.beat.member_epoch, script.beat.member_id) == (epoch, MEMBER)
    assert (script.beat.subscribed_topic_names, owned_in(script.beat)) == ([], frozenset())
    assert says(script.beat) - {"instance_id"} == {"subscribed_topic_names", "topic_partitions"}
    assert script.member.asks_coordinator
    script.left()
    assert not script.member.asks_coordinator


@pytest.mark.conformance("K-F-06", "K-F-17")
def test_a_leave_is_sent_at_once_although_a_heartbeat_is_in_flight() -> None:
    script = Script().in_state(S.STABLE)
    script.part()
    assert script.beat.member_epoch == -1
    assert script.in_flight(*BEATS) == [], "its answer does not count any more"


@pytest.mark.conformance("K-F-17")
def test_without_a_coordinator_a_member_leaves_without_a_word() -> None:
    script = Script().stable("t-0")
    script.member.coordinator_lost(NODE, script.now, drop=True)
    script.part()
    assert (script.state, script.in_flight(Kind.LEAVE)) == (S.UNSUBSCRIBED, [])


@pytest.mark.conformance("K-F-17")
@pytest.mark.parametrize("code", [0, 25, 69, 16])
def test_whatever_the_answer_the_member_has_left(code: int) -> None:
    script = Script().stable("t-0")
    script.part()
    script.left(code)
    script.poll()
    assert (script.state, script.member.generation) == (S.UNSUBSCRIBED, Generation())
    assert script.in_flight(*BEATS, Kind.LEAVE) == []


@pytest.mark.parametrize("state", [S.FENCED, S.STALE, S.FATAL])
def test_who_has_lost_its_place_is_told_so_when_it_parts_and_sends_nothing(state: MemberState) -> None:
    script = Script().in_state(state)
    before = len(script.sent)
    script.part()
    assert script.calls[1:] == [(Event.LOST, tps("t-0", "t-1"))]
    assert script.state is (S.UNSUBSCRIBED if state is S.FENCED else state)
    assert (len(script.sent), script.member.owned, script.member.topics) == (before, frozenset(), frozenset())
    assert script.member.next_action(script.now) is None


def test_who_never_joined_leaves_nothing() -> None:
    script = Script().in_state(S.UNSUBSCRIBED)
    script.part()
    assert (script.calls, script.sent) == ([], [])


@pytest.mark.conformance("K-F-04")
def test_who_subscribes_again_joins_as_the_same_member() -> None:
    script = Script().stable("t-0")
    script.part()
    script.left()
    script.member.subscribe(["u"])
    script.poll()
    assert (script.beat.member_id, script.beat.member_epoch, script.beat.subscribed_topic_names) == (MEMBER, 0, ["u"])


# --- polls ---


@pytest.mark.conformance("K-F-40")
@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_without_polls_a_member_leaves_and_joins_again_when_its_listener_knows(
    instance: str | None, epoch: int
) -> None:
    script = Script(max_poll_interval_ms=12_000, group_instance_id=instance).stable("t-0")
    for _ in range(2):
        script.next_beat()
        script.answer(2)
    assert script.member.next_deadline() == 1_000 + 12_000
    script.tick(13_000 - script.now)
    assert (script.state, script.beat.member_epoch) == (S.STALE, epoch)
    assert script.member.stats.poll_timeouts == 1
    assert not script.member.may_deliver(script.now)
    script.left()
    script.tick(60_000)
    assert script.beat.member_epoch == epoch, "no join before a poll"
    script.during[Event.LOST] = lambda: script.log.append(f"sent {len(script.beats)}")
    sent = len(script.beats)
    script.poll()
    assert script.log[-2:] == [f"sent {sent}", "apply"], "nor before the listener has heard"
    assert script.calls[1:] == [(Event.LOST, tps("t-0"))]
    assert (script.state, script.beat.member_epoch) == (S.JOINING, 0)


@pytest.mark.conformance("K-F-40")
def test_polls_push_the_deadline_on_and_who_is_leaving_has_none() -> None:
    script = Script(max_poll_interval_ms=12_000).stable("t-0")
    script.poll(3_000)
    script.next_beat()
    assert script.member.next_deadline() == script.member.rhythm.last_poll_ms + 12_000
    script.member.farewell()
    assert script.member.next_deadline() is None
    script.tick(60_000)
    assert script.state is S.PREPARE_LEAVING


@pytest.mark.conformance("K-F-43")
def test_a_rebalance_that_is_asked_for_changes_nothing() -> None:
    script = Script().stable("t-0")
    before = len(script.sent)
    script.member.request_rejoin("please")
    script.poll()
    assert (script.state, len(script.sent)) == (S.STABLE, before)


# --- records ---


def test_records_are_handed_out_while_the_coordinator_must_still_have_the_member() -> None:
    """No answer names the session timeout: Kafka's default counts, from when the last answered heartbeat was sent."""
    script = Script().joining()
    sent = script.now
    assert not script.member.may_deliver(script.now)
    script.now += 300
    script.answer(2, "t-0")
    script.poll()
    assert script.member.may_deliver(sent + 44_999)
    assert not script.member.may_deliver(sent + 45_000)
    script.now = sent + 50_000
    script.answer(2)
    assert not script.member.may_deliver(script.now), "the acknowledgement was sent as long ago"
    script.answer(2)
    assert script.member.may_deliver(script.now)


@pytest.mark.parametrize("interval", [45_000, 60_000, 600_000])
def test_records_are_handed_out_between_heartbeats_however_seldom_the_broker_wants_them(interval: int) -> None:
    script = Script(max_poll_interval_ms=3_600_000).reconciling("t-0")
    script.poll()
    script.answer(2, interval=interval)
    script.next_beat()
    assert script.member.may_deliver(script.now + interval - 1), "the answer may take a while"


@pytest.mark.parametrize("state", [S.JOINING, S.FENCED, S.STALE, S.FATAL])
def test_without_a_place_no_record_is_handed_out(state: MemberState) -> None:
    assert not Script().in_state(state).member.may_deliver(1_000)


@pytest.mark.parametrize("state", [S.FENCED, S.STALE, S.FATAL, S.JOINING])
def test_without_a_place_no_commit_is_made(state: MemberState) -> None:
    script = Script().in_state(state)
    with pytest.raises(CommitFailedError):
        script.member.commits_as(script.now)
    assert script.member.fetches_as() == Generation()
