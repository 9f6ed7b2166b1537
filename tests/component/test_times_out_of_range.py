"""Records with times that microseconds or Python's datetime do not have, on each way out of a real broker.

Each shows the time as it is, or is an error that says which record has it. Spark showed the year -216284.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.cli.lines import to_json
from actors.client import Admin, Consumer, ConsumerRecord, Producer, TopicPartition
from actors.client.admin.types import NewTopic
from actors.client.consumer.ranges import RangeReader
from actors.client.errors import SerializationError, TimestampRangeError
from actors.client.records import OffsetRange
from actors.console.brokers import BrokerDesk
from actors.console.kafka import KafkaSource
from actors.console.pages import records as records_page
from actors.console.pages.page import Asked
from actors.coordinator.groups.offset_records import OffsetAndMetadata, offset_key
from actors.members.ranges.ray_datasource import as_read_kafka
from actors.runtime.environment import REAL
from spark_bridge.groups import offset_rows
from spark_bridge.source import RangeTask, Reading
from tests.support.offset_rows import value_bytes
from tests.support.one_broker import world

HERE = TopicPartition("t", 0)
NOW = 1_700_000_000_000
MOST = (2**63 - 1) // 1000
FAR = [1_764_000_000_000_000_000, MOST + 1, -MOST - 1, 2**63 - 1, -(2**62)]
"""The first is in nanoseconds: a common mistake."""
NEAR = [-1, 0, NOW, NOW * 1000, MOST, -MOST]
"""Times that fit into microseconds, though some of them not into Python's datetime."""
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
WHERE = "t-0 at offset 1: the time {} is no number of milliseconds"


@asynccontextmanager
async def served(path: Path, times: list[int]) -> AsyncIterator[str]:
    """The address of a broker that has records with these times."""

    def fill(servers: str) -> None:
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("t", 1, topic_configs=ANY_TIME)])
        with Producer(bootstrap_servers=servers) as producer:
            for at in times:
                producer.send("t", b"v", timestamp_ms=at).get(60)

    async with world(path) as broker:
        servers = f"127.0.0.1:{broker.server.socket_server.ports['PLAINTEXT']}"
        await asyncio.to_thread(fill, servers)
        yield servers


async def walked(path: Path, times: list[int], walk: Callable[[str], Any]) -> Any:
    """Call `walk` with the address of such a broker."""
    async with served(path, times) as servers:
        return await asyncio.to_thread(walk, servers)


def in_range(servers: str, begin: int, until: int, **settings: Any) -> list[int]:
    with RangeReader(servers, **settings) as reader:
        batches = list(reader.read([OffsetRange("t", 0, begin, until)]))
    return [at for batch in batches for at in batch.column("timestamp").cast(pa.int64()).to_pylist()]


def polled(servers: str, poll: Callable[[Consumer], Any]) -> Any:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", enable_auto_commit=False) as reader:
        reader.assign([HERE])
        return poll(reader)


@pytest.mark.parametrize("at", FAR)
async def test_a_range_in_microseconds_names_the_record(tmp_path: Path, at: int) -> None:
    def walk(servers: str) -> list[int]:
        with pytest.raises(TimestampRangeError, match=WHERE.format(at)):
            in_range(servers, 0, 3)
        return in_range(servers, 0, 1) + in_range(servers, 2, 3)

    assert await walked(tmp_path, [NOW, at, NOW], walk) == [NOW * 1000, NOW * 1000], "the others can be read"


@pytest.mark.parametrize("at", FAR)
async def test_a_task_of_spark_names_the_record(tmp_path: Path, at: int) -> None:
    def walk(servers: str) -> None:
        numbers = pa.RecordBatch.from_pydict({"id": pa.array([0], pa.int64())})
        with pytest.raises(TimestampRangeError, match=WHERE.format(at)):
            list(RangeTask([OffsetRange("t", 0, 0, 2)], Reading(servers, headers=True))(iter([numbers])))
        gc.unfreeze()  # this process collects its garbage as ever

    await walked(tmp_path, [NOW, at], walk)


