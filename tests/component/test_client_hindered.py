"""A consumer that gets no records says why: once, after some seconds, with the setting that governs it."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from actors.client import Admin, Consumer
from actors.client.errors import InvalidTopicError, SecurityProtocolError
from actors.runtime.environment import REAL, Clock, Environment
from actors.wire import messages as m
from tests.support.client_broker import DROP, ScriptedBroker, broker


@pytest.fixture
def kafka() -> Iterator[ScriptedBroker]:
    with broker() as running:
        running.topic("t")
        yield running


@pytest.fixture
def nobody() -> Iterator[str]:
    """A port at which nobody listens, and nobody will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


class Ahead:
    """A clock that can be put forward."""

    def __init__(self) -> None:
        self.by_ms = 0
        self.environment = Environment(Clock(monotonic_ms=lambda: REAL.clock.monotonic_ms() + self.by_ms))


def until_hindered(consumer: Consumer, ahead: Ahead, by: str) -> str:
    """Poll until this is in the way, then let the time of grace pass. Returns all that is said of it."""
    while by not in (consumer.hindrance(grace_ms=0) or ""):
        consumer.poll(timeout_ms=5)
    ahead.by_ms += 3_000
    while by not in (found := consumer.hindrance() or ""):  # a request that was under way has become slow
        consumer.poll(timeout_ms=5)
    return found


def warnings(caplog: pytest.LogCaptureFixture, of: str) -> list[str]:
    return [each.getMessage() for each in caplog.records if of in each.getMessage()]


def test_polls_of_a_consumer_whose_brokers_cannot_be_reached_were_empty_for_ever(
    nobody: str, caplog: pytest.LogCaptureFixture
) -> None:
    ahead = Ahead()
    caplog.set_level(logging.WARNING)
    settings: dict[str, Any] = {"bootstrap_servers": nobody, "group_id": "g"}
    with closing(Consumer("t", environment=ahead.environment, **settings)) as consumer:
        text = until_hindered(consumer, ahead, "no broker can be reached")
        for _ in range(3):
            assert consumer.poll(timeout_ms=1) == {}
    assert f"check bootstrap_servers (cannot connect to {nobody}" in text
    (warning,) = warnings(caplog, "no broker can be reached")
    assert warning.startswith("group g: no records: no broker can be reached")


def test_polls_of_a_topic_that_does_not_exist_were_empty_for_ever(
    kafka: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    ahead = Ahead()
    settings: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "group_id": "g",
        "allow_auto_create_topics": False,
    }
    with closing(Consumer("typo", environment=ahead.environment, **settings)) as consumer:
        text = until_hindered(consumer, ahead, "there is no topic")
        for _ in range(3):
            consumer.poll(timeout_ms=1)
        assert text.startswith("there is no topic 'typo' (allow_auto_create_topics=False)")
        assert len(warnings(caplog, "there is no topic")) == 1
        kafka.topic("typo")
        while consumer.hindrance(grace_ms=0) is not None:
            consumer.poll(timeout_ms=5)


def test_polls_of_a_topic_with_an_illegal_name_were_empty_for_ever(kafka: ScriptedBroker) -> None:
    def illegal(request: Any) -> Any:
        part = m.MetadataResponse
        name, node = request.topics[0].name, part.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=kafka.port)
        return part(brokers=[node], topics=[part.MetadataResponseTopic(name=name, topic_id=bytes(16), error_code=17)])

    kafka.script(m.MetadataRequest, *[illegal] * 20)
    with closing(Consumer("a/b", bootstrap_servers=kafka.bootstrap_servers, group_id="g")) as consumer:
        with pytest.raises(InvalidTopicError, match="'a/b' cannot be a topic's name"):
            consumer.poll(timeout_ms=60_000)


def test_nothing_is_in_the_way_of_a_consumer_that_waits_for_records(kafka: ScriptedBroker) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": "g"}
    with closing(Consumer("t", auto_offset_reset="earliest", **settings)) as consumer:
        kafka.append("t", 0, b"v")
        while not consumer.poll(timeout_ms=100):
            pass
        assert consumer.hindrance(grace_ms=0) is None


@pytest.mark.parametrize("request_class", [m.ApiVersionsRequest, m.MetadataRequest])
def test_an_admin_waited_30_seconds_for_a_broker_that_hangs_up_on_each_first_request(
    kafka: ScriptedBroker, request_class: Any
) -> None:
    """As a listener does that expects TLS, or a login."""
    kafka.script(request_class, *[DROP] * 100)
    with closing(Admin(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        with pytest.raises(SecurityProtocolError, match=r"it may expect (TLS|a login) \(security_protocol"):
            admin.list_topics()
    assert len(kafka.requests(request_class)) <= 4


def test_an_admin_that_has_been_answered_goes_on_when_a_broker_hangs_up(kafka: ScriptedBroker) -> None:
    with closing(Admin(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        assert admin.list_topics() == ["t"]
        kafka.drop_connections()
        kafka.script(m.MetadataRequest, *[DROP] * 5)
        assert admin.list_topics() == ["t"]
