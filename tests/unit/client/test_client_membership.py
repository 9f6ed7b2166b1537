"""The membership machine, driven by hand: no clock but the test's, no network but the answers given here."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client.errors import (
    CallbackError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    KafkaConnectionError,
    KafkaError,
    WakeupError,
)
from actors.client.group.assignors import BUILT_IN, Assignor, RebalanceProtocol
from actors.client.group.assignors.protocol import Assignment, Subscription
from actors.client.group.effects import (
    Apply,
    CommitBeforeJoin,
    CommitOutcome,
    Drop,
    Event,
    Fail,
    RunListener,
    Send,
    To,
    WantMetadata,
)
from actors.client.group.membership import Membership, MembershipConfig
from actors.client.group.offsets import make_commit
from actors.client.group.standing import MemberState
from actors.client.net.metadata import MetadataView
from actors.client.records import Node, OffsetAndMetadata, TopicPartition
from actors.wire.messages import (
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)

NODE = Node(1, "broker", 9092)
OTHER = Node(2, "other", 9092)
S = MemberState


def tps(*names: str) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(t, int(n)) for t, n in (name.split("-") for name in names))


class Script:
    """A member with its world: answers what it sends, runs what it wants run, and writes everything down."""

    def __init__(self, *strategies: str, **settings: Any) -> None:
        names = strategies or ("range",)
        settings.setdefault("auto_commit", False)
        assignors = settings.pop("assignors", tuple(BUILT_IN[name]() for name in names))
        self.member = Membership(MembershipConfig("g", assignors, **settings))
        self.now = 1_000
        self.sent: list[Send] = []
        self.effects: list[Any] = []
        self.calls: list[tuple[Event, frozenset[TopicPartition]]] = []
        self.log: list[str] = []
        self.commit_outcome = CommitOutcome.DONE
        self.raises: dict[Event, BaseException] = {}
        self.member.poll(self.now)

    def settle(self) -> None:
        for effect in self.member.take_effects():
            self.effects.append(effect)
            if isinstance(effect, Send):
                self.sent.append(effect)
                self.log.append(type(effect.request).__name__)

    def poll(self, advance_ms: int = 0) -> None:
        """One turn of the user's thread, up to where it has to wait."""
        self.now += advance_ms
        self.member.poll(self.now)
        while (action := self.member.next_action(self.now)) is not None:
            if isinstance(action, Fail):
                self.settle()
                raise action.error
            if isinstance(action, RunListener):
                self.settle()
                self.calls.append((action.event, frozenset(action.partitions)))
                self.log.append(action.event.name)
                error = self.raises.pop(action.event, None)
                self.member.action_done(action, self.now, error)
                if isinstance(error, WakeupError):
                    break
            elif isinstance(action, CommitBeforeJoin):
                self.settle()
                self.log.append("commit")
                self.member.action_done(action, self.now, outcome=self.commit_outcome)
                if self.commit_outcome is CommitOutcome.LATER:
                    break
            else:
                self.member.action_done(action, self.now)
        self.settle()

    def tick(self, advance_ms: int = 0) -> None:
        self.now += advance_ms
        self.member.on_time(self.now)
        self.settle()

    def unanswered(self, kind: str) -> list[Send]:
        pending = self.member.pending()
        return [send for send in self.sent if send.id in pending and pending[send.id].kind.value == kind]

    def answer(self, kind: str, response: Any) -> None:
        (send,) = self.unanswered(kind)
        self.member.on_response(send.id, response, self.now)
        self.settle()

    def fail(self, kind: str, error: KafkaError | None = None) -> None:
        (send,) = self.unanswered(kind)
        self.member.on_failure(send.id, error or KafkaConnectionError(), self.now)
        self.settle()

    def count(self, kind: str) -> int:
        return sum(type(send.request).__name__ == kind + "Request" for send in self.sent)

    def last(self, kind: str) -> Any:
        return [send for send in self.sent if type(send.request).__name__ == kind + "Request"][-1]

    # --- what a coordinator would say ---

    def found(self, node: Node = NODE) -> None:
        self.answer("FindCoordinator", lookup_answer(node))

    def metadata(self, *, version: int = 1, **counts: int) -> None:
        self.member.on_metadata(MetadataView(version, counts, asked=None), self.now)
        self.settle()

    def joined(self, generation: int = 1, *, leader: bool = False, protocol: str | None = None, **fields: Any) -> None:
        me = fields.pop("member_id", "me")
        members = []
        if leader:
            request = self.last("JoinGroup").request
            chosen = request.protocols[0]
            members = [JoinGroupResponse.JoinGroupResponseMember(member_id=me, metadata=chosen.metadata)]
        self.answer(
            "JoinGroup",
            JoinGroupResponse(
                generation_id=generation,
                protocol_type=fields.pop("protocol_type", "consumer"),
                protocol_name=protocol or self.last("JoinGroup").request.protocols[0].name,
                leader=me if leader else "somebody",
                member_id=me,
                members=members,
                **fields,
            ),
        )

    def synced(self, *owned: str, **fields: Any) -> None:
        fields.setdefault("assignment", Assignment.of(tps(*owned)).encode())
        self.answer("SyncGroup", SyncGroupResponse(**fields))

    def join_error(self, code: int, **fields: Any) -> None:
        self.answer("JoinGroup", JoinGroupResponse(error_code=code, **fields))

    def sync_error(self, code: int) -> None:
        self.answer("SyncGroup", SyncGroupResponse(error_code=code))

    def heartbeat(self, code: int = 0) -> None:
        """Let the heartbeat fall due and answer it."""
        deadline = self.member.live.next_heartbeat_ms
        self.tick(max(0, deadline - self.now))
        self.answer("Heartbeat", HeartbeatResponse(error_code=code))

    def stable(self, *owned: str, generation: int = 1) -> Script:
        """All the way to an assignment."""
        if not self.member.subscribed:
            self.member.subscribe(["t"])
        self.metadata(t=4)
        self.poll()
        if self.unanswered("FindCoordinator"):
            self.found()
            self.poll()
        self.joined(generation)
        self.synced(*owned)
        self.poll()
        assert self.member.owned == tps(*owned)
        return self


