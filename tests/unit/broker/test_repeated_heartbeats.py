"""Heartbeats of a client that repeats itself are read as if each were its first."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.consumer import messages as core
from actors.group_api import consumer_group_heartbeat, heartbeat
from actors.group_api.heartbeats import Heartbeats
from actors.group_api.topics import Topics
from actors.wire.errors import WireError
from actors.wire.framing import encode_request
from actors.wire.messages import ConsumerGroupHeartbeatRequest, HeartbeatRequest

TEXT = st.text(max_size=6)
OWNED = st.builds(
    ConsumerGroupHeartbeatRequest.TopicPartitions,
    topic_id=st.binary(min_size=16, max_size=16),
    partitions=st.lists(st.integers(-1, 9), max_size=3),
)
CONSUMER_REQUESTS = st.builds(
    ConsumerGroupHeartbeatRequest,
    group_id=TEXT,
    member_id=TEXT,
    member_epoch=st.integers(-3, 9),
    instance_id=st.none() | TEXT,
    subscribed_topic_names=st.none() | st.lists(TEXT, max_size=2),
    topic_partitions=st.none() | st.lists(OWNED, max_size=2),
)
CONSUMER_VERSION = st.integers(*consumer_group_heartbeat.VERSIONS)
REQUESTS = st.builds(
    HeartbeatRequest,
    group_id=TEXT,
    generation_id=st.integers(-1, 9),
    member_id=TEXT,
    group_instance_id=st.none() | TEXT,
)
VERSION = st.integers(*heartbeat.VERSIONS)


def said(heartbeats: Heartbeats, frame: bytes) -> Any:
    """The request that is read from a frame; None if the frame is refused."""
    try:
        return heartbeats.read(frame)
    except WireError:
        return None


@given(st.tuples(REQUESTS, VERSION) | st.tuples(CONSUMER_REQUESTS, CONSUMER_VERSION), st.none() | TEXT, st.data())
def test_repeated_heartbeats_are_read_as_new_ones(
    asked: tuple[Any, int], client: str | None, data: st.DataObject
) -> None:
    """Any byte may differ, and the frame may be cut."""
    request, version = asked
    heartbeats = Heartbeats("/10.0.0.1")
    for correlation_id in (-1, 7, 2**31 - 1):
        frame = encode_request(request, version, correlation_id, client)[4:]
        assert said(heartbeats, frame) == said(Heartbeats("/10.0.0.1"), frame)
    changed = bytearray(frame)
    changed[data.draw(st.integers(2, len(frame) - 1))] = data.draw(st.integers(0, 255))
    for other in (bytes(changed), frame[: data.draw(st.integers(8, len(frame)))], frame + b"\0", frame):
        assert said(heartbeats, other) == said(Heartbeats("/10.0.0.1"), other)


def test_an_answer_that_tells_nothing_new_is_encoded_once() -> None:
    heartbeats = Heartbeats()
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="A", member_epoch=2)
    usual = core.ConsumerGroupHeartbeatResponse(0, member_id="A", member_epoch=2, heartbeat_interval_ms=5_000)
    first = heartbeats.body(message, usual, 1)
    assert first == consumer_group_heartbeat.answer(message, usual, 1, Topics()).encode(1)
    assert heartbeats.body(message, usual, 1) is first
    for other in (
        core.ConsumerGroupHeartbeatResponse(25, "gone"),
        core.ConsumerGroupHeartbeatResponse(0, None, "A", 3, 5_000, {b"t" * 16: frozenset((0, 1))}),
        core.ConsumerGroupHeartbeatResponse(0, None, "A", 3, 5_000),
    ):
        whole = consumer_group_heartbeat.answer(message, other, 1, Topics()).encode(1)
        assert (heartbeats.body(message, other, 1), heartbeats.body(message, usual, 1)) == (whole, first)
