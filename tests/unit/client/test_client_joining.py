"""JoinGroup and SyncGroup, from a member's side: what it sends, and what each answer means to it."""

from __future__ import annotations

import pytest

from actors.client.errors import IllegalStateError, InconsistentGroupProtocolError, KafkaError
from actors.client.group.assignors import BUILT_IN, RebalanceProtocol
from actors.client.group.assignors.protocol import Subscription
from actors.client.group.classic.config import MembershipConfig
from actors.client.group.classic.standing import MemberState
from actors.client.group.effects import Drop, To
from actors.client.group.offsets import make_commit
from actors.client.records import OffsetAndMetadata, TopicPartition
from actors.wire.messages import HeartbeatRequest, JoinGroupResponse
from tests.support.membership_script import NODE, OTHER, Script, joining, looking, part, syncing


def test_one_join_passes_through_the_four_states_in_order():
    script = looking()
    seen = [script.member.state]
    script.found()
    script.poll()
    seen.append(script.member.state)
    script.joined()
    seen.append(script.member.state)
    script.synced("t-0")
    seen.append(script.member.state)
    assert seen == [
        MemberState.UNJOINED,
        MemberState.PREPARING_REBALANCE,
        MemberState.COMPLETING_REBALANCE,
        MemberState.STABLE,
    ]


def test_join_request_says_everything_that_was_configured():
    script = joining(
        "range",
        "roundrobin",
        group_instance_id="i1",
        client_rack="r",
        session_timeout_ms=11_000,
        max_poll_interval_ms=77_000,
    )
    send = script.last("JoinGroup")
    request = send.request
    assert (request.group_id, request.member_id, request.group_instance_id) == ("g", "", "i1")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (11_000, 77_000)
    assert request.protocol_type == "consumer"
    assert [protocol.name for protocol in request.protocols] == ["range", "roundrobin"]
    assert Subscription.decode(request.protocols[0].metadata).topics == ("t",)
    assert Subscription.decode(request.protocols[0].metadata).rack == "r"
    assert send.min_version == 5


@pytest.mark.parametrize("instance", [None, "i1"])
def test_every_request_says_who_it_comes_from(instance):
    """Without the instance id, two processes that share one would displace each other forever: nobody is fenced."""
    script = Script("cooperative-sticky", group_instance_id=instance).stable("t-0", generation=4)
    script.heartbeat(27)
    script.poll()
    script.tick(3_000)
    join, sync, aside = (script.last(kind) for kind in ("JoinGroup", "SyncGroup", "Heartbeat"))
    assert (join.request.group_id, join.request.member_id, join.request.group_instance_id) == ("g", "me", instance)
    assert Subscription.decode(join.request.protocols[0].metadata).generation == 4
    beat = next(send for send in script.sent if type(send.request) is HeartbeatRequest)
    assert (beat.to, aside.to) == (To.COORDINATOR, To.ASIDE)
    for send in (sync, beat, aside):
        request = send.request
        assert (request.group_id, request.generation_id, request.member_id) == ("g", 4, "me")
        assert request.group_instance_id == instance
        assert send.min_version == (3 if instance else 0), "a version that cannot say the instance id"
    script.joined(5)
    script.synced("t-0")
    commit = make_commit(script.member, {TopicPartition("t", 0): OffsetAndMetadata(1)}, script.now)
    request = commit.request
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", 5, "me")
    assert request.group_instance_id == instance
    assert commit.min_version == (7 if instance else 0)


def test_a_leave_says_who_leaves_in_its_old_form_and_its_new_one():
    script = Script().stable("t-0")
    part(script)
    request = script.last("LeaveGroup").request
    assert (request.group_id, request.member_id) == ("g", "me")
    assert [(who.member_id, who.group_instance_id) for who in request.members] == [("me", None)]


def test_no_heartbeat_before_the_join_is_answered_and_some_before_the_sync_is():
    script = joining()
    script.tick(60_000)
    assert script.count("Heartbeat") == 0
    script.joined()
    script.tick(3000)
    assert script.count("Heartbeat") == 1


@pytest.mark.conformance("E-06")
def test_79_joins_again_with_the_given_id_at_once():
    script = joining()
    script.join_error(79, member_id="given")
    assert script.count("JoinGroup") == 2
    assert script.last("JoinGroup").request.member_id == "given"
    assert script.member.stats.rebalances_failed == 0
    script.poll()


@pytest.mark.conformance("E-07")
def test_25_clears_the_id_and_joins_again_at_once():
    script = joining()
    script.join_error(79, member_id="given")
    script.join_error(25)
    script.poll()
    assert script.count("JoinGroup") == 3
    assert script.last("JoinGroup").request.member_id == ""


@pytest.mark.conformance("E-08")
def test_14_waits_and_asks_the_same_coordinator():
    script = joining()
    script.join_error(14)
    script.poll()
    assert script.count("JoinGroup") == 1
    assert script.member.user_deadline() == script.now + 100
    script.poll(100)
    assert script.count("JoinGroup") == 2
    assert script.count("FindCoordinator") == 1
    assert script.last("JoinGroup").node == NODE


@pytest.mark.conformance("E-08")
@pytest.mark.parametrize("code", [15, 16])
def test_15_and_16_look_for_the_coordinator_again(code):
    script = joining()
    script.join_error(code)
    assert Drop(NODE) in script.effects
    script.poll()
    script.found(OTHER)
    script.poll(100)
    assert script.last("JoinGroup").node == OTHER