def lookup_answer(node: Node = NODE, code: int = 0) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponse.Coordinator(
                key="g", node_id=node.id, host=node.host, port=node.port, error_code=code
            )
        ]
    )


def looking() -> Script:
    script = Script()
    script.member.subscribe(["t"])
    script.metadata(t=4)
    script.poll()
    return script


def joining(*strategies: str, **settings: Any) -> Script:
    """A member whose first JoinGroup is out."""
    script = Script(*strategies, **settings)
    script.member.subscribe(["t"])
    script.metadata(t=4)
    script.poll()
    script.found()
    script.poll()
    assert script.count("JoinGroup") == 1
    return script


def syncing(*strategies: str, **settings: Any) -> Script:
    script = joining(*strategies, **settings)
    script.joined()
    return script


# --- finding the coordinator ------------------------------------------------------------------------------------


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
    with pytest.raises(GroupAuthorizationFailedError):
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
    assert script.member.state is S.STABLE
    assert script.member.owned == tps("t-0", "t-1")
    assert script.count("JoinGroup") == 1


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


# --- joining ----------------------------------------------------------------------------------------------------


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
    assert seen == [S.UNJOINED, S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE, S.STABLE]


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
    assert script.member.state is S.UNJOINED
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
    assert script.member.state is S.UNJOINED


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


# --- leading ----------------------------------------------------------------------------------------------------


def test_the_leader_waits_for_the_metadata_of_the_whole_group_then_assigns():
    script = joining()
    mine = script.last("JoinGroup").request.protocols[0].metadata
    members = [
        JoinGroupResponse.JoinGroupResponseMember(member_id="me", metadata=mine),
        JoinGroupResponse.JoinGroupResponseMember(member_id="you", metadata=Subscription(("u",)).encode()),
    ]
    script.member.on_metadata(MetadataView(2, {"t": 4}, asked=frozenset({"t"})), script.now)
    script.answer(
        "JoinGroup",
        JoinGroupResponse(generation_id=1, protocol_name="range", leader="me", member_id="me", members=members),
    )
    assert script.count("SyncGroup") == 0
    assert WantMetadata() in script.effects
    assert script.member.watched_topics == {"t", "u"}
    script.member.on_metadata(MetadataView(3, {"t": 1, "u": 1}, asked=frozenset({"t", "u"})), script.now)
    script.settle()
    given = {a.member_id: Assignment.decode(a.assignment) for a in script.last("SyncGroup").request.assignments}
    assert set(given["me"].partitions) == tps("t-0")
    assert set(given["you"].partitions) == tps("u-0")