async def test_what_microseconds_have_is_read_in_a_range(tmp_path: Path) -> None:
    found = await walked(tmp_path, NEAR, lambda servers: in_range(servers, 0, len(NEAR)))
    assert found == [at * 1000 for at in NEAR]


async def test_plain_numbers_have_every_time(tmp_path: Path) -> None:
    times = [*FAR, *NEAR]

    def walk(servers: str) -> list[list[int]]:
        with RangeReader(servers, headers=True, time_unit="ms") as reader:
            tables = [as_read_kafka(batch) for batch in reader.read([OffsetRange("t", 0, 0, len(times))])]
        records = polled(servers, lambda reader: reader.poll(60_000)[HERE])
        columns = polled(servers, lambda reader: reader.poll_arrow(60_000))
        return [
            [at for table in tables for at in table.column("timestamp").to_pylist()],
            [record.timestamp for record in records],
            columns.column("timestamp").cast(pa.int64()).to_pylist(),
        ]

    for found in await walked(tmp_path, times, walk):
        assert found == times[: len(found)]
        assert found


@pytest.mark.parametrize("at", [*FAR, NOW * 1000])
async def test_the_command_and_the_console_show_the_number(tmp_path: Path, at: int) -> None:
    def walk(servers: str) -> tuple[ConsumerRecord, BrokerDesk]:
        record = polled(servers, lambda reader: reader.poll(60_000)[HERE][0])
        return record, BrokerDesk({"bootstrap_servers": servers}, REAL.clock)

    async with served(tmp_path, [at]) as servers:
        record, desk = await asyncio.to_thread(walk, servers)
        try:
            assert str(at).encode() in to_json(record)
            page = await records_page.page(
                Asked(KafkaSource(desk.admin, REAL.clock), desk, "/records", {"name": "t", "partition": "0"})
            )
            shown = str(next(each.html for each in page.regions if each.name == "list"))
            assert f"{at} ms" in shown or at < 0
        finally:
            await desk.close()


@pytest.mark.parametrize("at", FAR)
def test_a_commit_with_such_a_time_is_named_by_the_history(at: int) -> None:
    def row(offset: int, commit_ms: int) -> dict[str, Any]:
        key, value = offset_key("g", "t", 0), value_bytes(OffsetAndMetadata(7, 3, "", commit_ms))
        return {"partition": 4, "offset": offset, "timestamp": NOW * 1000, "key": key, "value": value}

    kinds = {"partition": pa.int32(), "offset": pa.int64(), "timestamp": pa.timestamp("us", "UTC")}
    schema = pa.schema([*kinds.items(), ("key", pa.binary()), ("value", pa.binary())])
    batch = pa.RecordBatch.from_pylist([row(11, NOW), row(12, at)], schema=schema)
    with pytest.raises(TimestampRangeError, match=f"__consumer_offsets-4 at offset 12: the time {at} is no"):
        offset_rows(batch, None)
    fine = offset_rows(pa.RecordBatch.from_pylist([row(11, NOW)], schema=schema), None)
    assert fine.column("timestamp").cast(pa.int64()).to_pylist() == [NOW * 1000]


@pytest.mark.parametrize("seconds", [2**62, -(2**62), MOST + 1])
async def test_seconds_that_milliseconds_do_not_have_are_not_written_as_another_time(
    tmp_path: Path, seconds: int
) -> None:
    def walk(servers: str) -> None:
        times = pa.array([NOW // 1000, seconds], pa.int64()).cast(pa.timestamp("s"))
        rows = pa.RecordBatch.from_pydict({"value": pa.array([b"a", b"b"]), "timestamp": times})
        with Producer(bootstrap_servers=servers) as producer:
            with pytest.raises(SerializationError, match=f"the time of row 1, {seconds} s"):
                producer.send_arrow("t", rows)
            producer.send_arrow("t", rows.slice(0, 1))[0].get(60)

    await walked(tmp_path, [], walk)
