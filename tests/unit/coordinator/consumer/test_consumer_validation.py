"""A heartbeat is checked by itself before its group is looked up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.coordinator.consumer.messages import ConsumerGroupHeartbeatRequest
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.validation import NAMES_MAX, check
from tests.support.consumer_groups import ConsumerDriver, beat_request

JOIN = beat_request("A e0 join")
BEAT = beat_request("A e1")
LEAVE = beat_request("A e-1")
AWAY = beat_request("A e-2 as=i-a")


def refused(request: ConsumerGroupHeartbeatRequest) -> int:
    """The error of a request that leaves nothing behind."""
    driver = ConsumerDriver()
    answer = driver.call(request)
    assert (driver.log, driver.stands()) == ([], "")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms, answer.assignment) == (
        None,
        0,
        0,
        None,
    )
    return int(answer.error_code)


def test_a_million_topics_in_a_heartbeat_held_up_all_groups_of_the_shard() -> None:
    """The subscription had no room in a record. Now such a heartbeat is refused before anything is made of it."""
    names = tuple(map(str, range(NAMES_MAX + 1)))
    for request in (JOIN, BEAT, LEAVE):
        assert refused(replace(request, subscribed_topic_names=names)) == 42
    assert check(replace(JOIN, subscribed_topic_names=names[1:]), ("uniform",)) is None


@pytest.mark.conformance("K-A-22")
@pytest.mark.parametrize(("request_", "versions"), [(JOIN, (1,)), (BEAT, (0, 1)), (LEAVE, (0, 1)), (AWAY, (1,))])
@pytest.mark.parametrize("blank", ["", "  "])
def test_a_member_id_is_needed(request_: ConsumerGroupHeartbeatRequest, versions: tuple[int, ...], blank: str) -> None:
    for version in versions:
        assert refused(replace(request_, member_id=blank, api_version=version)) == 42


@pytest.mark.conformance("K-A-03", "K-A-22")
def test_the_coordinator_chooses_the_id_of_an_old_client_that_joins() -> None:
    driver = ConsumerDriver()
    answer = driver.call(replace(JOIN, member_id="", api_version=0))
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "AAAAAAAAAAAAAAAAAAAAAQ", 2)


@pytest.mark.conformance("K-A-31")
def test_an_old_client_without_an_id_that_leaves_for_a_while_is_refused_by_the_group() -> None:
    driver = ConsumerDriver()
    driver.beat("A e0 join as=i-a")
    assert driver.call(replace(AWAY, member_id="", api_version=0)).error_code == 82
    assert driver.call(replace(AWAY, member_id="", instance_id="i-b", api_version=0)).error_code == 25


@pytest.mark.conformance("K-A-23")
@pytest.mark.parametrize("request_", [JOIN, BEAT, LEAVE, AWAY])
@pytest.mark.parametrize("field", ["group_id", "instance_id", "rack_id"])
@pytest.mark.parametrize("blank", ["", " \t"])
def test_ids_are_not_blank(request_: ConsumerGroupHeartbeatRequest, field: str, blank: str) -> None:
    assert refused(replace(request_, **{field: blank})) == 42


@pytest.mark.conformance("K-A-24", "K-A-25", "K-A-26")
@pytest.mark.parametrize(
    "text",
    [
        "A e0 names=foo own=[]",
        "A e0 R names=foo",
        "A e0 R names=foo own=0",
        "A e0 R own=[]",
    ],
)
def test_who_joins_says_everything(text: str) -> None:
    assert refused(beat_request(text)) == 42


@pytest.mark.conformance("K-A-26")
@pytest.mark.parametrize("text", ["A e0 R names= own=[]", "A e0 R regex= own=[]"])
def test_names_or_an_expression_may_be_empty(text: str) -> None:
    assert ConsumerDriver().told(text) == "e1 asg -"


@pytest.mark.conformance("K-A-27", "K-A-28")
@pytest.mark.parametrize("text", ["A e-2", "A e-3", "A e-3 as=i-a"])
def test_an_epoch_below_zero_is_that_of_a_leave(text: str) -> None:
    assert refused(beat_request(text)) == 42


@pytest.mark.conformance("K-A-29")
def test_an_assignor_is_one_of_those_that_are_configured() -> None:
    driver = ConsumerDriver(settings=ConsumerSettings(assignors=("range",)))
    answer = driver.beat("A e0 join by=uniform")
    assert (answer.error_code, "range" in (answer.error_message or "")) == (112, True)
    assert driver.beat("A e0 join by=range").error_code == 0


@pytest.mark.conformance("K-A-56")
def test_a_leave_is_looked_at_in_the_same_way_and_the_size_of_the_group_does_not_matter() -> None:
    driver = ConsumerDriver()
    driver.join("A", "B")
    driver.set_settings(ConsumerSettings(max_size=1))
    assert driver.told("B e-1 by=nobody") == "112"
    assert driver.told("B e-1") == "e-1"
    assert driver.told("C e-1") == "25"


@pytest.mark.conformance("K-A-32")
def test_timeouts_have_no_bounds_names_may_come_twice_and_what_is_owned_may_be_anything() -> None:
    driver = ConsumerDriver()
    assert driver.call(replace(JOIN, rebalance_timeout_ms=0, subscribed_topic_names=("foo", "foo"))).error_code == 0
    assert driver.committed().names == {"foo": 1}
    assert driver.told("A e2 own=0-99 T3:7") == "e2"


@pytest.mark.conformance("K-A-30")
def test_a_shard_that_does_not_serve_says_so_after_what_is_wrong_by_itself() -> None:
    driver = ConsumerDriver()
    driver.shard.unload()
    assert driver.call(JOIN).error_code == 16
    assert driver.call(replace(JOIN, member_id="")).error_code == 42
    driver.shard.start_loading(1, driver.now)
    assert driver.call(BEAT).error_code == 14
    assert driver.call(replace(LEAVE, group_id="")).error_code == 42