def test_a_follower_syncs_with_an_empty_list_and_both_name_type_and_protocol():
    script = syncing()
    request = script.last("SyncGroup").request
    assert request.assignments == []
    assert (request.protocol_type, request.protocol_name, request.generation_id) == ("consumer", "range", 1)


def test_a_leader_told_to_skip_the_assignment_sends_none_but_watches():
    script = joining()
    script.joined(leader=True, skip_assignment=True)
    assert script.last("SyncGroup").request.assignments == []
    assert script.member.assigned_on is not None


def test_what_an_assignor_raises_is_raised_to_the_user():
    class Broken(Assignor):
        name = "broken"

        def assign(self, cluster, members):
            raise RuntimeError("out of ideas")

    script = joining(assignors=(Broken(),))
    script.joined(leader=True)
    with pytest.raises(CallbackError, match=r"'broken'.*out of ideas"):
        script.poll()


def test_a_cooperative_assignor_that_hands_over_too_early_is_stopped():
    class Hasty(BUILT_IN["roundrobin"]):
        name = "hasty"
        protocols = (RebalanceProtocol.COOPERATIVE,)

    script = joining(assignors=(Hasty(),))
    theirs = Subscription(("t",), owned=tuple(tps("t-0", "t-1", "t-2", "t-3"))).encode()
    mine = script.last("JoinGroup").request.protocols[0].metadata
    members = [
        JoinGroupResponse.JoinGroupResponseMember(member_id="me", metadata=mine),
        JoinGroupResponse.JoinGroupResponseMember(member_id="you", metadata=theirs),
    ]
    script.answer(
        "JoinGroup",
        JoinGroupResponse(generation_id=1, protocol_name="hasty", leader="me", member_id="me", members=members),
    )
    with pytest.raises(IllegalStateError, match="gives away"):
        script.poll()


@pytest.mark.conformance("E-21")
def test_added_partitions_make_the_leader_rejoin_but_not_a_follower():
    for leads in (True, False):
        script = joining()
        script.joined(leader=leads)
        script.synced("t-0")
        script.poll()
        script.metadata(t=8, version=2)
        script.poll()
        assert script.count("JoinGroup") == (2 if leads else 1)


@pytest.mark.conformance("E-22")
def test_a_new_topic_that_matches_changes_the_subscription_and_rejoins():
    script = Script()
    script.member.subscribe_pattern(lambda topic: topic.startswith("t"))
    script.metadata(t1=1, other=1)
    script.poll()
    script.found()
    script.poll()
    assert script.count("JoinGroup") == 0, "joined without fresh metadata"
    assert WantMetadata() in script.effects
    script.metadata(t1=1, t2=1, version=2)
    script.poll()
    topics = Subscription.decode(script.last("JoinGroup").request.protocols[0].metadata).topics
    assert topics == ("t1", "t2")
    script.joined()
    script.synced("t1-0")
    script.poll()
    script.metadata(t1=1, t2=1, t3=1, version=3)
    script.poll()
    script.metadata(t1=1, t2=1, t3=1, version=4)
    script.poll()
    assert script.member.topics == {"t1", "t2", "t3"}
    assert script.count("JoinGroup") == 2


def test_patterns_leave_internal_topics_out():
    script = Script()
    script.member.subscribe_pattern(lambda topic: True)
    view = MetadataView(1, {"t": 1, "__consumer_offsets": 50}, internal=frozenset({"__consumer_offsets"}), asked=None)
    script.member.on_metadata(view, script.now)
    assert script.member.topics == {"t"}


# --- listeners and assignments ------------------------------------------------------------------------------------


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


def following_a_pattern() -> Script:
    """A member that follows what begins with "t", knows of t1, and has been let in."""
    script = Script()
    script.member.subscribe_pattern(lambda topic: topic.startswith("t"))
    script.metadata(t1=1)
    script.poll()
    script.found()
    script.poll()
    script.metadata(t1=1, version=2)
    script.poll()
    script.joined()
    return script


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


