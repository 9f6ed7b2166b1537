"""Groups notice that topics have changed, with their next heartbeats."""

from __future__ import annotations

import pytest

from actors.coordinator.consumer.messages import NoteTopicsRequest
from actors.coordinator.consumer.operations import CHANGED_MAX
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.topics import Topic, Topics, group_hash, topic_hash
from tests.support.consumer_groups import BAR, FOO, FOOBAR, T1, T2, T3, ConsumerDriver, Slow, beat_request, given
from tests.support.coordination import Driver

FOO_8 = Topic(T1, "foo", 8)


@pytest.mark.conformance("K-B-64", "K-B-66")
@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        (FOO, -3164071242032918324),
        (FOO_8, 7035249188766933357),
        (Topic(T1, "foo", 2, (("a", "b"), ("b",))), 6175253297967600036),
        (Topic(T1, "foo", 2, (("b", "a"), ("b",))), 6175253297967600036),
        (FOOBAR, 8932162891550273767),
    ],
)
def test_the_hash_of_a_topic_is_kafkas(topic: Topic, expected: int) -> None:
    assert topic_hash(topic) == expected


@pytest.mark.conformance("K-B-65", "K-B-66")
def test_the_hash_of_a_groups_topics_is_kafkas_in_whatever_order_they_come() -> None:
    assert group_hash([FOO]) == 3513085387391295763
    assert group_hash([FOO, FOOBAR]) == group_hash([FOOBAR, FOO]) == -7755850188680865452
    assert group_hash([FOO_8]) == -325533950327863382
    assert group_hash([]) == 0


def alone(text: str = "A e0 join") -> ConsumerDriver:
    """A alone, a second ago."""
    driver = ConsumerDriver(FOO, FOOBAR)
    driver.beat(text)
    driver.advance(1_100)
    return driver


@pytest.mark.conformance("K-B-67", "K-B-68", "K-B-19", "K-C-37")
@pytest.mark.parametrize(
    "topics",
    [(FOO_8,), (Topic(T2, "foo", 6),), (), (Topic(T1, "foo", 6, (("r",),) * 6),)],
    ids=["grows", "made anew", "deleted", "other racks"],
)
def test_a_change_of_a_topic_raises_the_epoch_with_the_next_heartbeat(topics: tuple[Topic, ...]) -> None:
    driver = alone()
    at = len(driver.log)
    driver.set_topics(*topics)
    driver.advance(5_000)
    assert driver.written(at) == [], "nothing happens by itself"
    assert given(driver, "A e2").records[0] == "3(3)"


@pytest.mark.conformance("K-B-67", "K-B-71")
def test_a_topic_that_appears_becomes_effective() -> None:
    driver = alone("A e0 R names=foo,bar own=[]")
    driver.set_topics(FOO, BAR)
    assert given(driver, "A e2") == (
        "e3 asg 0-5 T3:0",
        ("3(3)", "7(A: 0-5 T3:0)", "6(3)", "8(A: e3/p2 STABLE 0-5@2 T3:0@3 | -)"),
    )


@pytest.mark.conformance("K-B-68", "K-B-69")
def test_a_change_of_another_topic_is_not_looked_at() -> None:
    driver = alone()
    driver.set_topics(FOO, Topic(T2, "foobar", 9), Topic(T3, "more", 1))
    assert not driver.consumer().must_look_at_topics(driver.now)
    assert given(driver, "A e2") == ("e2", ())


@pytest.mark.conformance("K-B-69")
def test_a_group_that_was_loaded_looks_at_its_topics_and_usually_writes_nothing() -> None:
    driver = alone()
    driver.topics = (FOO_8,)
    driver.fail_over()
    assert given(driver, "A e2").records[0] == "3(3)"
    driver.fail_over()
    assert driver.consumer().must_look_at_topics(driver.now)
    assert given(driver, "A e3") == ("e3", ())
    assert not driver.consumer().must_look_at_topics(driver.now)
    assert driver.consumer().topics_due_ms - driver.now.monotonic_ms == 2_147_483_647


@pytest.mark.conformance("K-B-70")
def test_topics_are_looked_at_again_if_what_was_found_was_not_written() -> None:
    driver = alone()
    driver.set_topics(FOO_8)
    driver.holds = True
    token = driver.ask(beat_request("A e2"))
    driver.refuse(19)
    assert driver.answer(token).error_code == 15
    driver.holds = False
    assert given(driver, "A e2").records[0] == "3(3)"


@pytest.mark.conformance("K-B-68", "K-B-70")
def test_a_change_while_an_older_one_is_written_is_looked_at() -> None:
    driver = alone()
    driver.set_topics(FOO_8)
    driver.holds = True
    driver.ask(beat_request("A e2"))
    driver.set_topics(FOO)
    driver.holds = False
    driver.turn()
    assert given(driver, "A e3").records[0] == "3(4)"


