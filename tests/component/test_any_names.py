"""A record without a time, with a header whose name is not UTF-8, on each way through the product, by a real broker.

It comes out equal wherever a name may be bytes. In the columns of Arrow and Spark names are text, as in Spark's own
source: there each byte that is no text is U+FFFD.
"""

from __future__ import annotations

import asyncio
import gc
import io
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.cli import consume, produce
from actors.cli.lines import from_json, to_json, to_text
from actors.client import Admin, Consumer, ConsumerRecord, Producer, TopicPartition
from actors.client.admin.types import NewTopic
from actors.client.consumer.range_columns import TimeUnit
from actors.client.consumer.ranges import RangeReader
from actors.client.records import OffsetRange
from actors.console.brokers import BrokerDesk
from actors.console.kafka import KafkaSource
from actors.console.pages import records as records_page
from actors.console.pages.page import Asked
from actors.members.pools.handling.context import context_of
from actors.members.pools.handling.output import Writer
from actors.members.pools.handling.spec import MemberSpec
from actors.members.pools.handling.work import Work, by_partition
from actors.members.ranges.ray_datasource import SCHEMA, as_read_kafka
from actors.records.compression import CODEC_IDS
from actors.runtime.environment import REAL
from spark_bridge import worker
from spark_bridge.source import RangeTask, Reading
from spark_bridge.write import WriteRows
from tests.support.one_broker import world

NAME = b"\xff\xfe"
AS_TEXT = "\ufffd\ufffd"
HEADERS: list[tuple[str | bytes, bytes | None]] = [(NAME, b"\x80"), ("text", None), ("é", b"")]
HEADERS_AS_TEXT = [(AS_TEXT, b"\x80"), ("text", None), ("é", b"")]
FROM, TO = TopicPartition("from", 0), TopicPartition("to", 0)


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[str]:
    async with world(path) as broker:
        yield f"127.0.0.1:{broker.server.socket_server.ports['PLAINTEXT']}"


async def walked(path: Path, walk: Callable[[str], Any]) -> Any:
    """Call `walk` with the address of a broker that has two topics, and records in one of them."""
    async with served(path) as servers:
        return await asyncio.to_thread(_filled, servers, walk)


def _filled(servers: str, walk: Callable[[str], Any]) -> Any:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("from", 1), NewTopic("to", 1)])
    with Producer(bootstrap_servers=servers) as producer:
        sent = producer.send("from", b"v", key=b"k", headers=HEADERS, timestamp_ms=-1)
        assert sent.get(60).timestamp == -1
        producer.send("from", b"next", partition=0, timestamp_ms=1_700_000_000_000).get(60)
    return walk(servers)


def consumer(servers: str, tp: TopicPartition) -> Consumer:
    made = Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", enable_auto_commit=False)
    made.assign([tp])
    return made


def first(servers: str, tp: TopicPartition) -> ConsumerRecord:
    with consumer(servers, tp) as reader:
        return reader.poll(60_000)[tp][0]


def columns(servers: str, tp: TopicPartition) -> pa.RecordBatch:
    with consumer(servers, tp) as reader:
        return reader.poll_arrow(60_000, headers=True)


def told(record: ConsumerRecord) -> tuple[Any, ...]:
    return record.key, record.value, record.headers, record.timestamp


WHOLE = (b"k", b"v", HEADERS, -1)


# --- our clients ----------------------------------------------------------------------------------------------------


async def test_it_is_polled_and_iterated(tmp_path: Path) -> None:
    def walk(servers: str) -> list[Any]:
        with consumer(servers, FROM) as reader:
            iterated = next(reader)
        return [told(first(servers, FROM)), told(iterated)]

    assert await walked(tmp_path, walk) == [WHOLE, WHOLE]