@pytest.mark.conformance("E-09")
@pytest.mark.parametrize("code", [81, 82, 23, 26, 24, 30, 35, 99])
def test_fatal_join_errors_are_raised(code):
    script = joining(group_instance_id="i1")
    script.join_error(code)
    with pytest.raises(KafkaError) as raised:
        script.poll()
    assert f"({code})" in str(raised.value)
    if code == 26:
        assert "session_timeout_ms" in str(raised.value)


@pytest.mark.conformance("E-10")
@pytest.mark.parametrize(("interval", "timeout"), [(300_000, 305_000), (1_000, 30_000)])
def test_join_waits_as_long_as_a_rebalance_may_take(interval, timeout):
    script = joining(max_poll_interval_ms=interval)
    assert script.last("JoinGroup").timeout_ms == timeout


@pytest.mark.conformance("E-11")
def test_a_sync_answered_after_a_reset_counts_as_failed():
    script = syncing()
    script.heartbeat(25)
    assert script.member.state is MemberState.UNJOINED
    script.synced("t-0")
    script.poll()
    assert script.member.owned == frozenset()
    assert script.count("JoinGroup") == 2
    assert script.last("JoinGroup").request.member_id == ""


@pytest.mark.conformance("E-12")
def test_sync_27_joins_again_with_id_and_generation():
    script = syncing("cooperative-sticky")
    script.sync_error(27)
    script.poll()
    assert script.member.generation.id == 1
    assert script.last("JoinGroup").request.member_id == "me"
    assert Subscription.decode(script.last("JoinGroup").request.protocols[0].metadata).generation == 1


@pytest.mark.conformance("E-12")
@pytest.mark.parametrize(("code", "member_id"), [(22, "me"), (25, "")])
def test_sync_22_keeps_the_id_only_and_25_nothing(code, member_id):
    script = syncing()
    script.sync_error(code)
    assert script.member.generation.id == -1
    script.poll()
    assert script.last("JoinGroup").request.member_id == member_id


@pytest.mark.conformance("E-12")
@pytest.mark.parametrize("code", [15, 16])
def test_sync_15_and_16_look_for_the_coordinator_and_join_after_the_backoff(code):
    script = syncing()
    script.sync_error(code)
    script.poll()
    script.found(OTHER)
    script.poll()
    assert script.count("JoinGroup") == 1
    script.poll(100)
    assert script.count("JoinGroup") == 2


@pytest.mark.conformance("E-12")
def test_sync_14_joins_again_and_82_30_and_others_raise():
    script = syncing()
    script.sync_error(14)
    script.poll(100)
    assert script.count("JoinGroup") == 2
    for code in (82, 30, 99):
        script = syncing()
        script.sync_error(code)
        with pytest.raises(KafkaError, match=str(code)):
            script.poll()


def test_join_and_sync_lost_with_the_connection_are_tried_again():
    script = joining()
    script.fail("JoinGroup")
    script.poll()
    script.found(OTHER)
    script.poll(100)
    script.joined()
    script.fail("SyncGroup")
    script.poll()
    script.found(NODE)
    script.poll(200)
    assert script.count("JoinGroup") == 3


def test_a_group_of_another_kind_is_refused():
    script = joining()
    script.joined(protocol_type="connect")
    with pytest.raises(InconsistentGroupProtocolError, match="connect"):
        script.poll()


def test_an_assignor_nobody_configured_is_an_error():
    script = joining()
    script.joined(protocol="unheard-of")
    with pytest.raises(IllegalStateError, match="unheard-of"):
        script.poll()


def test_a_sync_for_another_protocol_is_an_error():
    script = syncing()
    script.synced("t-0", protocol_type="consumer", protocol_name="sticky")
    with pytest.raises(InconsistentGroupProtocolError, match="sticky"):
        script.poll()


def test_a_join_answered_after_leaving_sends_no_sync():
    script = joining()
    (send,) = script.unanswered("JoinGroup")
    script.member.unsubscribe(script.now, "unsubscribe")
    script.member.on_response(
        send.id, JoinGroupResponse(generation_id=1, member_id="me", protocol_name="range", leader="x"), script.now
    )
    script.settle()
    assert script.count("SyncGroup") == 0
    assert script.member.state is MemberState.UNJOINED


def test_two_polls_during_one_join_send_one_request_and_latency_spans_the_retries():
    script = joining()
    script.poll(100)
    assert script.count("JoinGroup") == 1
    script.join_error(14)
    script.poll(150)
    script.joined()
    script.synced("t-0")
    assert script.member.stats.rebalances == 1
    assert script.member.stats.rebalances_failed == 1
    assert script.member.stats.last_rebalance_ms == 250


def test_a_subscription_without_assignors_is_an_illegal_state():
    script = Script(assignors=())
    script.member.subscribe(["t"])
    with pytest.raises(IllegalStateError, match="partition_assignment_strategy"):
        script.poll()


def test_the_common_rebalance_protocol_decides():
    def protocol(*names: str) -> RebalanceProtocol:
        return MembershipConfig("g", tuple(BUILT_IN[name]() for name in names)).protocol

    assert protocol("range", "cooperative-sticky") is RebalanceProtocol.EAGER
    assert protocol("cooperative-sticky") is RebalanceProtocol.COOPERATIVE

    class Odd(BUILT_IN["range"]):
        name = "odd"
        protocols = (RebalanceProtocol.COOPERATIVE,)

    with pytest.raises(IllegalStateError, match="share no rebalance protocol"):
        _ = MembershipConfig("g", (Odd(), BUILT_IN["range"]())).protocol
