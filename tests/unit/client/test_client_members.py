"""A member of another protocol than the classic one: how it commits, and who may be chosen."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client.config import CONSUMER_SETTINGS, consumer_config
from actors.client.errors import CommitFailedError, ConfigurationError
from actors.client.group.effects import Apply, CommitFirst, CommitOutcome, Event, RunListener, Send
from actors.client.group.generation import Generation
from actors.client.group.offsets import judge_commit, make_commit
from actors.client.group.protocols import PROTOCOLS, make_member
from actors.client.net.metadata import MetadataView
from actors.client.records import OffsetAndMetadata, TopicPartition
from actors.wire.messages import HeartbeatResponse, OffsetCommitResponse
from tests.support.lone_member import LoneMember, State, protocols
from tests.support.membership_script import NODE, Script, lookup_answer, tps

T0 = TopicPartition("t", 0)
OFFSETS = {T0: OffsetAndMetadata(5, "", -1)}
NOW = 1_000


def answered(member: LoneMember) -> list[Send]:
    """Answer all that it has sent."""
    sends = [effect for effect in member.take_effects() if isinstance(effect, Send)]
    for send in sends:
        lookup = type(send.request).__name__ == "FindCoordinatorRequest"
        member.on_response(send.id, lookup_answer() if lookup else HeartbeatResponse(), NOW)
    return sends


def polled(member: LoneMember, outcome: CommitOutcome = CommitOutcome.DONE) -> list[Any]:
    actions = []
    while (action := member.next_action(NOW)) is not None:
        actions.append(action)
        member.action_done(action, NOW, None, outcome)
        if outcome is CommitOutcome.LATER:
            break
    return actions


def lone(**settings: Any) -> LoneMember:
    made: list[LoneMember] = []
    config = consumer_config({"group_protocol": "lone", "group_id": "g", **settings}, protocols(made))
    make_member(config, 1, lambda: 1.0, lambda: "lone", protocols(made))
    (member,) = made
    return member


def stable(**settings: Any) -> LoneMember:
    """A member that owns t-0 and t-1 in epoch 1."""
    member = lone(**settings)
    member.subscribe(["t"])
    member.on_metadata(MetadataView(1, {"t": 2}), NOW)
    for _ in range(3):
        polled(member)
        answered(member)
    assert (member.state, member.owned, member.generation.id) == (State.STABLE, tps("t-0", "t-1"), 1)
    return member


def test_an_assignment_comes_with_a_heartbeat_and_is_taken_over_by_actions():
    member = stable(enable_auto_commit=False)
    member.target = tps("t-1")
    member.on_time(NOW + 3_000)
    (beat,) = answered(member)
    assert beat.request.generation_id == 1
    assert (member.state, member.owned) == (State.RECONCILING, tps("t-0", "t-1")), "until a poll has told the listener"
    assert polled(member) == [
        RunListener(Event.REVOKED, (T0,)),
        Apply(tps("t-1")),
        RunListener(Event.ASSIGNED, ()),
    ]
    (beat,) = answered(member)
    assert (member.state, beat.request.generation_id) == (State.STABLE, 2)


def test_only_what_moves_is_committed_and_stopped():
    member = stable()
    member.target = tps("t-1")
    member.on_time(NOW + 3_000)
    answered(member)
    assert polled(member, CommitOutcome.LATER) == [CommitFirst(tps("t-0"))]
    assert polled(member)[0] == CommitFirst(tps("t-0"))
    assert member.owned == tps("t-1")


def test_a_commit_of_a_member_with_an_epoch_is_sent_with_the_newest():
    member = stable()
    commit = make_commit(member, OFFSETS, NOW)
    member.generation = Generation(2, "lone")
    sent = commit.sent(NODE, member.sends_as(commit.generation))
    assert (sent.generation, sent.request.generation_id_or_member_epoch) == (Generation(2, "lone"), 2)


def test_the_member_says_in_which_version_its_commits_may_go():
    """An older one has no place for what fences it (KIP-345, KIP-848). By hand, any will do."""
    assert make_commit(stable(), OFFSETS, NOW).min_version == 9
    assert make_commit(lone(), OFFSETS, NOW).min_version == 0
    assert make_commit(Script(group_instance_id="i").stable("t-0").member, OFFSETS, NOW).min_version == 7
    assert make_commit(Script().stable("t-0").member, OFFSETS, NOW).min_version == 0


def test_a_commit_of_a_classic_member_is_sent_as_it_was_made():
    """Its partitions may have other owners in the generation that has come meanwhile."""
    member = Script().stable("t-0").member
    commit = make_commit(member, OFFSETS, NOW)
    made = member.generation
    member.standing.generation = Generation(made.id + 1, made.member_id)
    sent = commit.sent(NODE, member.sends_as(commit.generation))
    assert (sent.generation, sent.request.generation_id_or_member_epoch) == (made, made.id)


@pytest.mark.parametrize("code", [113, 25])
def test_what_a_refused_commit_means_is_for_the_member_to_say(code):
    member = stable()
    partition = OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=0, error_code=code)
    topic = OffsetCommitResponse.OffsetCommitResponseTopic(name="t", partitions=[partition])
    error = judge_commit(member, make_commit(member, OFFSETS, NOW), OffsetCommitResponse(topics=[topic]), NOW)
    assert isinstance(error, CommitFailedError)


def test_a_protocol_that_nobody_speaks_is_refused_by_name():
    with pytest.raises(ConfigurationError, match="group_protocol='lone': must be one of classic"):
        consumer_config({"group_protocol": "lone", "group_id": "g"})
    assert consumer_config({"group_protocol": "lone", "group_id": "g"}, protocols([])).group_protocol == "lone"


def test_the_default_protocol_is_one_that_there_is_and_all_are_described():
    setting = CONSUMER_SETTINGS["group_protocol"]
    assert setting.default in PROTOCOLS
    assert all(name in setting.doc for name in PROTOCOLS)
