"""The member that leads: whose metadata it waits for, what it assigns, and when it has the group join again."""

from __future__ import annotations

import pytest

from actors.client.errors import CallbackError, CorrelationIdError, IllegalStateError, UnsupportedVersionError
from actors.client.group.assignors import BUILT_IN, Assignor, RebalanceProtocol
from actors.client.group.assignors.protocol import Assignment, Subscription
from actors.client.group.effects import WantMetadata
from actors.client.net.metadata import MetadataView
from actors.wire.messages import DescribeGroupsResponse, JoinGroupResponse
from tests.support.membership_script import Script, joining, part, syncing, tps


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


def inheriting() -> Script:
    """A static leader that has come back and goes on with the assignment of its last incarnation. Topic t has 4."""
    script = joining(group_instance_id="i")
    script.joined(leader=True, skip_assignment=True)
    assert script.last("SyncGroup").request.assignments == []
    script.synced("t-0", "t-1")
    script.poll()
    assert script.last("DescribeGroups").request.groups == ["g"]
    return script


def described(*assignments: bytes, code: int = 0, state: str = "Stable") -> DescribeGroupsResponse:
    members = [DescribeGroupsResponse.DescribedGroupMember(member_assignment=each) for each in assignments]
    group = DescribeGroupsResponse.DescribedGroup(error_code=code, group_id="g", group_state=state, members=members)
    return DescribeGroupsResponse(groups=[group])


def gives(*partitions: str) -> bytes:
    return Assignment.of(tps(*partitions)).encode()


def test_a_leader_told_to_skip_the_assignment_goes_on_with_it_and_watches_its_topics():
    script = inheriting()
    script.answer("DescribeGroups", described(gives("t-0", "t-1"), gives("t-2", "t-3")))
    script.poll()
    assert script.count("JoinGroup") == 1
    script.metadata(t=5, version=2)
    script.poll()
    assert script.count("JoinGroup") == 2


def test_partitions_that_came_while_the_leader_was_away_have_the_group_join_again():
    script = inheriting()
    script.answer("DescribeGroups", described(gives("t-0", "t-1"), gives("t-2")))
    script.poll()
    assert script.count("JoinGroup") == 2
    script.joined(2, leader=True)
    given = script.last("SyncGroup").request.assignments
    assert set(Assignment.decode(given[0].assignment).partitions) == tps("t-0", "t-1", "t-2", "t-3")
    script.synced("t-0", "t-1", "t-2", "t-3")
    script.poll()
    assert script.count("DescribeGroups") == 1


def test_a_topic_that_the_assignor_gave_out_unasked_is_watched_too():
    script = inheriting()
    script.answer("DescribeGroups", described(gives("t-0", "t-1"), gives("t-2", "t-3", "x-0")))
    script.poll()
    assert script.effects[-1] == WantMetadata()
    assert script.member.watched_topics == {"t", "x"}
    script.metadata(t=4, x=1, version=2)
    script.poll()
    assert script.count("JoinGroup") == 1
    script.metadata(t=4, x=2, version=3)
    script.poll()
    assert script.count("JoinGroup") == 2


def test_metadata_that_is_older_than_the_assignment_does_not_undo_it():
    script = inheriting()
    script.answer("DescribeGroups", described(gives("t-0", "t-1"), gives("t-2", "t-3", "t-4", "t-5")))
    script.poll()
    assert script.effects[-1] == WantMetadata()
    assert script.count("JoinGroup") == 1
    script.metadata(t=6, version=2)
    script.poll()
    assert script.count("JoinGroup") == 1
    script.metadata(t=7, version=3)
    script.poll()
    assert script.count("JoinGroup") == 2


def test_what_the_assignor_leaves_out_and_whom_it_gives_nothing_are_no_reason_to_join_again():
    script = inheriting()
    script.answer("DescribeGroups", described(gives("t-1"), gives("t-3"), b""))
    script.poll()
    assert script.count("JoinGroup") == 1


