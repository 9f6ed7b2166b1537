"""The times and the contents of a consumer group member's heartbeats."""

from __future__ import annotations

from itertools import pairwise

import pytest

from actors.client.config import consumer_config
from actors.client.errors import KafkaTimeoutError
from actors.client.group.consumer_protocol.assignments import Received
from actors.client.group.consumer_protocol.beats import Beats, Kind
from actors.client.group.consumer_protocol.config import MemberConfig, member_config
from actors.client.group.consumer_protocol.standing import MemberState
from actors.client.group.consumer_protocol.wishes import Wish
from actors.client.group.effects import Event
from actors.client.group.outbox import Lookup
from actors.wire.messages import ApiMessage
from tests.support.consumer_script import INTERVAL_MS, MEMBER, Script, owned_in, says
from tests.support.membership_script import NODE, OTHER, tps

S = MemberState
FOO = Wish(frozenset({"foo"}))
T1 = bytes(range(16))
EVERYTHING = {"rebalance_timeout_ms", "subscribed_topic_names", "topic_partitions"}


def encoded(message: ApiMessage, version: int) -> str:
    return message.encode(version).hex()


# --- bytes ---


@pytest.mark.conformance("K-F-10", "K-F-11", "K-F-12")
def test_what_heartbeats_say_has_kafkas_bytes() -> None:
    beats = Beats(MemberConfig("g1"))
    join = beats.join("A", FOO, Received(0, frozenset()))
    assert encoded(join, 1) == "0367310241000000000000000493e00204666f6f00000100"
    assert encoded(join, 0) == "0367310241000000000000000493e00204666f6f000100"
    assert encoded(beats.beat("A", 1, FOO, Received(0, frozenset())), 1) == "0367310241000000010000ffffffff0000000000"
    owned = Received(1, frozenset((T1, n) for n in range(3)))
    assert encoded(beats.beat("A", 1, FOO, owned), 1) == (
        "0367310241000000010000ffffffff00000002000102030405060708090a0b0c0d0e0f040000000000000001000000020000"
    )
    assert encoded(Beats(MemberConfig("g1")).leave("A", -1), 1) == "0367310241ffffffff0000ffffffff0000000000"


# --- contents ---


def test_a_heartbeat_that_says_everything_says_what_the_process_is() -> None:
    beats = Beats(MemberConfig("g1", process="pool pid 7"))
    nothing = Received(0, frozenset())
    assert beats.join("A", FOO, nothing).process == "pool pid 7"
    assert beats.beat("A", 1, FOO, nothing).process == ""
    beats.forget()
    assert beats.beat("A", 1, FOO, nothing).process == "pool pid 7"
    settings = consumer_config({"group_id": "g1", "group_member_process": "pool on node 3f2a"})
    assert member_config(settings, 7).process == "pool pid 7 on node 3f2a"


@pytest.mark.conformance("K-F-02", "K-F-11")
def test_a_subscription_alone_sends_nothing_and_the_next_poll_joins_with_everything() -> None:
    script = Script(client_rack="r1", group_remote_assignor="range", group_instance_id="i", max_poll_interval_ms=700)
    script.member.subscribe(["u", "t"])
    script.metadata(t=6, u=6)
    assert (script.state, script.sent) == (S.UNSUBSCRIBED, [])
    script.poll()
    script.found()
    assert script.state is S.JOINING
    beat = script.beat
    assert (beat.group_id, beat.member_id, beat.member_epoch) == ("g", MEMBER, 0)
    assert (beat.rack_id, beat.server_assignor, beat.instance_id, beat.rebalance_timeout_ms) == (
        "r1",
        "range",
        "i",
        700,
    )
    assert beat.subscribed_topic_names == ["t", "u"]
    assert owned_in(beat) == frozenset()


@pytest.mark.conformance("K-F-10", "K-F-12")
@pytest.mark.parametrize("instance", [None, "i"])
def test_a_heartbeat_without_news_says_who_it_is_and_no_more(instance: str | None) -> None:
    script = Script(group_instance_id=instance, group_remote_assignor="uniform", client_rack="r").stable("t-0")
    beat = script.next_beat()
    assert (beat.group_id, beat.member_id, beat.member_epoch, beat.instance_id) == ("g", MEMBER, 2, instance)
    assert says(beat) == ({"instance_id"} if instance else set())


