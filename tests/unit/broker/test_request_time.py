"""`request_percentage`: a client's share of the time of the broker's loop, by a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.connections.connection import Connection
from actors.broker.connections.slots import Slot
from actors.broker.entrance.request_time import RequestTime
from actors.broker.quotas import Quotas
from actors.broker.turns import Turns
from actors.quotas.entities import REQUEST_PERCENTAGE
from actors.runtime.environment import REAL, Clock
from actors.settings import BrokerConfig
from actors.wire import messages
from actors.wire.framing import decode_response, encode_large_response, encode_request
from actors.wire.messages import ApiMessage, response_class
from tests.support.handler_helpers import Loop, Server, Transport

PERCENT = 5.0
WINDOW_MS = 10_000
"""Eleven samples of a second, of which the last has just begun."""
HEARTBEAT = (messages.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), messages.HeartbeatResponse())


@dataclass
class Hand:
    now: float = 50.0

    def __call__(self) -> float:
        return self.now


class World:
    """A connection whose requests take as long as `takes`, and are answered at once, or by the test."""

    def __init__(self, **quotas: float) -> None:
        self.loop = Loop()
        self.hand = Hand()
        self.takes = 0.0
        self.at_once = True
        self.served: list[Slot] = []
        loop: Any = self.loop
        self.context: Any = SimpleNamespace(
            quotas=Quotas({(("client-id", "busy"),): quotas}, BrokerConfig.from_mapping({}), loop),
            environment=replace(REAL, clock=Clock(monotonic=self.hand)),
        )
        self.breaks = False
        self.time = RequestTime(self.context, self.serve)
        server: Any = Server()
        transport: Any = Transport()
        self.connection = Connection(server, 1, 0.0)
        self.connection.connection_made(transport)
        self.response: ApiMessage = HEARTBEAT[1]

    def serve(self, connection: Connection, data: bytes, start: int, end: int) -> None:
        assert not self.time.serves(connection, data, start, end), "it is being served"
        api_key, version = int.from_bytes(data[start : start + 2], "big"), int.from_bytes(data[start + 2 : start + 4])
        slot = connection.slots.open(0, api_key, version, 7)
        self.hand.now += self.takes
        if self.breaks:
            raise ValueError
        self.served.append(slot)
        if self.at_once:
            slot.finish(encode_large_response(self.response, version, 7))

    def ask(self, request: ApiMessage = HEARTBEAT[0], version: int = 4, client_id: str | None = "busy") -> bool:
        data = encode_request(request, version, 7, client_id)
        return self.time.serves(self.connection, data, 4, len(data))

    @property
    def reading(self) -> bool:
        transport: Any = self.connection.transport
        return bool(transport.reading)


def told(slot: Slot) -> int:
    answer = slot.answer
    assert answer is not None
    whole = answer if isinstance(answer, bytes) else b"".join(bytes(part) for part in answer)  # type: ignore[arg-type]
    response: Any = decode_response(response_class(slot.api_key), slot.version, whole[4:])[1]
    return int(response.throttle_time_ms)


@pytest.mark.conformance("XD-06", "XD-07", "XD-08")
def test_who_takes_more_of_the_loop_is_told_and_not_read_for_that_time() -> None:
    world = World(**{REQUEST_PERCENTAGE: PERCENT})
    world.takes = WINDOW_MS / 1000 * PERCENT / 100
    assert world.ask()
    assert told(world.served[0]) == 0
    assert world.reading, "the window has room for so much"
    world.takes = 0.01
    assert world.ask()
    assert told(world.served[1]) == 200, "10 ms are 5 per cent of that"
    assert not world.reading
    world.loop.advance(0.19)
    assert not world.reading
    world.loop.advance(0.01)
    assert world.reading


@pytest.mark.conformance("XD-07", "XD-09")
def test_a_wait_is_no_longer_than_a_sample_so_that_sessions_go_on() -> None:
    world = World(**{REQUEST_PERCENTAGE: PERCENT})
    world.takes = 60.0
    assert world.ask()
    assert told(world.served[0]) == 1000
    world.loop.advance(1.0)
    assert world.reading


@pytest.mark.conformance("XD-07")
def test_an_answer_that_comes_later_tells_it_too() -> None:
    world = World(**{REQUEST_PERCENTAGE: PERCENT})
    world.takes, world.at_once = 60.0, False
    assert world.ask()
    assert not world.reading
    (slot,) = world.served
    slot.finish(encode_large_response(HEARTBEAT[1], 4, 7))
    assert told(slot) == 1000
    assert isinstance(world.connection.slots.open(0, 12, 4, 8), Slot)
    assert type(world.connection.slots.open(0, 12, 4, 8)) is Slot, "what comes by another way is not timed"


@pytest.mark.conformance("XD-06")
def test_who_has_no_such_quota_is_not_timed() -> None:
    world = World(**{REQUEST_PERCENTAGE: PERCENT})
    assert not world.ask(client_id="another")
    assert not world.ask(client_id=None)
    assert not World(producer_byte_rate=5).ask()
    assert not world.served


@pytest.mark.conformance("XD-06")
def test_clients_of_one_id_share_what_it_may_take() -> None:
    world = World(**{REQUEST_PERCENTAGE: PERCENT})
    world.takes = 60.0
    assert world.ask()
    server: Any = Server()
    transport: Any = Transport()
    first, world.connection = world.connection, Connection(server, 2, 0.0)
    world.connection.connection_made(transport)
    world.takes = 0.0
    assert world.ask()
    assert told(world.served[1]) == 1000
    assert not world.reading
    assert first is not world.connection


def test_a_request_that_is_refused_by_an_error_took_its_time() -> None:
    world = World(**{REQUEST_PERCENTAGE: PERCENT})
    world.takes = 60.0
    world.breaks = True
    with pytest.raises(ValueError):
        world.ask()
    assert not world.reading
    assert world.connection.slots.make is Slot


@pytest.mark.parametrize(
    ("request_", "response", "version", "is_told"),
    [
        (*HEARTBEAT, 1, True),
        (*HEARTBEAT, 4, True),
        (*HEARTBEAT, 0, False),
        (messages.FetchRequest(topics=[]), messages.FetchResponse(throttle_time_ms=5, responses=[]), 12, True),
        (messages.ApiVersionsRequest(), messages.ApiVersionsResponse(), 2, False),
        (messages.SaslHandshakeRequest(mechanism=""), messages.SaslHandshakeResponse(), 1, False),
    ],
)
def test_only_what_has_a_throttle_time_in_front_is_changed(
    request_: ApiMessage, response: ApiMessage, version: int, is_told: bool
) -> None:
    world = World(**{REQUEST_PERCENTAGE: PERCENT})
    world.takes, world.response = 60.0, response
    assert world.ask(request_, version)
    (slot,) = world.served
    if is_told:
        assert told(slot) == 1000
    else:
        assert slot.answer == encode_large_response(response, version, 7)


def test_a_large_answer_in_parts_tells_it() -> None:
    part = messages.FetchResponse.PartitionData(partition_index=0, records=b"x" * (1 << 20))
    topic = messages.FetchResponse.FetchableTopicResponse(topic="t", partitions=[part])
    world = World(**{REQUEST_PERCENTAGE: PERCENT})
    world.takes, world.response = 60.0, messages.FetchResponse(responses=[topic])
    assert world.ask(messages.FetchRequest(topics=[]), 12)
    (slot,) = world.served
    assert isinstance(slot.answer, list)
    assert told(slot) == 1000


@pytest.mark.conformance("XD-06", "XD-07")
def test_work_that_is_done_in_later_turns_counts_too() -> None:
    """A request about very many partitions is handled in pieces, and pays for each of them."""
    world = World(**{REQUEST_PERCENTAGE: PERCENT})
    loop: Any = world.loop
    turns = Turns(loop, lambda: world.context.quotas, world.hand)

    def work() -> Iterator[None]:
        for seconds in (WINDOW_MS / 1000 * PERCENT / 100, 0.01, 0.0):
            world.hand.now += seconds
            yield

    turns.begin(work(), world.connection, "busy")
    turns.begin(work(), world.connection, "another")
    world.loop.turn()
    assert world.reading, "the window has room for so much"
    for _ in range(10):
        world.loop.turn()
    assert not world.reading
    world.loop.advance(1.0)
    assert world.reading