@pytest.mark.parametrize("codec", CODEC_IDS)
async def test_it_is_sent_first_and_between_others_with_each_codec(tmp_path: Path, codec: str) -> None:
    def walk(servers: str) -> list[Any]:
        with Producer(bootstrap_servers=servers, compression_type=codec, linger_ms=60_000) as producer:
            for headers, at in ((HEADERS, -1), ([("h", b"")], 5), ([], -1), (HEADERS, 7)):
                producer.send("to", b"v", key=b"k", headers=headers, timestamp_ms=at)
        with consumer(servers, TO) as reader:
            return [(r.headers, r.timestamp) for r in reader.poll(60_000)[TO]]

    assert await walked(tmp_path, walk) == [(HEADERS, -1), ([("h", b"")], 5), ([], -1), (HEADERS, 7)]


async def test_it_is_sent_from_columns(tmp_path: Path) -> None:
    pair = pa.struct([("key", pa.binary()), ("value", pa.binary())])
    names = [(name.encode() if isinstance(name, str) else name, value) for name, value in HEADERS]

    def walk(servers: str) -> Any:
        rows = pa.RecordBatch.from_pydict(
            {
                "key": pa.array([b"k", b"k"]),
                "value": pa.array([b"v", b"next"]),
                "headers": pa.array([names, []], pa.list_(pair)),
                "timestamp": pa.array([-1, 1_700_000_000_000], pa.int64()),
            }
        )
        with Producer(bootstrap_servers=servers) as producer:
            producer.send_arrow("to", rows)
        return told(first(servers, TO))

    assert await walked(tmp_path, walk) == WHOLE


async def test_in_columns_its_name_is_text(tmp_path: Path) -> None:
    """Such a name ended `poll_arrow` with an error of Arrow's."""
    batch = await walked(tmp_path, lambda servers: columns(servers, FROM))
    assert [(each["key"], each["value"]) for each in batch.column("headers")[0].as_py()] == HEADERS_AS_TEXT
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [-1, 1_700_000_000_000]


# --- pools ----------------------------------------------------------------------------------------------------------


def writer(servers: str) -> Writer:
    return Writer(MemberSpec(("from",), "g", servers, dead_letter_topic="to"), Producer)


async def test_it_becomes_a_dead_letter(tmp_path: Path) -> None:
    def walk(servers: str) -> ConsumerRecord:
        lettering = writer(servers)
        lettering.dead_letter(Work.of(FROM, [first(servers, FROM)]), ValueError("bad"))
        lettering.close()
        return first(servers, TO)

    letter = await walked(tmp_path, walk)
    assert (letter.key, letter.value, letter.headers[:3]) == (b"k", b"v", HEADERS)


@pytest.mark.parametrize("at", [-1, -(2**63), 2**62])
async def test_it_becomes_a_dead_letter_of_a_handler_of_columns(tmp_path: Path, at: int) -> None:
    """It does so with any time: one that Python's datetime does not have ended the member."""

    def walk(servers: str) -> ConsumerRecord:
        batch = columns(servers, FROM)
        times = pa.array([at] * len(batch), pa.int64()).cast(batch.column("timestamp").type)
        batch = batch.set_column(batch.schema.get_field_index("timestamp"), "timestamp", times)
        ((tp, part),) = by_partition(batch)
        lettering = writer(servers)
        lettering.dead_letter(Work.of(tp, part).taken_apart()[0], ValueError("bad"))
        lettering.close()
        return first(servers, TO)

    letter = await walked(tmp_path, walk)
    assert (letter.key, letter.value, letter.headers[:3]) == (b"k", b"v", HEADERS_AS_TEXT)


async def test_a_handler_writes_it_again(tmp_path: Path) -> None:
    def walk(servers: str) -> Any:
        record = first(servers, FROM)
        context = context_of(Work.of(FROM, [record]), 1, threading.Event(), of_batch=False)
        assert (context.headers, context.timestamp) == (HEADERS, -1)
        context.produce("to", record.value, key=record.key, headers=context.headers, timestamp_ms=context.timestamp)
        writing = writer(servers)
        writing.send(context.close())
        writing.close()
        return told(first(servers, TO))

    assert await walked(tmp_path, walk) == WHOLE