@pytest.mark.conformance("K-F-02", "K-F-12")
def test_another_subscription_goes_out_with_the_next_heartbeat_without_a_join() -> None:
    script = Script().stable("t-0")
    script.member.subscribe(["u"])
    script.poll()
    assert script.in_flight(Kind.BEAT) == [], "not at once"
    beat = script.next_beat()
    assert (says(beat), beat.subscribed_topic_names, beat.member_epoch) == ({"subscribed_topic_names"}, ["u"], 2)
    assert script.state is S.STABLE


@pytest.mark.conformance("K-F-12", "K-F-44")
def test_an_expression_goes_to_the_coordinator_and_is_taken_back_by_an_empty_one() -> None:
    script = Script()
    script.member.subscribe_expression("t.*")
    script.metadata(every_topic=True, t=6, u=6)
    script.poll()
    script.found()
    beat = script.beat
    assert (beat.subscribed_topic_regex, beat.subscribed_topic_names) == ("t.*", [])
    assert script.sent[-1].min_version == 1, "the first that carries it"
    assert script.member.wants_all_topics, "it does not know which it will be given"
    script.answer(2, "t-0")
    script.poll()
    script.answer(2)
    assert script.member.topics == {"t"}
    script.member.subscribe(["u"])
    beat = script.next_beat()
    assert (beat.subscribed_topic_regex, beat.subscribed_topic_names) == ("", ["u"])
    script.answer(3)
    assert says(script.next_beat()) == set()


def test_an_expression_that_was_dropped_while_an_answer_was_lost_is_taken_back_all_the_same() -> None:
    script = Script()
    script.member.subscribe_expression("t.*")
    script.metadata(every_topic=True, t=6)
    script.poll()
    script.found()
    script.answer(2, "t-0")
    script.poll()
    script.member.subscribe(["t"])
    script.fail()
    script.tick()
    script.found()
    beat = script.next_beat()
    assert (beat.subscribed_topic_regex, beat.subscribed_topic_names) == ("", ["t"])


@pytest.mark.conformance("K-F-12", "K-F-44")
@pytest.mark.parametrize("instance", [None, "i"])
def test_a_member_that_left_does_not_come_back_with_an_expression_it_has_no_more(instance: str | None) -> None:
    """The coordinator keeps the subscription of a static member, and of any member whose leave it did not get."""
    script = Script(group_instance_id=instance)
    script.member.subscribe_expression("t.*")
    script.metadata(every_topic=True, t=6)
    script.poll()
    script.found()
    script.answer(2, "t-0")
    script.poll()
    script.part()
    (leave,) = script.in_flight(Kind.LEAVE)
    script.member.subscribe(["t"])
    script.member.on_failure(leave.id, KafkaTimeoutError("no answer"), script.now)
    script.poll()
    script.tick()
    script.found()
    assert (script.beat.member_epoch, script.beat.subscribed_topic_regex) == (0, "")


@pytest.mark.conformance("K-F-11", "K-F-12", "K-F-44")
def test_a_static_member_takes_back_the_expression_of_the_one_before_it() -> None:
    script = Script(group_instance_id="i").joining()
    assert (script.beat.subscribed_topic_regex, script.beat.subscribed_topic_names) == ("", ["t"])
    script.answer(2, "t-0")
    script.poll()
    assert script.beat.subscribed_topic_regex is None, "once is enough"
    assert Script().joining().beat.subscribed_topic_regex is None, "there was none before a dynamic one"


@pytest.mark.conformance("K-F-44")
def test_a_pattern_of_the_consumers_own_is_sent_as_names_once_all_topics_are_known() -> None:
    script = Script()
    script.member.subscribe_pattern(lambda topic: topic.startswith("t"))
    script.metadata(t=6)
    script.poll()
    script.found()
    assert script.beats == [], "other topics may match"
    script.metadata(2, every_topic=True, t=6, u=6)
    assert (script.beat.subscribed_topic_names, script.beat.subscribed_topic_regex) == (["t"], None)
    assert script.sent[-1].min_version == 0
    script.answer(2, "t-0")
    script.poll()
    script.answer(2)
    script.member.subscribe_pattern(lambda topic: True)
    assert script.next_beat().subscribed_topic_names == ["t", "u"]


