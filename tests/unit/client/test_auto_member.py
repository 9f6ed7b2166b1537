"""A member that speaks the consumer protocol if its coordinator does, and the classic one else."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client.config import consumer_config
from actors.client.errors import CommitFailedError, KafkaConnectionError, KafkaError, UnsupportedVersionError
from actors.client.group.effects import Action, Apply, Event, Fail, RunListener, Send
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

    def tick(self) -> None:
        """The next heartbeat is due."""
        self.member.on_time(NOW + 5_000)
        self.sent += [effect for effect in self.member.take_effects() if isinstance(effect, Send)]

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


def ousted(answer: Any) -> Auto:
    """A member of a consumer group that is refused for its protocol, and whose program knows what it has lost."""
    auto = Auto(partition_assignment_strategy=["cooperative-sticky"]).member_of_a_consumer_group()
    auto.tick()
    auto.answer(auto.last(ConsumerGroupHeartbeatRequest), answer)
    told, applied = auto.polled()
    assert isinstance(told, RunListener)
    assert (told.event, set(told.partitions)) == (Event.LOST, tps("t-0"))
    assert isinstance(applied, Apply)
    assert auto.member.owned == frozenset()
    join = auto.last(ConsumerGroupHeartbeatRequest).request
    assert isinstance(join, ConsumerGroupHeartbeatRequest)
    assert (join.member_epoch, join.subscribed_topic_names) == (0, ["t"])
    return auto


OUSTED_BY = ["35", "69", "no such API"]
OUSTED = [*map(refused, REFUSALS), UnsupportedVersionError("no such API")]


@pytest.mark.parametrize("answer", OUSTED, ids=OUSTED_BY)
def test_a_member_failed_for_ever_when_its_group_was_deleted_or_its_protocol_turned_off_for_a_moment(
    answer: Any,
) -> None:
    """A classic one joined again. Nobody fills the place of a pool's member that has failed."""
    auto = ousted(answer)
    joined = Answer(member_epoch=1, heartbeat_interval_ms=5_000, assignment=assignment("t-1"))
    auto.answer(auto.last(ConsumerGroupHeartbeatRequest), joined)
    auto.polled()
    assert auto.member.owned == tps("t-1")
    assert auto.member.commits_from == 9


@pytest.mark.parametrize("answer", OUSTED, ids=OUSTED_BY)
def test_a_member_failed_for_ever_when_its_group_became_a_classic_one_or_its_protocol_was_turned_off(
    answer: Any,
) -> None:
    auto = ousted(answer)
    auto.answer(auto.last(ConsumerGroupHeartbeatRequest), answer)
    assert auto.polled() == []
    auto.answer(auto.last(FindCoordinatorRequest), lookup_answer())
    auto.polled()
    join = auto.last(JoinGroupRequest).request
    assert isinstance(join, JoinGroupRequest)
    assert [protocol.name for protocol in join.protocols] == ["cooperative-sticky"]
    assert auto.member.topics == {"t"}


@pytest.mark.parametrize("code", REFUSALS)
def test_a_commit_that_is_refused_so_is_one_of_a_lost_membership(code: int) -> None:
    """It would have ended a pool's member before a heartbeat tells it."""
    auto = Auto().member_of_a_consumer_group()
    error = auto.member.commit_refused(code, auto.member.generation, "committing t-0")
    assert isinstance(error, CommitFailedError)


def test_a_member_turned_classic_knows_the_topics_and_the_last_poll_of_the_one_before() -> None:
    auto = Auto(max_poll_interval_ms=7_000)
    auto.member.subscribe_pattern(lambda topic: topic == "t")
    auto.member.on_metadata(view(every_topic=True, t=6, u=6), NOW)
    auto.polled()
    auto.answer(auto.last(FindCoordinatorRequest), lookup_answer())
    auto.polled()
    auto.answer(auto.last(ConsumerGroupHeartbeatRequest), refused(35))
    assert auto.member.topics == {"t"}
    assert auto.member.live.poll_deadline_ms == NOW + 7_000, "it is not taken for hung"  # type: ignore[attr-defined]


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
    auto.member.unsubscribe(NOW, "another wish")
    auto.member.subscribe(["t"])
    assert auto.polled() == [], "names it can have as a classic member"
    auto.answer(auto.last(FindCoordinatorRequest), lookup_answer())
    auto.polled()
    assert isinstance(auto.last(JoinGroupRequest).request, JoinGroupRequest)


def test_a_member_that_has_left_meanwhile_does_not_join_another_group() -> None:
    auto = Auto().joining()
    auto.member.farewell()
    auto.member.unsubscribe(NOW, "close")
    auto.answer(auto.last(ConsumerGroupHeartbeatRequest), refused(35))
    assert auto.polled() == []
    assert not auto.member.subscribed