# --- ranges, Ray Data, Spark ----------------------------------------------------------------------------------------

RANGE = OffsetRange("from", 0, 0, 2)


def in_range(servers: str, unit: TimeUnit = "us") -> pa.RecordBatch:
    with RangeReader(servers, headers=True, time_unit=unit) as reader:
        (batch,) = reader.read([RANGE])
        return batch


async def test_in_a_range_and_in_ray_data_its_name_is_text(tmp_path: Path) -> None:
    batch, in_ms = await walked(tmp_path, lambda servers: (in_range(servers), in_range(servers, "ms")))
    assert [(each["key"], each["value"]) for each in batch.column("headers")[0].as_py()] == HEADERS_AS_TEXT
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [-1_000, 1_700_000_000_000_000]
    table = as_read_kafka(in_ms)
    assert table.schema == SCHEMA
    assert table.column("headers")[0].as_py() == HEADERS_AS_TEXT
    assert table.column("timestamp").to_pylist() == [-1, 1_700_000_000_000]


async def test_spark_reads_it_with_text_for_a_name_and_writes_that(tmp_path: Path) -> None:
    def walk(servers: str) -> Any:
        try:
            numbers = pa.RecordBatch.from_pydict({"id": pa.array([0], pa.int64())})
            (batch,) = RangeTask([RANGE], Reading(servers, headers=True))(iter([numbers]))
        finally:
            worker.close_readers()
            gc.unfreeze()  # this process collects its garbage as ever
        rows = batch.select(["key", "value", "headers"]).slice(0, 1)
        (written,) = WriteRows("to", {"bootstrap_servers": servers})(iter([rows]))
        assert written.num_rows == 1
        return told(first(servers, TO))[:3]

    assert await walked(tmp_path, walk) == (b"k", b"v", HEADERS_AS_TEXT)


# --- the command and the console ------------------------------------------------------------------------------------


def lines(servers: str, line: Callable[[ConsumerRecord], bytes]) -> bytes:
    out = io.BytesIO()
    with consumer(servers, FROM) as reader:
        consume.copy(reader, out, line, time.monotonic, commits=False, limit=1, silence_ms=None)
    return out.getvalue()


async def test_produce_reads_what_consume_wrote_of_it(tmp_path: Path) -> None:
    def walk(servers: str) -> Any:
        shown = lines(servers, to_json).splitlines(keepends=True)
        with Producer(bootstrap_servers=servers) as producer:
            produce.send_all(producer, "to", shown, lambda line: from_json(line, []), None, lambda: None)
        return told(first(servers, TO))

    assert await walked(tmp_path, walk) == WHOLE


async def test_consume_writes_its_name_as_it_is(tmp_path: Path) -> None:
    shown = await walked(tmp_path, lambda servers: lines(servers, lambda r: to_text(r, None, headers=True)))
    assert shown == NAME + b":\x80,text:null," + "é:".encode() + b"\tv\n"


async def test_the_console_shows_the_bytes_of_its_name(tmp_path: Path) -> None:
    def walk(servers: str) -> BrokerDesk:
        return BrokerDesk({"bootstrap_servers": servers}, REAL.clock)

    async with served(tmp_path) as servers:
        desk = await asyncio.to_thread(_filled, servers, walk)
        try:
            asked = Asked(KafkaSource(desk.admin, REAL.clock), desk, "/records", {"name": "from", "partition": "0"})
            page = await records_page.page(asked)
            shown = str(next(each.html for each in page.regions if each.name == "list"))
            assert "<dt>ff fe</dt>" in shown
            assert "1969" not in shown, "it has no time"
            assert [told(each) for each in (await desk.records(FROM, 0, 1)).records] == [WHOLE]
        finally:
            await desk.close()