@pytest.mark.conformance("K-F-03", "K-F-13")
def test_an_empty_first_assignment_is_taken_over_and_acknowledged_as_any() -> None:
    script = Script().reconciling()
    script.poll()
    assert script.calls == [(Event.ASSIGNED, frozenset())]
    assert owned_in(script.beat) == frozenset()
    assert script.state is S.STABLE


@pytest.mark.conformance("K-F-13")
def test_an_assignment_that_goes_and_comes_back_is_acknowledged_each_time() -> None:
    script = Script().stable("t-0", "t-1")
    script.next_beat()
    script.answer(2, "t-0")
    script.next_beat()
    script.answer(2, "t-0", "t-1")
    script.poll()
    assert script.state is S.STABLE
    assert owned_in(script.beat) == tps("t-0", "t-1")
    assert script.calls == [(Event.ASSIGNED, tps("t-0", "t-1"))], "nothing has changed for the listener"


@pytest.mark.conformance("K-F-14", "K-F-21")
@pytest.mark.parametrize("code", [None, 14, 16, 29])
def test_after_a_failure_the_next_heartbeat_says_everything_at_the_same_epoch(code: int | None) -> None:
    script = Script().stable("t-0")
    script.next_beat()
    if code is None:
        script.fail()
    else:
        script.answer(code=code)
    if script.in_flight(Lookup.COORDINATOR) or script.member.coordinator is None:
        script.tick(2_000)
        script.found()
    else:
        script.next_beat()
    assert says(script.beat) == EVERYTHING
    assert (script.beat.member_epoch, owned_in(script.beat)) == (2, tps("t-0"))
    script.answer(2, "t-0")
    assert script.state is S.STABLE
    assert says(script.next_beat()) == set()


def test_after_a_failure_a_heartbeat_names_also_what_is_being_taken_over() -> None:
    """Else the coordinator takes it for given up, and another member has it when this one begins with it."""
    script = Script().stable("t-0")
    script.next_beat()
    script.answer(3, "t-0", "t-1")
    script.next_beat()
    assert (script.state, says(script.beat)) == (S.RECONCILING, set())
    script.answer(code=14)
    beat = script.next_beat()
    assert (script.state, says(beat), owned_in(beat)) == (S.RECONCILING, EVERYTHING, tps("t-0", "t-1"))
    script.answer(3)
    assert says(script.next_beat()) == set()
    script.answer(3)
    script.poll()
    assert (script.state, owned_in(script.beat)) == (S.STABLE, tps("t-0", "t-1"))


def test_what_is_being_taken_over_is_named_though_the_coordinator_has_changed_its_mind() -> None:
    script = Script().stable("t-0")
    script.next_beat()
    script.answer(3, "t-0", "t-1")
    action = script.member.next_action(script.now)
    script.next_beat()
    script.answer(3, "t-0")
    script.next_beat()
    script.answer(code=14)
    assert owned_in(script.next_beat()) == tps("t-0", "t-1"), "the user's thread may have it"
    assert action is not None


def test_a_heartbeat_names_no_more_than_the_one_before_it_of_the_same_epoch() -> None:
    """The coordinator may know of the first one, and refuses a later one that names what it has not given (K-A-42)."""
    script = Script().stable("t-0")
    script.metadata(t=6)
    script.next_beat()
    script.answer(3, "t-0", "u-0")
    script.poll()
    assert (script.state, owned_in(script.beat)) == (S.RECONCILING, tps("t-0", "u-0")), "u has no name yet"
    script.answer(code=14)
    assert owned_in(script.next_beat()) == tps("t-0", "u-0")