@pytest.mark.parametrize(
    "answer",
    [
        described(code=30),
        described(state="PreparingRebalance"),
        described(b"\x00", gives("t-0", "t-1", "t-2", "t-3")),
        DescribeGroupsResponse(),
    ],
    ids=["refused", "rebalancing", "malformed", "nothing"],
)
def test_an_inherited_assignment_that_cannot_be_had_is_made_anew(answer: DescribeGroupsResponse):
    script = inheriting()
    script.answer("DescribeGroups", answer)
    script.poll()
    assert script.count("JoinGroup") == 2


def test_so_is_one_that_the_broker_cannot_describe():
    script = inheriting()
    script.fail("DescribeGroups", UnsupportedVersionError("0"))
    script.poll()
    assert script.count("JoinGroup") == 2


@pytest.mark.parametrize("code", [14, 15, 16, None], ids=["loading", "unavailable", "elsewhere", "unanswered"])
def test_a_coordinator_that_cannot_tell_yet_is_asked_again_when_it_answers_a_heartbeat(code: int | None):
    script = inheriting()
    looked = script.count("FindCoordinator")
    if code is None:
        script.fail("DescribeGroups", CorrelationIdError("late"))
    else:
        script.answer("DescribeGroups", described(code=code))
    script.poll()
    assert script.count("FindCoordinator") == looked + (code != 14)
    if code != 14:
        script.found()
        script.poll()
    assert script.count("DescribeGroups") == 1
    script.heartbeat()
    assert script.count("DescribeGroups") == 2
    script.heartbeat()
    assert script.count("DescribeGroups") == 2
    script.answer("DescribeGroups", described(gives("t-0", "t-1"), gives("t-2", "t-3")))
    script.heartbeat()
    script.poll()
    assert (script.count("DescribeGroups"), script.count("JoinGroup")) == (2, 1)


def test_a_leader_that_joins_again_does_not_ask_what_it_will_divide_anew():
    script = inheriting()
    script.answer("DescribeGroups", described(code=14))
    script.member.request_rejoin("a test")
    script.heartbeat()
    assert script.count("DescribeGroups") == 1


def test_one_that_leaves_waits_for_no_description():
    script = inheriting()
    part(script)
    assert not script.unanswered("DescribeGroups")
    assert not script.member.asks_coordinator


def test_what_is_told_of_an_earlier_generation_does_not_count():
    script = inheriting()
    script.heartbeat(27)
    script.poll()
    script.joined(2, leader=True)
    script.synced("t-0", "t-1", "t-2", "t-3")
    script.poll()
    script.answer("DescribeGroups", described(gives("t-0")))
    script.poll()
    assert script.count("JoinGroup") == 2


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


@pytest.mark.conformance("E-22")
@pytest.mark.parametrize("leader", [True, False])
def test_a_topic_that_matches_while_the_round_is_under_way_has_the_member_join_again(leader: bool):
    script = Script()
    script.member.subscribe_pattern(lambda topic: topic.startswith("t"))
    script.metadata(t1=1)
    script.poll()
    script.found()
    script.poll()
    script.metadata(t1=1, version=2)
    script.poll()
    script.metadata(t1=1, t2=1, version=3)
    script.joined(leader=leader)
    script.synced("t1-0")
    script.poll()
    script.metadata(t1=1, t2=1, version=4)
    script.poll()
    assert script.count("JoinGroup") == 2
    assert Subscription.decode(script.last("JoinGroup").request.protocols[0].metadata).topics == ("t1", "t2")
    script.joined(leader=leader)
    script.synced("t1-0", "t2-0")
    script.poll()
    script.metadata(t1=1, t2=1, version=5)
    script.poll()
    assert script.count("JoinGroup") == 2, "what it was told is what matches"


def test_patterns_leave_internal_topics_out():
    script = Script()
    script.member.subscribe_pattern(lambda topic: True)
    view = MetadataView(1, {"t": 1, "__consumer_offsets": 50}, internal=frozenset({"__consumer_offsets"}), asked=None)
    script.member.on_metadata(view, script.now)
    assert script.member.topics == {"t"}
