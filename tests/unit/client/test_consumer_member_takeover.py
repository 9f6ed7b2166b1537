"""A static member of a consumer group that takes its place from a process that was killed."""

from __future__ import annotations

import pytest

from actors.client.errors import KafkaConnectionError, UnreleasedInstanceIdError, UnsupportedVersionError
from actors.client.group.consumer_protocol.beats import BEATS, Kind
from actors.client.group.consumer_protocol.rhythm import SESSION_MS
from actors.client.group.consumer_protocol.standing import MemberState
from actors.client.group.consumer_protocol.takeover import PATIENCE_MS
from actors.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
)
from tests.support.consumer_script import MEMBER, Script
from tests.support.membership_script import tps

TAKEN = 111
Described = ConsumerGroupDescribeResponse


def taking(**settings: object) -> Script:
    """A member whose join is in flight."""
    return Script(group_instance_id="i", takes_over=True, **settings).joining()


def described(**members: str) -> Described:
    """A group with these members, by instance id."""
    made = [Described.Member(member_id=id_, instance_id=instance) for instance, id_ in members.items()]
    return Described(groups=[Described.DescribedGroup(group_id="g", members=made)])


def looked(script: Script, answer: Described | None) -> None:
    (send,) = script.in_flight(Kind.LOOK)
    assert isinstance(send.request, ConsumerGroupDescribeRequest)
    assert send.request.group_ids == ["g"]
    if answer is None:
        script.member.on_failure(send.id, KafkaConnectionError(), script.now)
    else:
        script.member.on_response(send.id, answer, script.now)
    script.settle()


def leave(script: Script) -> ConsumerGroupHeartbeatRequest:
    (send,) = script.in_flight(Kind.LEAVE)
    assert isinstance(send.request, ConsumerGroupHeartbeatRequest)
    return send.request


def test_a_successor_has_the_place_of_a_killed_member_at_once_and_not_when_its_session_has_ended() -> None:
    script = taking()
    script.answer(code=TAKEN)
    looked(script, described(j="another", i="the dead"))
    request = leave(script)
    assert (request.member_id, request.instance_id, request.member_epoch) == ("the dead", "i", -2)
    script.left()
    assert (script.beat.member_id, script.beat.member_epoch) == (MEMBER, 0)
    script.answer(4, "t-0", "t-1")
    script.poll()
    assert (script.state, script.member.owned) == (MemberState.STABLE, tps("t-0", "t-1"))


def test_a_place_that_has_become_free_meanwhile_is_joined_after_a_backoff() -> None:
    script = taking()
    script.answer(code=TAKEN)
    looked(script, described(j="another"))
    assert script.in_flight(Kind.LEAVE) == []
    assert script.next_beat().member_epoch == 0


def test_a_question_that_gets_no_answer_is_asked_again_with_the_next_join() -> None:
    script = taking()
    script.answer(code=TAKEN)
    looked(script, None)
    script.tick(10_000)
    script.found()
    assert script.beat.member_epoch == 0
    script.answer(code=TAKEN)
    looked(script, described(i="the dead"))
    assert leave(script).member_id == "the dead"


def test_a_question_that_nobody_answers_is_not_asked_again_at_once() -> None:
    script = taking()
    script.answer(code=TAKEN)
    (send,) = script.in_flight(Kind.LOOK)
    script.member.on_failure(send.id, UnsupportedVersionError("no such API"), script.now)
    script.settle()
    begun = script.now
    assert script.in_flight(*BEATS) == []
    script.next_beat()
    assert script.now == begun + 100


@pytest.mark.parametrize("code", [29, 30])
def test_a_successor_that_may_not_see_who_has_its_place_gave_up_before_the_session_of_that_one_was_over(
    code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its slot was given up after eight seconds, and nothing said which right is missing."""
    script = taking()
    denied = Described(groups=[Described.DescribedGroup(group_id="g", error_code=code, error_message="no")])
    begun = script.now
    while script.now < begun + SESSION_MS:
        script.answer(code=TAKEN)
        looked(script, denied)
        script.next_beat()
    script.answer(4, "t-0")
    script.poll()
    assert script.member.owned == tps("t-0")
    (line,) = caplog.records
    assert "the right to DESCRIBE the group and the topics of all its members" in line.getMessage()


def test_who_is_in_the_way_for_longer_than_any_session_is_so_for_good() -> None:
    script = taking()
    begun = script.now
    while script.now < begun + PATIENCE_MS:
        script.answer(code=TAKEN)
        looked(script, described())
        script.next_beat()
    script.answer(code=TAKEN)
    script.left(code=82)
    script.answer(code=TAKEN)
    with pytest.raises(UnreleasedInstanceIdError):
        script.poll()


def test_a_member_that_was_fenced_does_not_take_its_place_back() -> None:
    """Two that live would take it from one another for ever."""
    script = taking()
    script.answer(2, "t-0")
    script.poll()
    script.answer(code=110)
    script.poll()
    script.answer(code=TAKEN)
    assert script.in_flight(Kind.LOOK) == []
    assert leave(script).member_id == MEMBER, "as without: an own earlier join may be in its way"
    script.left(code=82)
    script.answer(code=TAKEN)
    with pytest.raises(UnreleasedInstanceIdError):
        script.poll()


def test_who_is_always_in_the_way_is_so_for_good_at_last() -> None:
    script = taking()
    for _ in range(10):
        script.answer(code=TAKEN)
        looked(script, described(i="a newer one"))
        script.left()
    script.answer(code=TAKEN)  # and once more: it was heard of before
    script.left()
    script.answer(code=TAKEN)
    with pytest.raises(UnreleasedInstanceIdError):
        script.poll()


@pytest.mark.parametrize("settings", [{"group_instance_id": "i"}, {"takes_over": True}])
def test_nobody_else_takes_a_place(settings: dict[str, object]) -> None:
    script = Script(**settings).joining()
    script.answer(code=TAKEN)
    assert script.in_flight(Kind.LOOK) == []
    with pytest.raises(UnreleasedInstanceIdError):
        script.poll()


def test_a_member_that_leaves_while_it_asks_takes_nothing() -> None:
    script = taking()
    script.answer(code=TAKEN)
    script.part()
    looked(script, described(i="the dead"))
    assert all(send.request.member_id == MEMBER for send in script.in_flight(Kind.LEAVE))  # type: ignore[attr-defined]