# --- heartbeats ---------------------------------------------------------------------------------------------------


@pytest.mark.conformance("E-13")
def test_heartbeat_27_rejoins_when_stable_and_is_ignored_when_preparing():
    script = Script("cooperative-sticky").stable("t-0")
    script.tick(3000)
    script.member.request_rejoin("test")
    script.poll()
    assert script.member.state is S.PREPARING_REBALANCE
    script.answer("Heartbeat", HeartbeatResponse(error_code=27))
    assert script.count("JoinGroup") == 2
    assert script.member.state is S.PREPARING_REBALANCE
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
    assert script.member.state is S.STABLE
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
    assert script.member.state is S.COMPLETING_REBALANCE
    assert script.member.generation.id == 2


@pytest.mark.parametrize("code", [30, 14, 99])
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
    assert script.member.state is S.STABLE


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
    assert script.member.state is S.STABLE


def test_the_right_to_deliver_counts_from_when_the_last_answered_heartbeat_was_sent():
    script = Script(session_timeout_ms=6_000).stable("t-0")
    script.tick(3000)
    sent = script.now
    script.now += 2_000
    script.answer("Heartbeat", HeartbeatResponse())
    assert script.member.may_deliver(sent + 5_999)
    assert not script.member.may_deliver(sent + 6_000)


ASIDE = "Heartbeat aside of a JoinGroup"


def waiting(strategy: str = "cooperative-sticky", **settings: Any) -> Script:
    """A member with a partition whose second JoinGroup waits for the others."""
    script = Script(strategy, session_timeout_ms=6_000, **settings).stable("t-0")
    script.heartbeat(27)
    script.poll()
    assert script.member.state is S.PREPARING_REBALANCE
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
    assert script.member.state is S.STABLE


@pytest.mark.parametrize("code", [15, 16, 22, 25, 82, 30])
def test_heartbeats_aside_prove_the_session_and_decide_nothing_else(code):
    script = waiting()
    before = script.now
    script.tick(3_000)
    script.answer(ASIDE, HeartbeatResponse(error_code=code))
    assert script.member.state is S.PREPARING_REBALANCE
    assert script.member.coordinator == NODE
    assert not script.member.may_deliver(before + 6_000)
    script.tick(3_000)
    script.fail(ASIDE)
    assert script.unanswered("JoinGroup"), "the join goes on"
    assert script.member.coordinator == NODE


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


# --- leaving ------------------------------------------------------------------------------------------------------


def part(script: Script) -> None:
    for action in script.member.farewell():
        assert isinstance(action, RunListener)
        script.calls.append((action.event, frozenset(action.partitions)))
    script.member.unsubscribe(script.now, "close")
    script.settle()


@pytest.mark.conformance("E-25")
def test_a_dynamic_member_hears_of_its_partitions_and_says_goodbye():
    script = Script().stable("t-0")
    script.calls.clear()
    part(script)
    assert script.calls == [(Event.REVOKED, tps("t-0"))]
    assert script.count("LeaveGroup") == 1
    assert script.member.state is S.UNJOINED
    script.answer("LeaveGroup", LeaveGroupResponse(error_code=25))
    script.poll()


@pytest.mark.conformance("E-25", "B-91")
def test_a_static_member_leaves_without_a_word():
    script = Script(group_instance_id="i1").stable("t-0")
    part(script)
    assert script.count("LeaveGroup") == 0
    assert script.member.state is S.UNJOINED


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
    assert script.member.state is S.STABLE
    assert script.calls[-1] == (Event.ASSIGNED, frozenset())
    script.heartbeat()
    script.poll()
    assert script.member.state is S.STABLE
    assert script.count("JoinGroup") == 1


def test_apply_names_what_starts_from_its_committed_offset():
    script = Script("cooperative-sticky").stable("t-0")
    script.heartbeat(27)
    script.poll()
    script.joined(2)
    script.synced("t-0", "t-1")
    action = script.member.next_action(script.now)
    assert action == Apply(tps("t-0", "t-1"), tps("t-1"))
