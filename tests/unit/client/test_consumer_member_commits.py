"""A consumer group member's identity in its commits and fetches of offsets; and the settings of its protocol."""

from __future__ import annotations

import re
from typing import Any

import pytest

from actors.client.config import consumer_config
from actors.client.errors import CommitFailedError, ConfigurationError, KafkaError, StaleMemberEpochError
from actors.client.group.consumer_protocol.beats import Kind
from actors.client.group.consumer_protocol.standing import MemberState
from actors.client.group.generation import Generation
from actors.client.group.offsets import Commit, fetch_request, judge_commit, judge_fetch, make_commit
from actors.client.group.protocols import make_member
from actors.client.records import OffsetAndMetadata, SubscriptionPattern, TopicPartition
from actors.wire.messages import OffsetCommitResponse, OffsetFetchResponse
from tests.support.consumer_script import ID, MEMBER, Script
from tests.support.membership_script import NODE

S = MemberState
T0 = TopicPartition("t", 0)
OFFSETS = {T0: OffsetAndMetadata(5, "", -1)}
IDS = {T0: ID["t"]}


def refused(script: Script, commit: Commit, code: int) -> KafkaError | None:
    partition = OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=0, error_code=code)
    topic = OffsetCommitResponse.OffsetCommitResponseTopic(topic_id=ID["t"], partitions=[partition])
    error = judge_commit(script.member, commit, OffsetCommitResponse(topics=[topic]), script.now)
    script.settle()
    return error


def committing(script: Script) -> Commit:
    return make_commit(script.member, OFFSETS, script.now, IDS)


@pytest.mark.conformance("K-F-19", "K-F-26")
def test_a_commit_names_topics_by_id_and_goes_with_the_newest_epoch() -> None:
    script = Script(group_instance_id="i").stable("t-0")
    commit = committing(script)
    assert (commit.request.generation_id_or_member_epoch, commit.request.member_id) == (2, MEMBER)
    assert (commit.request.group_instance_id, commit.min_version, commit.max_version) == ("i", 9, 10)
    assert [topic.topic_id for topic in commit.request.topics] == [ID["t"]]
    script.next_beat()
    script.answer(3)
    sent = commit.sent(NODE, script.member.sends_as(commit.generation))
    assert sent.request.generation_id_or_member_epoch == 3


@pytest.mark.parametrize("epoch", [2, 5])
def test_a_commit_of_a_membership_that_has_ended_is_not_sent_in_the_next_one(epoch: int) -> None:
    """With its epoch, the coordinator would take it for partitions that others have by now."""
    script = Script().stable("t-0", epoch=1)
    commit = committing(script)
    script.next_beat()
    script.answer(code=25)
    script.poll()
    script.answer(epoch, "t-1")
    assert script.member.sends_as(commit.generation) == Generation(1, MEMBER)
    assert commit.sent(NODE, script.member.sends_as(commit.generation)).request.generation_id_or_member_epoch == 1


@pytest.mark.parametrize("state", [S.RECONCILING, S.ACKNOWLEDGING, S.PREPARE_LEAVING])
def test_commits_go_on_while_partitions_come_and_go(state: MemberState) -> None:
    assert committing(Script().in_state(state)).generation == Generation(2, MEMBER)


@pytest.mark.conformance("K-F-38")
def test_a_commit_of_an_unknown_member_has_failed_and_the_next_heartbeat_is_hurried() -> None:
    script = Script().stable("t-0")
    error = refused(script, committing(script), 25)
    assert type(error) is CommitFailedError
    assert not error.retriable
    assert script.state is S.STABLE, "the heartbeat has the word"
    script.tick()
    assert len(script.in_flight(Kind.BEAT)) == 1


@pytest.mark.conformance("K-F-38")
def test_a_commit_with_a_stale_epoch_has_failed_and_says_so() -> None:
    script = Script().stable("t-0")
    error = refused(script, committing(script), 113)
    assert isinstance(error, StaleMemberEpochError)
    assert isinstance(error, CommitFailedError)
    assert not error.retriable
    assert "committing t-0 for group g" in str(error)


@pytest.mark.conformance("K-F-39")
@pytest.mark.parametrize("subscribed", [False, True])
def test_without_a_membership_a_commit_is_nobodys(subscribed: bool) -> None:
    script = Script(group_instance_id="i")
    if subscribed:
        script.member.subscribe(["t"])
    commit = committing(script)
    assert (commit.request.generation_id_or_member_epoch, commit.request.member_id) == (-1, "")
    assert script.member.sends_as(commit.generation) == Generation()


@pytest.mark.conformance("K-F-39")
def test_partitions_assigned_by_hand_cannot_be_committed_to_a_group_with_members() -> None:
    script = Script()
    commit = committing(script)
    assert commit.min_version == 0
    error = refused(script, commit, 25)
    assert isinstance(error, CommitFailedError)
    assert "members of its own" in str(error)


