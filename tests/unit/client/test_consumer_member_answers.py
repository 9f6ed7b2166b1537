"""The meaning of each answer to a member of a consumer group, in each state."""

from __future__ import annotations

import pytest

from actors.client.errors import (
    FatalError,
    FencedInstanceIdError,
    GroupAuthorizationError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    HeartbeatFailedError,
    InvalidRegularExpressionError,
    InvalidRequestError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationError,
    TopicAuthorizationError,
    UnknownServerError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from actors.client.group.consumer_protocol.answers import MEANINGS, Meaning, meaning_of
from actors.client.group.consumer_protocol.beats import BEATS, Kind
from actors.client.group.consumer_protocol.standing import MemberState
from actors.client.group.effects import Drop, Event
from actors.client.group.generation import Generation
from tests.support.consumer_script import MEMBER, Answer, Script, assignment, owned_in, says
from tests.support.membership_script import NODE, tps

S = MemberState
BEATING = [S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE, S.PREPARE_LEAVING]
SILENT = [S.UNSUBSCRIBED, S.FENCED, S.STALE, S.FATAL]
FATAL = {
    30: GroupAuthorizationError,
    35: UnsupportedVersionError,
    42: InvalidRequestError,
    69: GroupIdNotFoundError,
    81: GroupMaxSizeReachedError,
    82: FencedInstanceIdError,
    111: UnreleasedInstanceIdError,
    112: UnsupportedAssignorError,
    128: InvalidRegularExpressionError,
    -1: UnknownServerError,
    7: KafkaError,
}

# The state after an answer, by the one before: JOINING, RECONCILING, ACKNOWLEDGING, STABLE, PREPARE_LEAVING.
# A member in ACKNOWLEDGING acknowledges as soon as there is an answer, so that it is not seen there.
AFTER: dict[str, list[MemberState]] = {
    "done": [S.JOINING, S.RECONCILING, S.STABLE, S.STABLE, S.PREPARE_LEAVING],
    "another": [S.RECONCILING, S.RECONCILING, S.RECONCILING, S.RECONCILING, S.PREPARE_LEAVING],
    "the same": [S.RECONCILING, S.RECONCILING, S.STABLE, S.STABLE, S.PREPARE_LEAVING],
    "moved": [S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE, S.PREPARE_LEAVING],
    "loading": [S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE, S.PREPARE_LEAVING],
    "denied": [S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE, S.PREPARE_LEAVING],
    "fenced": [S.JOINING, S.FENCED, S.FENCED, S.FENCED, S.UNSUBSCRIBED],
    "unknown": [S.JOINING, S.FENCED, S.FENCED, S.FENCED, S.UNSUBSCRIBED],
    "refused": [S.FATAL] * 5,
    "lost": [S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE, S.PREPARE_LEAVING],
    "not served": [S.FATAL] * 5,
    "no login": [S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE, S.PREPARE_LEAVING],
}
CODES = {"moved": 16, "loading": 14, "denied": 29, "fenced": 110, "unknown": 25, "refused": 42}


def happen(script: Script, what: str) -> None:
    match what:
        case "done":
            script.answer(2)
        case "another":
            script.answer(3, "t-5")
        case "the same":
            script.answer(2, "t-0", "t-1")
        case "lost":
            script.fail(KafkaConnectionError())
        case "not served":
            script.fail(UnsupportedVersionError("no"))
        case "no login":
            script.fail(SaslAuthenticationError("no"))
        case _:
            script.answer(code=CODES[what])


@pytest.mark.conformance("K-F-20", "K-F-21", "K-F-33", "K-F-34", "K-F-35", "K-F-36", "K-F-37")
@pytest.mark.parametrize("what", AFTER)
@pytest.mark.parametrize("state", BEATING)
def test_each_answer_in_each_state(state: MemberState, what: str) -> None:
    script = Script().in_state(state)
    owned = script.member.owned
    happen(script, what)
    assert script.state is dict(zip(BEATING, AFTER[what], strict=True))[state]
    assert script.member.owned == owned, "only the user's thread takes and gives up"


@pytest.mark.conformance("K-F-18")
@pytest.mark.parametrize("what", AFTER)
@pytest.mark.parametrize("state", SILENT)
def test_who_is_in_no_group_takes_no_answer_to_a_heartbeat(state: MemberState, what: str) -> None:
    """A heartbeat that was in flight when the membership ended is given up with it."""
    script = Script().in_state(state)
    assert script.in_flight(*BEATS) == []
    for send in script.sent:
        script.member.on_response(send.id, Answer(member_epoch=9, assignment=assignment("t-5")), script.now)
        script.member.on_failure(send.id, KafkaConnectionError(), script.now)
    assert (script.state, script.member.generation) == (state, Generation())


@pytest.mark.conformance("K-F-18")
def test_an_epoch_below_zero_says_nothing_to_a_member() -> None:
    script = Script().stable("t-0")
    script.next_beat()
    script.answer(-1, "t-5")
    assert (script.state, script.member.generation.id) == (S.STABLE, 2)


@pytest.mark.conformance("K-F-19")
@pytest.mark.parametrize("state", BEATING)
def test_the_epoch_of_an_answer_counts_at_once(state: MemberState) -> None:
    script = Script().in_state(state)
    script.answer(9)
    assert script.member.generation == Generation(9, MEMBER)


@pytest.mark.conformance("K-F-20")
def test_the_last_of_several_assignments_is_taken_over() -> None:
    script = Script().reconciling("t-0")
    script.next_beat()
    script.answer(3, "t-1")
    script.next_beat()
    script.answer(4, "t-2")
    script.poll()
    assert script.member.owned == tps("t-2")
    assert script.calls == [(Event.ASSIGNED, tps("t-2"))]


@pytest.mark.conformance("K-F-20", "K-F-29")
def test_an_assignment_that_comes_while_another_is_taken_over_comes_next() -> None:
    script = Script().reconciling("t-0")

    def another() -> None:
        script.next_beat()
        script.answer(3, "t-1")

    script.during[Event.ASSIGNED] = another
    script.poll()
    assert script.calls == [
        (Event.ASSIGNED, tps("t-0")),
        (Event.REVOKED, tps("t-0")),
        (Event.ASSIGNED, tps("t-1")),
    ]
    assert owned_in(script.beat) == tps("t-0", "t-1"), "in flight while the second one was taken over"
    assert script.state is S.ACKNOWLEDGING
    script.answer(3)
    assert (script.state, owned_in(script.beat)) == (S.STABLE, tps("t-1"))


@pytest.mark.conformance("K-F-29")
def test_what_is_owned_is_acknowledged_before_the_next_assignment_is_taken_over() -> None:
    script = Script().acknowledging("t-0")
    script.answer(3, "t-1")
    assert owned_in(script.beat) == tps("t-0", "t-1"), "it may have the second one before this is read"
    assert script.state is S.RECONCILING
    script.poll()
    script.answer(3)
    assert (script.state, owned_in(script.beat)) == (S.STABLE, tps("t-1"))


# --- refusals ---


@pytest.mark.conformance("K-F-33")
@pytest.mark.parametrize("code", [15, 16])
def test_a_coordinator_that_moved_is_looked_up_and_heartbeats_go_there_at_once(code: int) -> None:
    script = Script().stable("t-0")
    script.next_beat()
    sent = next(iter(script.in_flight(Kind.BEAT)))
    script.member.on_response(sent.id, Answer(error_code=code), script.now)
    assert Drop(NODE) in script.member.take_effects()
    assert script.member.coordinator is None
    script.tick()
    script.found()
    assert len(script.in_flight(Kind.BEAT)) == 1, "without a backoff"


@pytest.mark.conformance("K-F-34")
@pytest.mark.parametrize("error", [KafkaConnectionError(), KafkaTimeoutError()])
def test_a_lost_answer_means_a_lost_coordinator_and_a_backoff(error: KafkaError) -> None:
    script = Script().stable("t-0")
    script.next_beat()
    script.fail(error)
    assert script.member.coordinator is None
    script.tick()
    script.found()
    assert script.in_flight(Kind.BEAT) == []
    script.tick(100)
    assert len(script.in_flight(Kind.BEAT)) == 1


@pytest.mark.conformance("K-F-34")
def test_a_loading_coordinator_stays_the_coordinator() -> None:
    script = Script().stable("t-0")
    script.next_beat()
    script.answer(code=14)
    assert script.member.coordinator == NODE
    script.poll()


@pytest.mark.conformance("K-F-35", "K-F-04")
@pytest.mark.parametrize("code", [25, 110])
def test_an_expelled_member_tells_its_listener_and_joins_again_as_itself(code: int) -> None:
    script = Script().stable("t-0", "t-1")
    script.next_beat()
    script.answer(code=code)
    assert (script.state, script.member.generation) == (S.FENCED, Generation())
    assert not script.member.may_deliver(script.now)
    assert script.member.awaits_poll(script.now)
    script.poll()
    assert script.calls[1:] == [(Event.LOST, tps("t-0", "t-1"))]
    assert (script.state, script.member.owned) == (S.JOINING, frozenset())
    assert (script.beat.member_id, script.beat.member_epoch, owned_in(script.beat)) == (MEMBER, 0, frozenset())
    script.answer(2, "t-0", "t-1")
    script.poll()
    assert script.calls[2:] == [(Event.ASSIGNED, tps("t-0", "t-1"))]
    assert owned_in(script.beat) == tps("t-0", "t-1"), "the same as before, and acknowledged again"


@pytest.mark.conformance("K-F-09", "K-F-35")
@pytest.mark.parametrize("code", [25, 110])
def test_a_fenced_join_does_not_hammer_the_coordinator(code: int) -> None:
    """Kafka 4.1 refuses the join so while it still has the member: until the session has ended."""
    script = Script().in_state(S.FENCED)
    script.poll()
    waits = []
    for _ in range(6):
        script.answer(code=code)
        assert script.state is S.JOINING
        begun = script.now
        script.poll()
        assert script.next_beat().member_epoch == 0
        waits.append(script.now - begun)
    assert waits == [100, 200, 400, 800, 1_000, 1_000]
    assert [event for event, _ in script.calls[1:]] == [Event.LOST]
    script.answer(2, "t-0")
    script.poll()
    script.answer(code=code)
    script.poll()
    assert script.in_flight(Kind.BEAT), "a member that is expelled joins at once"


@pytest.mark.conformance("K-F-35")
def test_who_is_expelled_while_it_leaves_sends_no_leave() -> None:
    script = Script().in_state(S.PREPARE_LEAVING)
    script.answer(code=25)
    script.member.unsubscribe(script.now, "close")
    script.settle()
    assert script.state is S.UNSUBSCRIBED
    assert script.in_flight(Kind.LEAVE) == []
    assert not script.member.subscribed


@pytest.mark.conformance("K-F-36")
def test_a_topic_that_is_denied_is_raised_and_heartbeats_go_on() -> None:
    script = Script().stable("t-0")
    script.next_beat()
    script.answer(code=29)
    with pytest.raises(TopicAuthorizationError):
        script.poll()
    script.poll()
    assert says(script.next_beat()) >= {"subscribed_topic_names", "topic_partitions"}
    script.answer(2, "t-0")
    assert script.state is S.STABLE


@pytest.mark.conformance("K-F-37")
@pytest.mark.parametrize("code", FATAL)
def test_a_refusal_for_good_is_raised_by_each_poll_after_the_listener_has_heard(code: int) -> None:
    script = Script().stable("t-0")
    script.next_beat()
    script.answer(code=code, why="because")
    for _ in range(2):
        with pytest.raises(FATAL[code], match=rf"heartbeat of group g: .*\({code}\)") as raised:
            script.poll()
        assert (code == 35) == ("group_protocol='classic'" in str(raised.value))
        assert (code == 35) == ("because" not in str(raised.value))
    assert script.calls[1:] == [(Event.LOST, tps("t-0"))]
    assert script.member.owned == frozenset()
    assert script.in_flight(*BEATS, Kind.LEAVE) == []
    script.part()
    assert script.in_flight(Kind.LEAVE) == []
    assert script.member.next_action(script.now) is None, "partitions may be assigned by hand"
    script.member.subscribe(["t"])
    with pytest.raises(FATAL[code]):
        script.poll()


def in_its_own_way(why: str) -> Script:
    """A static member whose join is in flight, while the coordinator still has it from before."""
    script = Script(group_instance_id="i")
    match why:
        case "lost join":
            script.joining().fail()
        case "moved":
            script.joining().answer(code=15)
        case "fenced":
            script.in_state(S.FENCED)
            script.poll()
            return script
        case "lost leave":
            script.stable("t-0").part()
            (leave,) = script.in_flight(Kind.LEAVE)
            script.member.on_failure(leave.id, KafkaConnectionError(), script.now)
            script.member.subscribe(["t"])
            script.poll()
        case "unsaid leave":
            script.stable("t-0").member.coordinator_lost(NODE, script.now)
            script.part()
            script.member.subscribe(["t"])
            script.poll()
    script.tick()
    script.found()
    script.tick(100)
    return script


@pytest.mark.conformance("K-F-37")
@pytest.mark.parametrize("why", ["lost join", "moved", "fenced", "lost leave", "unsaid leave"])
def test_a_static_member_is_not_kept_out_by_itself(why: str) -> None:
    """The coordinator has it, alive, and refuses its joins: it leaves for a while, and joins once more."""
    script = in_its_own_way(why)
    script.answer(code=111)
    (leave,) = script.in_flight(Kind.LEAVE)
    assert (leave.request.member_epoch, leave.request.member_id, leave.request.instance_id) == (-2, MEMBER, "i")
    assert (script.state, script.in_flight(*BEATS)) == (S.JOINING, []), "the join comes after it"
    script.left()
    assert script.beat.member_epoch == 0
    script.answer(2, "t-0")
    script.poll()
    assert (script.state, script.member.owned) == (S.STABLE, tps("t-0"))


@pytest.mark.conformance("K-F-37")
def test_a_static_member_gives_way_to_another_after_one_attempt() -> None:
    script = in_its_own_way("lost join")
    script.answer(code=111)
    script.left(82)
    script.answer(code=111)
    assert (script.state, script.in_flight(Kind.LEAVE)) == (S.FATAL, [])
    script = Script(group_instance_id="i").joining()
    script.answer(code=111)
    assert (script.state, script.in_flight(Kind.LEAVE)) == (S.FATAL, []), "its first word cannot be in its own way"


@pytest.mark.conformance("K-F-37")
def test_a_refusal_does_not_grow_with_each_poll_that_raises_it() -> None:
    script = Script().in_state(S.FATAL)
    script.calls.clear()
    depths = []
    for _ in range(4):
        with pytest.raises(UnsupportedAssignorError) as raised:
            script.poll()
        depths.append(len(raised.traceback))
    assert len(set(depths)) == 1


@pytest.mark.conformance("K-F-37", "K-F-44")
def test_a_broker_without_the_protocol_is_said_to_be_one() -> None:
    script = Script().joining()
    script.fail(UnsupportedVersionError("the broker has no ConsumerGroupHeartbeat"))
    with pytest.raises(UnsupportedVersionError, match=r"no ConsumerGroupHeartbeat.*group_protocol='classic'"):
        script.poll()


@pytest.mark.conformance("K-F-37")
def test_a_group_that_is_gone_is_no_matter_to_who_leaves_it() -> None:
    script = Script().stable("t-0")
    script.part()
    script.left(69)
    script.poll()
    assert script.state is S.UNSUBSCRIBED


def test_a_login_that_is_refused_is_raised_and_tried_again() -> None:
    script = Script().stable("t-0")
    script.next_beat()
    script.fail(SaslAuthenticationError("wrong"))
    with pytest.raises(SaslAuthenticationError, match="wrong"):
        script.poll()
    assert script.state is S.STABLE
    script.next_beat()


def test_what_the_background_thread_failed_with_is_raised_and_heartbeats_go_on() -> None:
    script = Script().stable("t-0")
    script.member.fail(HeartbeatFailedError("bug"), script.now)
    with pytest.raises(HeartbeatFailedError, match="bug"):
        script.poll()
    assert says(script.next_beat()) >= {"topic_partitions"}


def test_each_code_that_the_table_does_not_have_is_final() -> None:
    assert {code for code in range(-1, 131) if meaning_of(code) is not Meaning.NEVER} == set(MEANINGS)
    assert issubclass(UnsupportedAssignorError, FatalError)
