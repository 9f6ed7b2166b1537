"""Members subscribe by regular expressions, which are resolved outside of the shard."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.coordinator.consumer.expressions import CLASSES_MAX, error_of, matched
from actors.coordinator.consumer.messages import ResolvedRequest
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.topics import Topic
from tests.support.consumer_groups import BAR, FOO, FOO2, FOOBAR, GROUP, ConsumerDriver, given, shown_answer

JOIN = "R names= own=[] regex=foo.*"


def pending(settings: ConsumerSettings | None = None) -> ConsumerDriver:
    """A has an expression that is not resolved yet."""
    driver = ConsumerDriver(FOO, FOOBAR, BAR, settings=settings)
    assert driver.told(f"A e0 {JOIN}") == "e1 asg -"
    return driver


def resolved(settings: ConsumerSettings | None = None) -> ConsumerDriver:
    """A has the topics of its expression."""
    driver = pending(settings)
    driver.resolve()
    assert driver.told("A e1") == "e2 asg 0-5 T2:0-1"
    driver.advance(1_100)
    return driver


@pytest.mark.conformance("K-B-08", "K-B-24", "K-B-78", "K-B-80", "K-C-35", "K-C-36", "K-B-74", "K-C-08")
def test_a_first_member_waits_for_its_topics_and_gets_them_with_its_next_heartbeat() -> None:
    driver = ConsumerDriver(FOO, FOOBAR, BAR)
    assert given(driver, f"A e0 {JOIN}") == ("e1 asg -", ("5(A)", "8(A: e1/p0 STABLE - | -)"))
    assert driver.stands() == "1/1 Stable"
    at = len(driver.log)
    driver.resolve()
    assert driver.written(at) == ["16(foo.*)", "3(2)"]
    assert driver.committed().resolved["foo.*"].topics == frozenset({"foo", "foobar"})
    assert driver.committed().metadata_hash == -7755850188680865452
    assert driver.stands() == "2/1 Assigning"
    assert given(driver, "A e1") == (
        "e2 asg 0-5 T2:0-1",
        ("7(A: 0-5 T2:0-1)", "6(2)", "8(A: e2/p1 STABLE 0-5@2 T2:0-1@2 | -)"),
    )
    assert driver.stands() == "2/2 Stable"


@pytest.mark.conformance("K-B-75", "K-B-86")
def test_an_expression_that_others_have_is_there_at_once() -> None:
    driver = resolved()
    answer, records = given(driver, f"B e0 {JOIN}")
    assert (answer, records[:2], records[-1]) == ("e3 asg -", ("5(B)", "3(3)"), "8(B: e3/p0 UNRELEASED - | -)")
    state = driver.committed()
    assert state.is_homogeneous
    assert sorted(sum(map(len, target.values())) for target in state.targets.values()) == [4, 4]


@pytest.mark.conformance("K-A-43", "K-B-73", "K-B-75")
@pytest.mark.parametrize("regex", ["foo(", "(?=a)b", r"(a)\1", "[z-a]"])
def test_what_is_no_expression_of_re2_is_refused(regex: str) -> None:
    driver = ConsumerDriver()
    assert given(driver, f"C e0 R names= own=[] regex={regex}") == ("128", ())
    assert driver.stands() == ""
    assert error_of(regex)
    driver.beat("A e0 join")
    assert given(driver, f"A e2 regex={regex}") == ("128", ())


@pytest.mark.conformance("K-A-43")
@pytest.mark.parametrize(
    "regex", [r"\pL" * (CLASSES_MAX + 1), r"\PL" * 10_000, r"(\pL\pN){300}", r"(?i)(\P{Lu}\p{Ll}){100}", "(.{9}){999}"]
)
def test_an_expression_that_takes_long_to_compile_held_up_all_groups_of_its_shard(regex: str) -> None:
    """It took up to four seconds, in which no other client was answered."""
    driver = ConsumerDriver()
    assert given(driver, f"C e0 R names= own=[] regex={regex}") == ("128", ())


def test_an_expression_of_many_names_is_none_that_takes_long() -> None:
    assert error_of("|".join(f"topic-{number}-(a|b).*" for number in range(800))) == ""
    assert error_of(r"\pL{1,9}[\pN_]*" * 4) == ""


def test_matching_ends_when_it_takes_too_long() -> None:
    names = ["foo", "foobar", "bar"]
    assert matched("fo.*", names, lambda: False) == {"foo", "foobar"}
    late = iter((False, False, True))
    assert matched("fo.*", names, late.__next__) is None
    assert matched("(", names, lambda: False) == frozenset(), "a build with other bounds took it"


@pytest.mark.conformance("K-B-73")
def test_an_expression_matches_whole_names_of_all_topics() -> None:
    internal = Topic(bytes(range(80, 96)), "__consumer_offsets", 1)
    driver = ConsumerDriver(FOO, FOOBAR, internal)
    for member, regex in (("A", "foo"), ("B", "oob"), ("C", ".*")):
        driver.beat(f"{member} e0 R names= own=[] regex={regex}")
        driver.advance(10_001)
    driver.beat("A e1")
    driver.resolve()
    driver.advance(11_000)
    driver.beat("B e1")
    driver.resolve()
    found = {regex: set(each.topics) for regex, each in driver.committed().resolved.items()}
    assert found == {"foo": {"foo"}, "oob": set(), ".*": {"foo", "foobar", "__consumer_offsets"}}


@pytest.mark.conformance("K-B-74")
def test_a_member_has_the_topics_that_it_names_and_those_of_its_expression() -> None:
    driver = ConsumerDriver(FOO, FOOBAR, BAR)
    driver.beat("A e0 R names=bar own=[] regex=foob.*")
    driver.resolve()
    driver.advance(1_100)
    assert driver.told("A e2") == "e3 asg T2:0-1 T3:0"
    assert not driver.committed().is_homogeneous


@pytest.mark.conformance("K-B-75", "K-B-17", "K-B-132")
def test_an_expression_that_is_given_up_leaves_at_once() -> None:
    driver = resolved()
    driver.beat(f"B e0 {JOIN}")
    driver.advance(1_100)
    answer, records = given(driver, "A e2 regex=")
    assert (answer, records[:2]) == ("e2 asg -", ("5(A)", "3(4)"))
    assert records[-1] == "8(A: e2/p2 UNREVOKED - | 0-5@2 T2:0-1@2)"
    assert driver.committed().resolved.keys() == {"foo.*"}, "B has it, too"


@pytest.mark.conformance("K-B-75", "K-B-17", "K-B-23", "K-C-35")
def test_an_expression_that_nobody_has_any_more_is_forgotten() -> None:
    driver = resolved()
    assert given(driver, "A e2 regex=bar") == (
        "e2 asg -",
        ("5(A)", "x16(foo.*)", "8(A: e2/p2 UNREVOKED - | 0-5@2 T2:0-1@2)"),
    )
    driver = resolved()
    assert given(driver, "A e-1").records == ("x8(A)", "x7(A)", "x5(A)", "x16(foo.*)", "3(3)", "6(3,0)")


@pytest.mark.conformance("K-B-75")
def test_a_new_expression_of_a_member_raises_nothing_until_it_is_resolved() -> None:
    driver = resolved()
    driver.beat("B e0 R names=foo own=[]")
    driver.settle()
    driver.advance(10_001)
    before = driver.stands().split()[0]
    epoch = driver.committed().current_of("B").epoch
    answer, records = given(driver, f"B e{epoch} regex=ba.*")
    assert (answer, records, driver.stands().split()[0]) == (f"e{epoch}", ("5(B)",), before)
    driver.resolve()
    assert driver.stands().endswith("Assigning")


@pytest.mark.conformance("K-B-76", "K-B-77")
@pytest.mark.parametrize(
    ("makes_it_due", "wait_ms"),
    [
        (lambda driver: driver.set_topics(FOO, FOOBAR, BAR, FOO2), 10_001),
        (lambda driver: driver.beat("B e0 R names= own=[] regex=ba.*"), 10_001),
        (lambda driver: None, 600_000),
    ],
    ids=["topics were made", "another expression", "the refresh interval"],
)
def test_expressions_are_resolved_again_when_it_is_due(
    makes_it_due: Callable[[ConsumerDriver], object], wait_ms: int
) -> None:
    driver = resolved(ConsumerSettings(session_timeout_ms=10_000_000))
    driver.resolve()
    makes_it_due(driver)
    driver.advance(wait_ms - 1_100 - 1)
    driver.beat("A e2")
    assert driver.resolve() == []
    driver.advance(1)
    driver.beat("A e2")
    assert len(driver.resolve()) == 1


@pytest.mark.conformance("K-B-76")
def test_expressions_that_were_resolved_by_a_clock_that_was_ahead_are_resolved_again() -> None:
    driver = resolved(ConsumerSettings(session_timeout_ms=10_000_000))
    driver.resolve()
    driver.now = driver.now._replace(wall_ms=driver.now.wall_ms - 3_600_000)
    driver.beat("A e2")
    assert len(driver.resolve()) == 1
    driver.beat("A e2")
    assert driver.resolve() == []


@pytest.mark.conformance("K-B-76")
def test_what_does_not_make_topics_makes_nothing_due() -> None:
    driver = resolved()
    driver.set_topics(FOO, BAR)
    driver.advance(20_000)
    driver.beat("A e2")
    assert driver.resolve() == []


@pytest.mark.conformance("K-B-76", "K-B-78")
def test_a_group_has_one_resolution_at_a_time_which_is_of_all_its_expressions() -> None:
    driver = pending()
    driver.beat("B e0 R names= own=[] regex=ba.*")
    (first,) = driver.resolve()
    assert first.regexes == {"foo.*"}
    driver.advance(10_001)
    driver.beat("A e1")
    driver.beat("B e1")
    (second,) = driver.resolve()
    assert second.regexes == {"foo.*", "ba.*"}


@pytest.mark.conformance("K-B-78")
def test_who_asks_for_what_there_is_to_resolve_waits_for_it() -> None:
    driver = ConsumerDriver(FOO, FOOBAR)
    asked = driver.ask_for_resolutions()
    assert driver.answer(asked) is None
    token = driver.beat_later(f"A e0 {JOIN}")
    (resolution,) = driver.answer(asked).resolutions
    assert (resolution.group_id, resolution.regexes, resolution.token) == (GROUP, {"foo.*"}, token)
    assert shown_answer(driver.answer(token)) == "e1 asg -"
    waiting = driver.ask_for_resolutions()
    driver.fail_over()
    assert driver.answer(waiting).error_code == 16


@pytest.mark.conformance("K-B-79")
def test_topics_that_the_client_may_not_see_are_not_found() -> None:
    driver = pending()
    driver.resolve(hidden=frozenset({"foobar"}))
    assert driver.committed().resolved["foo.*"].topics == {"foo"}


@pytest.mark.conformance("K-B-80")
def test_a_result_that_changes_nothing_is_written_and_raises_nothing() -> None:
    driver = resolved(ConsumerSettings(session_timeout_ms=10_000_000))
    driver.advance(700_000)
    driver.beat("A e2")
    at = len(driver.log)
    driver.resolve()
    assert driver.written(at) == ["16(foo.*)"]
    assert driver.stands() == "2/2 Stable"
    assert driver.committed().resolved["foo.*"].timestamp_ms == driver.now.wall_ms


@pytest.mark.conformance("K-B-80")
def test_a_result_of_a_group_or_an_expression_that_is_gone_is_dropped() -> None:
    driver = pending()
    driver.beat("A e1 regex=ba.*")
    at = len(driver.log)
    driver.resolve()
    assert driver.written(at) == []
    assert driver.call(ResolvedRequest("none", {"foo.*": frozenset()}, 1, 1)).error_code == 0


@pytest.mark.conformance("K-B-80")
def test_a_result_raises_the_epoch_if_topics_have_changed_meanwhile() -> None:
    driver = resolved(ConsumerSettings(session_timeout_ms=10_000_000))
    driver.advance(700_000)
    driver.beat("A e2")
    driver.set_topics(Topic(FOO.topic_id, "foo", 8), FOOBAR, BAR)
    at = len(driver.log)
    driver.resolve()
    assert driver.written(at) == ["16(foo.*)", "3(3)"]


@pytest.mark.conformance("K-B-81")
def test_a_resolution_that_fails_is_tried_again_with_a_later_heartbeat() -> None:
    driver = pending()
    asked = driver.ask_for_resolutions()
    (resolution,) = driver.answer(asked).resolutions
    driver.beat("A e1")
    assert driver.resolve() == [], "it is under way"
    driver.ask(ResolvedRequest(GROUP, None, 1, resolution.began_ms))
    driver.beat("A e1")
    assert len(driver.resolve()) == 1


@pytest.mark.conformance("K-B-81")
@pytest.mark.parametrize("is_fetched", [False, True])
def test_a_resolution_of_which_nothing_is_heard_is_given_up(is_fetched: bool) -> None:
    driver = pending(ConsumerSettings(session_timeout_ms=10_000_000))
    if is_fetched:
        assert len(driver.answer(driver.ask_for_resolutions()).resolutions) == 1
    driver.advance(59_999)
    driver.beat("A e1")
    assert driver.resolve() == [] or not is_fetched
    driver.advance(20_001)
    driver.beat("A e1")
    driver.resolve()
    assert driver.committed().resolved["foo.*"].topics == {"foo", "foobar"}


@pytest.mark.conformance("K-B-80", "K-B-81")
def test_a_result_that_comes_after_a_newer_one_is_dropped() -> None:
    driver = pending(ConsumerSettings(session_timeout_ms=10_000_000))
    (slow,) = driver.answer(driver.ask_for_resolutions()).resolutions
    driver.advance(60_000)
    driver.set_topics(FOO, FOOBAR, BAR, FOO2)
    driver.beat("A e1")
    driver.resolve()
    at = len(driver.log)
    late = ResolvedRequest(GROUP, {"foo.*": frozenset({"foo", "foobar"})}, slow.topics.version, slow.began_ms)
    assert driver.call(late).error_code == 0
    assert driver.written(at) == []
    assert driver.committed().resolved["foo.*"].topics == {"foo", "foobar", "foo2"}


@pytest.mark.conformance("K-B-80", "K-C-36", "K-C-08")
def test_an_expression_that_matches_nothing_raises_nothing() -> None:
    driver = ConsumerDriver(FOO)
    driver.beat("A e0 R names= own=[] regex=none.*")
    at = len(driver.log)
    driver.resolve()
    assert driver.written(at) == ["16(none.*)"]
    assert given(driver, "A e1") == ("e1", ())
    assert driver.stands() == "1/1 Stable"


@pytest.mark.conformance("K-B-82")
def test_a_deleted_topic_stays_in_what_was_resolved_and_leaves_the_target() -> None:
    driver = resolved()
    driver.set_topics(FOO, BAR)
    assert driver.told("A e2") == "e2 asg 0-5"
    assert driver.committed().resolved["foo.*"].topics == {"foo", "foobar"}
    assert driver.committed().targets["A"].keys() == {FOO.topic_id}


@pytest.mark.conformance("K-D-23", "K-D-27")
def test_offsets_of_topics_that_an_expression_matches_stay() -> None:
    driver = resolved()
    driver.commits("A", 2, "0 T2:0 T3:0")
    deleted = driver.delete_offsets(GROUP, ("foo", 0), ("foobar", 0), ("bar", 0))
    assert [code for _, _, code in deleted.partitions] == [86, 86, 0]


def test_expressions_that_were_resolved_are_there_after_a_load() -> None:
    driver = resolved()
    driver.fail_over()
    driver.advance(20_000)
    assert given(driver, "A e2") == ("e2", ())
    assert driver.resolve() == [], "there is no topic that they have not been resolved with"


@pytest.mark.conformance("K-B-76", "K-C-59")
def test_a_shard_that_is_led_again_matches_topics_that_were_made_meanwhile() -> None:
    driver = resolved()
    driver.shard.unload()
    driver.topics, driver.version = (FOO, FOOBAR, BAR, FOO2), driver.version + 1
    driver.load(1)
    driver.advance(10_001)
    driver.beat("A e2")
    assert len(driver.resolve()) == 1
    assert driver.committed().resolved["foo.*"].topics == {"foo", "foobar", "foo2"}


@pytest.mark.conformance("K-C-59")
def test_what_was_to_be_resolved_is_not_told_in_a_later_term() -> None:
    driver = pending()
    driver.shard.unload()
    driver.log.clear()
    driver.load(1)
    asked = driver.ask_for_resolutions()
    assert driver.answer(asked) is None
    token = driver.beat_later(f"B e0 {JOIN}")
    assert [each.token for each in driver.answer(asked).resolutions] == [token]


@pytest.mark.conformance("K-B-76", "K-C-59")
@pytest.mark.parametrize("when", ["before", "meanwhile", "after"])
def test_topics_that_are_made_around_a_failover_are_matched(when: str) -> None:
    driver = resolved()
    if when == "before":
        driver.set_topics(FOO, FOOBAR, BAR, FOO2)
        driver.beat("A e2")
        assert driver.resolve() == [], "the last resolution is not long ago"
    elif when == "meanwhile":
        driver.topics, driver.version = (FOO, FOOBAR, BAR, FOO2), driver.version + 1
    driver.fail_over()
    if when == "after":
        driver.set_topics(FOO, FOOBAR, BAR, FOO2)
    driver.advance(10_001)
    driver.beat("A e2")
    assert len(driver.resolve()) == 1
    assert driver.committed().resolved["foo.*"].topics == {"foo", "foobar", "foo2"}
    driver.advance(10_001)
    driver.beat("A e2")
    assert driver.resolve() == [], "once is enough"