def test_after_a_failure_a_heartbeat_still_names_what_is_being_given_up() -> None:
    script = Script().stable("t-0", "t-1")
    script.next_beat()
    script.answer(2, "t-0")
    script.next_beat()
    script.answer(code=14)
    assert owned_in(script.next_beat()) == tps("t-0", "t-1")
    script.answer(2)
    script.poll()
    assert (script.state, owned_in(script.beat)) == (S.STABLE, tps("t-0"))


# --- times ---


@pytest.mark.conformance("K-F-06")
def test_a_join_and_an_acknowledgement_are_sent_at_once_but_one_at_a_time() -> None:
    script = Script().reconciling("t-0")
    script.next_beat()
    script.poll()
    assert script.state is S.ACKNOWLEDGING, "a heartbeat is in flight"
    assert len(script.beats) == 2
    script.answer(2)
    assert (script.state, owned_in(script.beat), len(script.beats)) == (S.STABLE, tps("t-0"), 3)


@pytest.mark.conformance("K-F-07", "K-F-08")
def test_the_interval_is_the_last_answers_and_counts_from_the_sending() -> None:
    script = Script().stable("t-0")
    sent = script.now
    script.next_beat()
    assert script.now == sent + INTERVAL_MS
    script.now += 700
    script.answer(2, interval=1_000)
    script.tick(299)
    assert script.in_flight(Kind.BEAT) == []
    script.tick(1)
    assert len(script.in_flight(Kind.BEAT)) == 1
    script.tick(5_000)
    assert len(script.in_flight(Kind.BEAT)) == 1, "one at a time"


@pytest.mark.conformance("K-F-07")
def test_heartbeats_go_on_while_callbacks_run() -> None:
    script = Script().reconciling("t-0")
    action = script.member.next_action(script.now)
    assert action is not None
    for _ in range(3):
        assert script.next_beat().member_epoch == 2
        script.answer(2)
    assert script.state is S.RECONCILING
    script.member.farewell()
    assert script.next_beat().member_epoch == 2
    assert script.state is S.PREPARE_LEAVING


@pytest.mark.conformance("K-F-08", "K-F-09")
def test_what_fails_is_repeated_after_a_growing_backoff_joins_too() -> None:
    script = Script().joining()
    waits = []
    for _ in range(6):
        script.answer(code=14)
        begun = script.now
        script.next_beat()
        waits.append(script.now - begun)
    assert waits == [100, 200, 400, 800, 1_000, 1_000]
    assert says(script.beat) == EVERYTHING
    script.answer(2, "t-0")
    script.poll()
    script.answer(code=14)
    begun = script.now
    script.next_beat()
    assert script.now == begun + 100, "a success forgets the failures before it"


@pytest.mark.conformance("K-F-05")
@pytest.mark.parametrize("state", [S.UNSUBSCRIBED, S.FENCED, S.STALE, S.FATAL])
def test_who_is_in_no_group_sends_nothing_and_has_no_timer(state: MemberState) -> None:
    script = Script().in_state(state)
    before = len(script.sent)
    assert script.member.next_deadline() is None
    script.tick(10_000)
    assert len(script.sent) == before


@pytest.mark.conformance("K-F-05")
def test_without_a_coordinator_nothing_is_sent_until_it_is_found() -> None:
    script = Script().stable("t-0")
    script.member.coordinator_lost(NODE, script.now, drop=True)
    script.tick(INTERVAL_MS)
    assert script.in_flight(Kind.BEAT) == []
    script.found(OTHER)
    assert script.in_flight(Kind.BEAT)[0].node == OTHER


def test_an_answer_to_a_join_without_an_assignment_does_not_make_it_hammer() -> None:
    script = Script().joining()
    script.answer(2)
    assert script.in_flight(Kind.BEAT) == []
    assert script.next_beat().member_epoch == 2


def test_a_join_waits_for_the_answer_to_a_leave_before_it() -> None:
    """On the way to the coordinator they could overtake each other, and the leave would end the new membership."""
    script = Script().stable("t-0")
    script.part()
    script.member.subscribe(["t"])
    script.poll()
    assert script.state is S.JOINING
    assert script.beat.member_epoch == -1
    script.left()
    assert script.beat.member_epoch == 0