@pytest.mark.parametrize(("code", "kind"), [(14, "retriable"), (12, "final")])
def test_what_is_not_about_membership_is_told_as_it_is(code: int, kind: str) -> None:
    script = Script().stable("t-0")
    error = refused(script, committing(script), code)
    assert error is not None
    assert error.retriable == (kind == "retriable")
    script.tick()
    assert script.in_flight(Kind.BEAT) == []


# --- fetching ---


@pytest.mark.conformance("K-F-38")
def test_offsets_are_asked_for_as_the_member_in_its_epoch() -> None:
    script = Script().stable("t-0")
    (group,) = fetch_request("g", [T0], IDS, script.member.fetches_as()).groups
    assert (group.member_id, group.member_epoch) == (MEMBER, 2)


@pytest.mark.parametrize("state", [S.UNSUBSCRIBED, S.JOINING, S.FENCED, S.STALE, S.FATAL])
def test_who_has_no_place_asks_without_a_name(state: MemberState) -> None:
    """An empty name would be looked up, and not be found."""
    (group,) = fetch_request("g", [T0], IDS, Script().in_state(state).member.fetches_as()).groups
    assert (group.member_id, group.member_epoch) == (None, -1)


@pytest.mark.conformance("K-F-38")
@pytest.mark.parametrize(("code", "again"), [(113, True), (25, True), (30, False), (69, False)])
def test_an_answer_about_the_place_is_asked_for_again(code: int, again: bool) -> None:
    group = OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", error_code=code)
    fetched = judge_fetch("g", OffsetFetchResponse(groups=[group]), IDS)
    assert fetched.error is not None
    assert fetched.again is again


# --- settings ---


@pytest.mark.conformance("K-F-42")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session_timeout_ms", 45_000),
        ("heartbeat_interval_ms", 3_000),
        ("partition_assignment_strategy", ["range"]),
    ],
)
def test_settings_that_are_the_brokers_are_refused_by_name(name: str, value: Any) -> None:
    given = {"group_id": "g", "group_protocol": "consumer", name: value}
    with pytest.raises(ConfigurationError, match=f"^{name}: cannot be set with group_protocol='consumer'"):
        consumer_config(given)
    assert getattr(consumer_config({**given, "group_protocol": "classic"}), name) == value


@pytest.mark.conformance("K-F-42")
def test_all_of_them_are_named_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"^heartbeat_interval_ms, session_timeout_ms: "):
        consumer_config({"group_protocol": "consumer", "session_timeout_ms": 9_000, "heartbeat_interval_ms": 1_000})


@pytest.mark.conformance("K-F-42")
def test_a_brokers_assignor_means_nothing_to_a_classic_member() -> None:
    with pytest.raises(ConfigurationError, match=r"^group_remote_assignor: cannot be set with .*='classic'"):
        consumer_config({"group_id": "g", "group_remote_assignor": "uniform"})
    config = consumer_config({"group_id": "g", "group_remote_assignor": "uniform", "group_protocol": "consumer"})
    assert config.group_remote_assignor == "uniform"
    assert consumer_config({}).group_protocol == "classic"


@pytest.mark.conformance("K-F-41")
def test_a_consumers_settings_reach_the_heartbeats_of_its_member() -> None:
    config = consumer_config(
        {
            "group_id": "g",
            "group_protocol": "consumer",
            "group_instance_id": "i",
            "group_remote_assignor": "range",
            "client_rack": "r",
            "max_poll_interval_ms": 7_000,
        }
    )
    member = make_member(config, 1, lambda: 1.0, lambda: MEMBER)
    script = Script()
    script.member = member  # type: ignore[assignment]
    script.joining()
    beat = script.beat
    assert (beat.group_id, beat.member_id, beat.instance_id, beat.rack_id) == ("g", MEMBER, "i", "r")
    assert (beat.server_assignor, beat.rebalance_timeout_ms) == ("range", 7_000)
    assert script.member.rhythm.poll_deadline_ms == script.now + 7_000


@pytest.mark.conformance("K-F-42")
@pytest.mark.parametrize("name", ["consumer", "CONSUMER", "Consumer"])
def test_the_name_of_a_protocol_may_be_written_in_any_case(name: str) -> None:
    """As in Kafka."""
    assert consumer_config({"group_id": "g", "group_protocol": name}).group_protocol == "consumer"
    with pytest.raises(ConfigurationError, match="session_timeout_ms"):
        consumer_config({"group_id": "g", "group_protocol": name, "session_timeout_ms": 9_000})


def test_a_vote_for_an_assignor_without_a_name_is_refused() -> None:
    """A broker would refuse each heartbeat with it, for good."""
    with pytest.raises(ConfigurationError, match="group_remote_assignor"):
        consumer_config({"group_id": "g", "group_protocol": "consumer", "group_remote_assignor": ""})


@pytest.mark.parametrize(("pattern", "error"), [("", ValueError), (None, TypeError), (re.compile("t"), TypeError)])
def test_an_expression_that_is_no_text_is_refused_at_once(pattern: Any, error: type[Exception]) -> None:
    """The coordinator would read an empty one as none, and never assign anything."""
    with pytest.raises(error, match="SubscriptionPattern"):
        SubscriptionPattern(pattern)
