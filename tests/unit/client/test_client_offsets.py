"""The meaning of answers to commits and offset fetches, row by row."""

from __future__ import annotations

import pytest

from actors.client.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    GroupAuthorizationError,
    KafkaError,
    RebalanceInProgressError,
    TopicAuthorizationError,
)
from actors.client.group.assignors import BUILT_IN
from actors.client.group.classic.config import MembershipConfig
from actors.client.group.classic.membership import Membership
from actors.client.group.classic.standing import MemberState
from actors.client.group.effects import Drop
from actors.client.group.generation import Generation
from actors.client.group.offsets import Commit, fetch_request, judge_commit, judge_fetch, make_commit
from actors.client.records import Node, OffsetAndMetadata, TopicPartition
from actors.wire.messages import OffsetCommitResponse, OffsetFetchResponse

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
NODE = Node(1, "broker", 9092)
NOW = 1_000
OFFSETS = {T0: OffsetAndMetadata(5, "note", 3), U0: OffsetAndMetadata(6)}


def member(state: MemberState = MemberState.STABLE, *, subscribed: bool = True) -> Membership:
    made = Membership(MembershipConfig("g", (BUILT_IN["range"](),), group_instance_id="i1"))
    if subscribed:
        made.subscribe(["t", "u"])
    made.standing.state = state
    made.standing.generation = Generation(4, "me")
    made.joining.needed = False
    made.live.deliver_until_ms = NOW + 10_000
    made.lookup.coordinator = NODE
    return made


def answer(**codes: int) -> OffsetCommitResponse:
    part = OffsetCommitResponse
    return part(
        topics=[
            part.OffsetCommitResponseTopic(
                name=name, partitions=[part.OffsetCommitResponsePartition(partition_index=0, error_code=code)]
            )
            for name, code in codes.items()
        ]
    )


def judged(who: Membership, code: int) -> KafkaError | None:
    return judge_commit(who, make_commit(who, OFFSETS, NOW), answer(t=code, u=0), NOW)


def test_a_commit_carries_the_membership_and_the_offsets():
    commit = make_commit(member(), OFFSETS, NOW)
    request = commit.request
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", 4, "me")
    assert request.group_instance_id == "i1"
    assert commit.min_version == 7
    (first, _) = request.topics
    (p,) = first.partitions
    assert (first.name, p.committed_offset, p.committed_metadata, p.committed_leader_epoch) == ("t", 5, "note", 3)


@pytest.mark.conformance("E-26")
def test_without_a_subscription_a_commit_is_nobodys():
    request = make_commit(member(subscribed=False), OFFSETS, NOW).request
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (-1, "", None)


@pytest.mark.conformance("E-24")
@pytest.mark.parametrize("state", [MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE])
def test_while_rebalancing_no_commit_leaves(state):
    with pytest.raises(RebalanceInProgressError):
        make_commit(member(state), OFFSETS, NOW)


@pytest.mark.conformance("E-24")
def test_outside_the_group_and_past_the_session_no_commit_leaves():
    with pytest.raises(CommitFailedError):
        make_commit(member(MemberState.UNJOINED), OFFSETS, NOW)
    with pytest.raises(CommitFailedError, match="session_timeout_ms"):
        make_commit(member(), OFFSETS, NOW + 10_000)


def test_success():
    assert judged(member(), 0) is None


@pytest.mark.parametrize("code", [30, 12, 28, 99])
def test_errors_for_the_user(code):
    error = judged(member(), code)
    assert error is not None
    assert not error.retriable
    assert str(code) in str(error)


@pytest.mark.parametrize("code", [14, 3])
def test_retriable_errors_that_say_nothing_about_the_coordinator(code):
    who = member()
    error = judged(who, code)
    assert error is not None
    assert error.retriable
    assert who.coordinator == NODE


@pytest.mark.parametrize("code", [15, 16, 7])
def test_errors_after_which_the_coordinator_is_looked_up_again(code):
    who = member()
    error = judged(who, code)
    assert error is not None
    assert error.retriable
    assert who.coordinator is None
    assert Drop(NODE) in who.take_effects()


def test_unauthorized_topics_are_collected():
    who = member()
    error = judge_commit(who, make_commit(who, OFFSETS, NOW), answer(t=29, u=29), NOW)
    assert isinstance(error, TopicAuthorizationError)
    assert error.topics == ["t", "u"]


@pytest.mark.conformance("E-24")
def test_27_requests_a_rejoin_without_a_reset():
    who = member()
    assert isinstance(judged(who, 27), RebalanceInProgressError)
    assert who.rejoin_needed
    assert who.generation.id == 4


@pytest.mark.conformance("E-24")
@pytest.mark.parametrize(("code", "member_id"), [(22, "me"), (25, "")])
def test_22_and_25_mean_kicked_out(code, member_id):
    who = member()
    assert isinstance(judged(who, code), CommitFailedError)
    assert who.generation == Generation(-1, member_id)
    assert who.state is MemberState.UNJOINED


@pytest.mark.parametrize("code", [22, 25, 82])
@pytest.mark.parametrize(
    ("state", "expected"),
    [(MemberState.PREPARING_REBALANCE, RebalanceInProgressError), (MemberState.STABLE, CommitFailedError)],
)
def test_an_answer_for_an_older_generation(code, state, expected):
    who = member()
    commit = make_commit(who, OFFSETS, NOW)
    who.standing.generation = Generation(5, "me")
    who.standing.state = state
    assert isinstance(judge_commit(who, commit, answer(t=code), NOW), expected)
    assert who.generation.id == 5


def test_82_of_the_same_generation_is_fatal():
    assert isinstance(judged(member(), 82), FencedInstanceIdError)


def test_a_commit_by_hand_into_a_living_group_says_so():
    who = member(subscribed=False)
    error = judge_commit(who, Commit(make_commit(who, OFFSETS, NOW).request, Generation(), NODE), answer(t=25), NOW)
    assert isinstance(error, CommitFailedError)
    assert "members of its own" in str(error)


def fetched(code: int = 0, group_code: int = 0, offset: int = 5):
    part = OffsetFetchResponse
    p = part.OffsetFetchResponsePartitions(partition_index=0, committed_offset=offset, error_code=code, metadata="n")
    topic = part.OffsetFetchResponseTopics(name="t", partitions=[p])
    group = part.OffsetFetchResponseGroup(group_id="g", error_code=group_code, topics=[topic])
    return judge_fetch("g", part(groups=[group]))


def test_fetched_offsets_and_their_absence():
    request = fetch_request("g", [T0])
    assert request.require_stable
    assert fetched().offsets[T0] == OffsetAndMetadata(5, "n", -1)
    assert fetched(offset=-1).offsets == {T0: None}
    assert fetch_request("g", None).groups[0].topics is None


@pytest.mark.parametrize(("code", "lost"), [(15, True), (16, True), (14, False)])
def test_group_errors_that_pass(code, lost):
    result = fetched(group_code=code)
    assert result.error is not None
    assert result.error.retriable
    assert result.lost is lost


def test_fetch_errors_that_do_not_pass():
    assert isinstance(fetched(group_code=30).error, GroupAuthorizationError)
    assert isinstance(fetched(code=29).error, TopicAuthorizationError)
    for code in (3, 99):
        error = fetched(code=code).error
        assert error is not None
        assert not error.retriable
    unstable = fetched(code=88).error
    assert unstable is not None
    assert unstable.retriable
