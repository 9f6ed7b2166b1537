"""The queues of a producer on their own, and the order of its batches over scripted connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from actors.client import TopicPartition
from actors.client.config import producer_config
from actors.client.errors import (
    KafkaConnectionError,
)
from actors.client.producer.accumulator import Batch, Identity, Lane
from actors.client.producer.sender import Sender
from actors.client.records import Node
from actors.records.batch import iter_batches
from actors.records.growing import GrowingBatch
from actors.runtime.environment import REAL
from actors.wire import messages as m
from tests.support.producing import T0
from tests.support.read_records import read_records

# --- the queue of one partition -----------------------------------------------------------------------------------


def filled(lane: Lane, *names: bytes) -> list[Batch]:
    batches = []
    for name in names:
        batch = Batch(T0, GrowingBatch(0), 0)
        batch.records.append(None, name, [], 0)
        lane.waiting.append(batch)
        batches.append(batch)
    return batches


def take(lane: Lane, limit: int = 5) -> Batch | None:
    return lane.next(0, 0, 1, limit, flush=True)


def test_what_came_back_goes_first_and_waits_for_what_is_ahead_of_it():
    lane = Lane(T0)
    first, second, third = filled(lane, b"1", b"2", b"3")
    assert [take(lane), take(lane)] == [first, second]
    lane.back(first, again=True)
    assert take(lane) is None, "the second is still in flight"
    lane.back(second, again=True)
    assert [take(lane), take(lane), take(lane)] == [first, second, third]


def test_a_poisoned_lane_waits_until_nothing_is_in_flight_and_numbers_anew():
    lane = Lane(T0, identity=Identity(1, 0, acknowledged=True))
    first, second = filled(lane, b"1", b"2")
    for batch in (take(lane), take(lane)):
        assert batch is not None
        batch.close(lane.identity)
    assert (first.sequence, second.sequence) == (0, 1)
    lane.back(first, again=False)
    lane.poisoned = True
    assert not lane.heal()
    lane.back(second, again=True)
    assert lane.heal()
    lane.identity = Identity(2, 0)
    again = take(lane)
    assert again is second
    again.close(lane.identity)
    ((_, _, header),) = iter_batches(bytes(again.records.data or b""))
    assert (header.producer_id, header.base_sequence) == (2, 0)
    assert [r.value for r in read_records(bytes(again.records.data or b""), verify_crc=True)] == [b"2"]


def test_one_batch_at_a_time_where_only_that_keeps_the_order():
    lane = Lane(T0)
    first, _ = filled(lane, b"1", b"2")
    assert take(lane, 1) is first
    assert take(lane, 1) is None


# --- several batches on their way while there is no connection yet ---------------------------------------------------


class Line:
    """A network of scripted connections, and what arrived over them: (node, first sequence) in order."""

    def __init__(self, connect: Callable[[int], Any]) -> None:
        self.loop = asyncio.get_running_loop()
        self.cluster = self
        self.home = Node(0, "h", 1)
        self.now_ms = REAL.clock.monotonic_ms
        self.jitter = lambda: 1.0
        self.arrived: list[tuple[int, int]] = []
        self.answers: list[asyncio.Future[Any]] = []
        self._connect = connect
        self._connections = 0

    def leader(self, tp: TopicPartition) -> Node:
        return self.home

    def refresh(self) -> None: ...

    def soon(self, function: Callable[[], None]) -> None:
        self.loop.call_soon(function)

    async def ask(self, node: Any, request: Any) -> Any:
        return m.InitProducerIdResponse(producer_id=7, producer_epoch=0)

    async def connection(self, node: Node) -> Any:
        self._connections += 1
        await self._connect(self._connections)
        return Wire(self, node)

    def sequences(self) -> list[int]:
        return [sequence for _, sequence in self.arrived]


class Wire:
    def __init__(self, line: Line, node: Node) -> None:
        self.line, self.node = line, node

    def call(self, request: Any, timeout_ms: int, lowest: int) -> asyncio.Future[Any]:
        (data,) = request.topic_data[0].partition_data
        ((_, _, header),) = iter_batches(data.records)
        self.line.arrived.append((self.node.id, header.base_sequence))
        self.line.answers.append(self.line.loop.create_future())
        return self.line.answers[-1]

    def tell(self, request: Any, lowest: int) -> None:
        self.call(request, 0, lowest)

    async def written(self) -> None:
        await self.line.answers[-1]


def sender(line: Line, **settings: Any) -> Sender:
    config = producer_config({"bootstrap_servers": "h:1", "retry_backoff_ms": 1, "linger_ms": 0, **settings})
    return Sender(line, config)  # type: ignore[arg-type]


def put(into: Sender, count: int) -> None:
    """That many batches of one record, of a producer that brokers know already."""
    with into.room:
        identity = Identity(7, 0, acknowledged=True) if into.config.enable_idempotence else None
        lane = into.lanes.setdefault(T0, Lane(T0, identity=identity))
        for _ in range(count):
            batch = Batch(T0, GrowingBatch(0), REAL.clock.monotonic_ms())
            batch.records.append(None, b"v", [], 1)
            lane.waiting.append(batch)


async def send_three(writer: Sender) -> None:
    """Three batches, of which the first is on its way before the others are."""
    put(writer, 3)
    writer.step()
    await turns(lambda: len(writer.lanes[T0].in_flight) >= 1)
    writer.step()
    writer.step()


async def turns(until: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not until():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_batches_that_wait_for_a_connection_leave_in_their_order():
    made = asyncio.Event()

    async def connect(number: int) -> None:
        if number == 1:  # the others would find the connection ready at once
            await made.wait()

    line = Line(connect)
    writer = sender(line)
    await send_three(writer)
    assert len(writer.lanes[T0].in_flight) == 3
    await asyncio.sleep(0.01)
    made.set()
    await turns(lambda: len(line.arrived) == 3)
    assert line.sequences() == [0, 1, 2]


async def test_a_batch_does_not_go_when_the_one_before_it_found_no_connection():
    """A broker that knows nothing of a producer takes whatever comes first for its beginning."""
    refused = asyncio.Event()

    async def connect(number: int) -> None:
        if number == 1:
            await refused.wait()
            raise KafkaConnectionError

    line = Line(connect)
    writer = sender(line)
    await send_three(writer)
    refused.set()
    await turns(lambda: len(line.arrived) == 3)
    assert line.sequences() == [0, 1, 2]


async def test_a_new_leader_gets_nothing_while_the_old_one_has_not_answered():
    async def connect(number: int) -> None: ...

    line = Line(connect)
    writer = sender(line)
    put(writer, 1)
    writer.step()
    await turns(lambda: len(line.arrived) == 1)
    line.home = Node(1, "h", 2)
    put(writer, 1)
    writer.step()
    writer.step()
    await asyncio.sleep(0.05)
    assert line.arrived == [(0, 0)]
    line.answers[0].set_exception(KafkaConnectionError())
    await turns(lambda: len(line.arrived) >= 3)
    assert line.arrived == [(0, 0), (1, 0), (1, 1)]


async def test_without_acknowledgements_a_batch_counts_once_it_has_left_this_process():
    """Else close() would drop what a slow broker has not read yet, and no limit of the buffer would hold."""

    async def connect(number: int) -> None: ...

    line = Line(connect)
    writer = sender(line, acks=0)
    put(writer, 1)
    writer.step()
    await turns(lambda: len(line.arrived) == 1)
    await asyncio.sleep(0.01)
    (batch,) = writer.lanes[T0].in_flight
    assert not batch.finished()
    line.answers[0].set_result(None)
    await turns(lambda: not writer.lanes[T0].in_flight)
    assert batch.finished()
    assert batch.error is None