@pytest.mark.conformance("K-B-68")
def test_a_change_of_a_topic_to_which_a_member_is_just_subscribing_is_looked_at() -> None:
    driver = alone()
    driver.holds = True
    driver.beat_later("A e2 names=foo,foobar")
    driver.set_topics(FOO, Topic(T2, "foobar", 5))
    driver.holds = False
    driver.turn()
    driver.advance(1_100)
    assert given(driver, "A e3").records[:2] == ("3(4)", "7(A: 0-5 T2:0-4)")


@pytest.mark.conformance("K-B-68", "K-B-19")
@pytest.mark.parametrize("topics", [(FOO_8,), (Topic(T2, "foo", 6),), (), (Topic(T1, "foo", 6, (("r",),) * 6),)])
@pytest.mark.parametrize("slices", [0, 3, 4])
def test_a_change_of_a_topic_while_a_target_is_computed_is_looked_at(topics: tuple[Topic, ...], slices: int) -> None:
    driver = ConsumerDriver(FOO, assignors=(Slow(),), settings=ConsumerSettings(assignors=("uniform",)))
    token = driver.beat_later("A e0 join")
    driver.advance(slices)
    driver.set_topics(*topics)
    assert driver.answer(token) is None
    driver.advance(1_100)
    assert driver.answer(token).member_epoch == 2
    assert driver.stands() == "2/2 Stable"
    driver.beat_later("A e2")
    driver.advance(5)
    assert driver.stands().startswith("3/3"), "its topics are others"


class Counting(Topics):
    """An image that counts how often it is asked for a topic."""

    asked = 0

    def named(self, name: str) -> Topic | None:
        self.asked += 1
        return super().named(name)


@pytest.mark.conformance("K-B-68")
def test_a_change_of_topics_costs_what_topics_there_are_and_not_what_groups_subscribe_to() -> None:
    topics = [Topic(number.to_bytes(16, "big"), f"t{number}", 1) for number in range(40)]
    names = ",".join(each.name for each in topics)
    driver = ConsumerDriver(*topics)
    for number in range(30):
        driver.beat(f"A e0 R names={names} own=[]", f"g{number}")
    for grown in (0, 1):
        image = Counting((Topic(topics[0].topic_id, "t0", 1 + grown), *topics[1:]), 8 + grown)
        driver.call(NoteTopicsRequest(image))
        assert image.asked <= 2 * len(topics)
        driver.advance(1_100)
        driver.beat("A e2", "g7")
        assert driver.committed("g7").group_epoch == 2 + grown


@pytest.mark.conformance("K-B-68")
@pytest.mark.parametrize("more", [0, 1])
def test_so_many_topics_change_that_all_are_looked_at(more: int) -> None:
    driver = alone()
    topics = [Topic(number.to_bytes(16, "big"), f"t{number}", 1) for number in range(CHANGED_MAX + more)]
    driver.set_topics(FOO, FOOBAR, *topics)
    assert driver.consumer().must_look_at_topics(driver.now) is bool(more)
    assert given(driver, "A e2") == ("e2", ())
    assert not driver.consumer().must_look_at_topics(driver.now)
    driver.set_topics(FOO_8)
    assert given(driver, "A e2").records[0] == "3(3)"


@pytest.mark.conformance("K-B-72", "K-A-62")
def test_a_deleted_topic_is_given_back_by_the_usual_steps() -> None:
    driver = alone("A e0 R names=foo,foobar own=[]")
    driver.set_topics(FOO)
    assert driver.described().members[0].assignment[-1].name == "foo"
    assert given(driver, "A e2") == (
        "e2 asg 0-5",
        ("3(3)", "7(A: 0-5)", "6(3)", "8(A: e2/p2 UNREVOKED 0-5@2 | T2:0-1@2)"),
    )
    assert driver.told("A e2 own=0-5") == "e3"


def test_no_heartbeat_is_taken_before_topics_are_known() -> None:
    driver = Driver()
    for text in ("A e0 join", "A e-1", "A e2"):
        assert driver.call(beat_request(text)).error_code == 14
    assert (driver.log, driver.list_groups()) == ([], ())


@pytest.mark.conformance("K-B-69", "K-C-59")
def test_a_shard_that_is_led_again_takes_no_heartbeat_by_the_topics_of_its_earlier_term() -> None:
    driver = alone()
    driver.shard.unload()
    elsewhere = ConsumerDriver(FOO_8, log=driver.log)
    elsewhere.advance(2_000)
    elsewhere.beat("A e2")
    driver.log, driver.now = elsewhere.log, elsewhere.now
    Driver.load(driver, 1)
    at = len(driver.log)
    for text in ("A e3", "B e0 join", "A e-1"):
        assert driver.told(text) == "14"
    driver.advance(1_100)
    driver.set_topics(FOO_8)
    assert given(driver, "A e3") == ("e3", ())
    assert driver.written(at) == []


def test_what_timers_ask_for_waits_until_topics_are_known() -> None:
    before = alone()
    driver = Driver(log=before.log)
    driver.advance(45_000)
    assert len(driver.log) == len(before.log)
    driver.call(NoteTopicsRequest(Topics((FOO,))))
    assert len(driver.log) > len(before.log)
