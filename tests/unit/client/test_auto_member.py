"""A member that speaks the consumer protocol if its coordinator does, and the classic one else."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client.config import consumer_config
from actors.client.errors import KafkaConnectionError, KafkaError, UnsupportedVersionError
from actors.client.group.effects import Action, Fail, Send
from actors.client.group.generation import Generation
from actors.client.group.member import Member
from actors.client.group.protocols import make_member
from actors.wire.messages import ApiMessage, ConsumerGroupHeartbeatRequest, FindCoordinatorRequest, JoinGroupRequest
from tests.support.consumer_script import MEMBER, Answer, assignment, view
from tests.support.membership_script import lookup_answer, tps

NOW = 1_000
REFUSALS = [35, 69]


class Auto:
    """The member, and all that it has sent."""

    def __init__(self, **settings: Any) -> None:
        config = consumer_config({"group_id": "g", "group_protocol": "auto", "enable_auto_commit": False, **settings})
        self.member: Member = make_member(config, 1, lambda: 1.0, lambda: MEMBER)
        self.sent: list[Send] = []
        self.member.poll(NOW)

    def polled(self) -> list[Action]:
        done: list[Action] = []
        self.member.poll(NOW)
        while (action := self.member.next_action(NOW)) is not None and not isinstance(action, Fail):
            done.append(action)
            self.member.action_done(action, NOW)
        self.sent += [effect for effect in self.member.take_effects() if isinstance(effect, Send)]
        return done if action is None else [*done, action]

    def last(self, kind: type[ApiMessage]) -> Send:
        return next(send for send in reversed(self.sent) if isinstance(send.request, kind))

    def answer(self, send: Send, response: ApiMessage | KafkaError) -> None:
        if isinstance(response, KafkaError):
            self.member.on_failure(send.id, response, NOW)
        else:
            self.member.on_response(send.id, response, NOW)
        self.sent += [effect for effect in self.member.take_effects() if isinstance(effect, Send)]

    def joining(self) -> Auto:
        """Its first heartbeat is sent."""
        self.member.subscribe(["t"])
        self.member.on_metadata(view(t=6), NOW)
        self.polled()
        self.answer(self.last(FindCoordinatorRequest), lookup_answer())
        self.polled()
        assert self.last(ConsumerGroupHeartbeatRequest).request.member_epoch == 0  # type: ignore[attr-defined]
        return self

    def member_of_a_consumer_group(self) -> Auto:
        self.joining()
        joined = Answer(member_epoch=2, heartbeat_interval_ms=5_000, assignment=assignment("t-0"))
        self.answer(self.last(ConsumerGroupHeartbeatRequest), joined)
        self.polled()
        return self


def refused(code: int) -> Answer:
    return Answer(error_code=code)


def test_where_the_coordinator_serves_the_consumer_protocol_the_member_speaks_it() -> None:
    auto = Auto().member_of_a_consumer_group()
    assert auto.member.owned == tps("t-0")
    assert auto.member.generation == Generation(2, MEMBER)
    assert auto.member.commits_from == 9
    assert not any(isinstance(send.request, JoinGroupRequest) for send in auto.sent)


@pytest.mark.parametrize("answer", [*map(refused, REFUSALS), UnsupportedVersionError("no such API")], ids=str)
def test_where_it_does_not_or_cannot_the_member_is_a_classic_one_with_the_same_subscription(answer: Any) -> None:
    auto = Auto(partition_assignment_strategy=["cooperative-sticky"]).joining()
    auto.answer(auto.last(ConsumerGroupHeartbeatRequest), answer)
    assert auto.polled() == [], "the program hears of nothing"
    auto.answer(auto.last(FindCoordinatorRequest), lookup_answer())
    auto.polled()
    join = auto.last(JoinGroupRequest).request
    assert isinstance(join, JoinGroupRequest)
    assert [protocol.name for protocol in join.protocols] == ["cooperative-sticky"]
    assert auto.member.topics == {"t"}
    assert auto.member.commits_from < 9


def test_no_answer_to_the_first_member_is_taken_for_one_to_the_second() -> None:
    auto = Auto().joining()
    first = auto.last(FindCoordinatorRequest)
    beat = auto.last(ConsumerGroupHeartbeatRequest)
    auto.answer(beat, refused(35))
    auto.polled()
    second = auto.last(FindCoordinatorRequest)
    assert second.id != first.id
    auto.answer(first, lookup_answer())
    auto.answer(beat, KafkaConnectionError())
    assert auto.member.coordinator is None
    auto.answer(second, lookup_answer())
    assert auto.member.coordinator is not None


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_of_a_member_is_no_reason_to_speak_another_protocol(code: int) -> None:
    auto = Auto().member_of_a_consumer_group()
    auto.answer(auto.last(ConsumerGroupHeartbeatRequest), refused(code))
    *_, action = auto.polled()
    assert isinstance(action, Fail)
    assert not any(isinstance(send.request, JoinGroupRequest) for send in auto.sent)


@pytest.mark.parametrize("code", [30, 42, 81, 112])
def test_other_refusals_are_the_programs_to_know(code: int) -> None:
    auto = Auto().joining()
    auto.answer(auto.last(ConsumerGroupHeartbeatRequest), refused(code))
    (action,) = auto.polled()
    assert isinstance(action, Fail)


def test_what_classic_members_cannot_subscribe_to_is_an_error_where_there_are_none_else() -> None:
    auto = Auto()
    auto.member.subscribe_expression("t.*")
    auto.member.on_metadata(view(t=6), NOW)
    auto.polled()
    auto.answer(auto.last(FindCoordinatorRequest), lookup_answer())
    auto.polled()
    auto.answer(auto.last(ConsumerGroupHeartbeatRequest), UnsupportedVersionError("no such API"))
    (action,) = auto.polled()
    assert isinstance(action, Fail)
    assert isinstance(action.error, UnsupportedVersionError)


def test_a_member_that_has_left_meanwhile_does_not_join_another_group() -> None:
    auto = Auto().joining()
    auto.member.farewell()
    auto.member.unsubscribe(NOW, "close")
    auto.answer(auto.last(ConsumerGroupHeartbeatRequest), refused(35))
    assert auto.polled() == []
    assert not auto.member.subscribed