def test_a_leave_that_is_not_answered_does_not_hold_the_next_join_up() -> None:
    script = Script().stable("t-0")
    script.part()
    (leave,) = script.in_flight(Kind.LEAVE)
    script.member.subscribe(["t"])
    script.poll()
    script.member.on_failure(leave.id, KafkaTimeoutError(), script.now)
    script.poll(1_000)
    script.found()
    assert script.beat.member_epoch == 0


def test_a_member_with_a_bound_of_its_own_beats_more_often_than_the_coordinator_asks_and_briskly_after_a_move() -> None:
    """It hears at its next heartbeat which partitions to give up; others get them only after that."""
    script = Script(heartbeat_max_ms=1_000).stable("t-0")
    times = [script.now]
    while script.now < times[0] + 8_000:
        script.next_beat()
        script.answer(2)
        times.append(script.now)
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (250, 1_000)
    assert sum(pause for pause in pauses if pause == 250) == 3_000


@pytest.mark.parametrize("interval", [100, 5_000])
def test_a_bound_above_the_coordinators_interval_changes_nothing(interval: int) -> None:
    script = Script(heartbeat_max_ms=60_000).stable("t-0")
    script.next_beat()
    script.answer(2, interval=interval)
    before = script.now
    script.next_beat()
    assert script.now - before == interval


def test_after_a_silence_a_heartbeat_says_everything_and_asks_for_everything() -> None:
    """Its pool has sent heartbeats for it, whose answers it has not heard: an order to give something up, say."""
    script = Script().stable("t-0", "t-1")
    script.tick(10_001)
    assert says(script.beat) >= {"subscribed_topic_names", "topic_partitions", "rebalance_timeout_ms"}
    assert owned_in(script.beat) == tps("t-0", "t-1")
    script.answer(3, "t-0")
    assert script.state is MemberState.RECONCILING
    script.poll()
    script.answer(3)
    script.tick(7_000)
    assert says(script.beat) == set(), "that is no silence"


def test_a_member_in_whose_name_its_pool_had_spoken_did_not_notice_where_brokers_ask_for_few_heartbeats() -> None:
    """Orders that the pool got for it were lost. A pool speaks for a member that is silent for ten seconds."""
    script = Script(heartbeat_max_ms=1_000).stable("t-0", "t-1")
    script.next_beat()
    script.answer(2, interval=15_000)
    script.tick(9_000)
    assert owned_in(script.beat) == tps("t-0", "t-1")


def beats_until_one_says_everything(script: Script) -> int:
    """Answer its heartbeats that nothing has changed. Returns the time (ms) after which it asks for all."""
    began = script.now
    while "topic_partitions" not in says(script.beat):
        script.answer(2)
        script.next_beat()
        assert script.now - began <= 60_000
    return script.now - began


def test_an_order_that_its_pool_was_given_while_the_member_sent_heartbeats_was_lost() -> None:
    """The pool heard nothing of the heartbeats, and spoke for the member, which now asks for everything at times."""
    script = Script(heartbeat_max_ms=1_000).stable("t-0", "t-1")
    script.next_beat()
    assert beats_until_one_says_everything(script) <= 31_000
    assert owned_in(script.beat) == tps("t-0", "t-1")
    script.answer(2, "t-0")
    assert script.state is MemberState.RECONCILING, "it was to give one up"


def test_a_member_that_is_told_what_it_has_goes_on_as_before() -> None:
    script = Script(heartbeat_max_ms=1_000).stable("t-0", "t-1")
    script.next_beat()
    beats_until_one_says_everything(script)
    script.answer(2, "t-0", "t-1")
    before, calls = script.now, list(script.calls)
    script.next_beat()
    assert (script.state, script.calls) == (MemberState.STABLE, calls)
    assert script.now - before == 1_000, "nobody moves, so there is no hurry"
    assert says(script.beat) == set()


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_the_smallest_bounds_leave_a_pause_between_two_heartbeats(bound: int) -> None:
    script = Script(heartbeat_max_ms=bound).stable("t-0")
    script.next_beat()
    before = script.now
    script.answer(2)
    script.next_beat()
    assert script.now > before
