"""A Monitor's reads of a real broker and its logs, by way of a real controller's connection to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from actors.coordinator.groups.offset_records import OffsetsPut, StoredOffsets, offset_value
from actors.coordinator.records import encode
from actors.links.operations import Operation, Result
from actors.links.reading import HEADS, LogRead, PartitionRow, ReadHeads, ReadLog, ReadPartitions, unpack_rows
from actors.monitor.looks import Looker, time_of
from actors.monitor.memory import Memory
from actors.records.batch import HEADER_BYTES, read_header
from actors.records.building import build_batch, build_keyed_batch
from actors.wire import messages
from actors.wire.errors import ErrorCode
from placement.metadata import OFFSETS_TOPIC
from tests.support.one_broker import World, create, world
from tests.support.read_records import read_records
from tests.support.runtime_helpers import until

R = TypeVar("R", bound=Result)
NOW_MS = 1_700_000_000_000


class OfWorld:
    """The brokers as the controller knows them (`looks.Brokers`)."""

    def __init__(self, w: World) -> None:
        self._world = w
        self.asked: list[Operation[Result]] = []

    @property
    def alive(self) -> tuple[int, ...]:
        return tuple(broker.id for broker in self._world.metadata.alive())

    @property
    def topic_ids(self) -> Mapping[str, bytes]:
        return {topic.name: topic.id for topic in self._world.metadata.topics.values()}

    def leader_of(self, topic: str, partition: int) -> int | None:
        found = self._world.metadata.partition(topic, partition)
        return None if found is None else found.leader

    async def ask(self, broker_id: int, operation: Operation[R]) -> R | None:
        assert self._world.controller is not None
        self.asked.append(operation)
        try:
            return await self._world.controller.brokers[broker_id].calls.ask(operation, 20.0)
        except (OSError, TimeoutError):
            return None


def append(w: World, topic: str, partition: int, *values: bytes, at_ms: int = NOW_MS) -> None:
    log = w.server.context.log(topic, partition)
    log.append_as_leader(build_batch([(None, value, None, at_ms) for value in values]), 0, at_ms)
    log.advance_high_watermark(log.log_end_offset)


async def with_topic(w: World, name: str, partitions: int) -> None:
    answer = await (await w.client()).ask(*create(name, partitions))
    assert answer.topics[0].error_code == 0


async def rows_of(brokers: OfWorld, limit: int) -> dict[tuple[str, int], PartitionRow]:
    found: dict[tuple[str, int], PartitionRow] = {}
    after: tuple[str, int] | None = ("", -1)
    while after is not None:
        told = await brokers.ask(0, ReadPartitions(after, limit))
        assert told is not None
        rows = [(each.name, row) for each in told.topics for row in unpack_rows(each.rows)]
        assert len(rows) <= limit
        assert not {(name, row.partition) for name, row in rows} & found.keys(), "each once"
        found |= {(name, row.partition): row for name, row in rows}
        after = told.last
    return found


async def test_partitions_come_in_slices_each_once_and_no_log_is_made_for_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await with_topic(w, "orders", 7)
        await with_topic(w, "bills", 3)
        append(w, "orders", 2, b"a", b"b", at_ms=NOW_MS)
        append(w, "orders", 2, b"c", at_ms=NOW_MS + 5)
        brokers = OfWorld(w)
        logs = set(w.server.context.data_dir.logs)
        for limit in (1, 3, 4, 500):
            found = await rows_of(brokers, limit)
            assert len(found) == 10
            log = w.server.context.log("orders", 2)
            assert found["orders", 2] == (2, 0, 3, NOW_MS + 5, log.size_bytes)
            assert found["bills", 0] == (0, 0, 0, -1, 0)
        assert set(w.server.context.data_dir.logs) == logs


async def test_a_log_is_read_and_says_why_it_is_not(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await with_topic(w, "orders", 1)
        append(w, "orders", 0, b"a", b"b")
        log = w.server.context.log("orders", 0)
        log.assign_leader_epoch(3)
        log.append_as_leader(build_batch([(None, b"c", None, NOW_MS)]), 3, NOW_MS)
        brokers = OfWorld(w)

        async def read(offset: int, topic: str = "orders", head: int = 0) -> LogRead:
            found = await brokers.ask(0, ReadLog(topic, 0, offset, 1 << 20, head))
            assert found is not None
            return found

        whole = await read(1)
        assert [record.value for record in read_records(whole.data)] == [b"a", b"b", b"c"], "the batch that holds it"
        assert (whole.log_start, whole.high_watermark, whole.epoch_before) == (0, 3, 0)
        assert (await read(3)).data == b""
        assert len((await read(0, head=61)).data) == 61
        assert (await read(3)).epoch_before == 3
        beyond = await read(9)
        assert (beyond.error_code, beyond.log_start, beyond.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0, 3)
        assert (await read(0, "nothing")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_look_finds_groups_and_their_lag_in_records_and_seconds(tmp_path: Path) -> None:
    settings = {"offsets_topic_replication_factor": "1", "offsets_topic_num_partitions": "4"}
    async with world(tmp_path, coterie_shard_wait_ms="0", **settings) as w:
        assert w.controller is not None
        await with_topic(w, "orders", 2)
        memory = Memory(5_000)
        brokers = OfWorld(w)
        looker = Looker(brokers, memory)
        for number in range(20):
            append(w, "orders", 0, b"x", at_ms=NOW_MS + number * 1_000)
        await looker.look(NOW_MS + 20_000)
        assert memory.lags == {}
        await with_offsets_topic(w)
        commit(w, 3, "billing", 7)
        await looker.look(NOW_MS + 25_000)
        lag = memory.lags["billing"]
        assert lag.by_partition["orders", 0] == (13, 18.0), "its batch was looked at"
        assert (lag.records, lag.seconds, lag.committed) == (13, 18.0, 7)
        append(w, "orders", 0, b"x", at_ms=NOW_MS + 27_000)
        commit(w, 3, "billing", 21)
        await looker.look(NOW_MS + 30_000)
        assert memory.lags["billing"].by_partition["orders", 0] == (0, 0.0)
        assert memory.messages_per_s == 0.2
        assert memory.commits_per_s == 0.2
        reads = [each for each in brokers.asked if not isinstance(each, ReadPartitions)]
        await looker.look(NOW_MS + 35_000)
        assert [each for each in brokers.asked if not isinstance(each, ReadPartitions)] == reads, "nothing was new"


async def test_headers_of_batches_are_read_many_at_a_time_and_what_cannot_be_had_is_empty(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await with_topic(w, "orders", 2)
        append(w, "orders", 0, b"a", b"b", at_ms=NOW_MS)
        append(w, "orders", 0, b"c", at_ms=NOW_MS + 5)
        brokers = OfWorld(w)

        async def heads(*places: tuple[str, int, int]) -> tuple[bytes, ...]:
            found = await brokers.ask(0, ReadHeads(places))
            assert found is not None
            return found.heads

        first, same, second = await heads(("orders", 0, 0), ("orders", 0, 1), ("orders", 0, 2))
        assert first == same
        assert {len(first), len(second)} == {HEADER_BYTES}
        assert (read_header(first).base_offset, read_header(first).max_timestamp) == (0, NOW_MS)
        assert (read_header(second).base_offset, read_header(second).max_timestamp) == (2, NOW_MS + 5)
        nothing = [("orders", 0, 3), ("orders", 0, 99), ("orders", 1, 0), ("orders", 7, 0), ("nothing", 0, 0)]
        assert await heads(*nothing) == (b"",) * 5
        assert len(await heads(*[("orders", 0, 0)] * (HEADS + 1))) == HEADS


async def test_a_monitor_that_comes_late_knows_all_lags_in_seconds_at_its_first_look(tmp_path: Path) -> None:
    """It waited for them in vain: 32 records were looked at in each look, one question for each."""
    settings = {"offsets_topic_replication_factor": "1", "offsets_topic_num_partitions": "4"}
    partitions = 2 * HEADS + 10
    async with world(tmp_path, coterie_shard_wait_ms="0", **settings) as w:
        await with_topic(w, "orders", partitions)
        for number in range(partitions):
            append(w, "orders", number, b"x", at_ms=NOW_MS + number)
        await with_offsets_topic(w)
        commit(w, 3, "billing", 0, partitions=partitions)
        memory = Memory(5_000)
        brokers = OfWorld(w)
        await Looker(brokers, memory).look(NOW_MS + 20_000)
        lags = memory.lags["billing"].by_partition
        assert lags == {("orders", number): (1, (20_000 - number) / 1000) for number in range(partitions)}
        assert len([each for each in brokers.asked if isinstance(each, ReadHeads)]) == 3


async def test_in_a_batch_that_lasts_longer_than_an_interval_the_record_itself_is_looked_at(tmp_path: Path) -> None:
    settings = {"offsets_topic_replication_factor": "1", "offsets_topic_num_partitions": "4"}
    async with world(tmp_path, coterie_shard_wait_ms="0", **settings) as w:
        await with_topic(w, "orders", 1)
        log = w.server.context.log("orders", 0)
        ages_ms = (60_000, 59_000, 1_000)
        log.append_as_leader(build_batch([(None, b"x", None, NOW_MS - age) for age in ages_ms]), 0, NOW_MS)
        log.advance_high_watermark(log.log_end_offset)
        await with_offsets_topic(w)
        commit(w, 3, "billing", 1)
        memory = Memory(5_000)
        await Looker(OfWorld(w), memory).look(NOW_MS)
        assert memory.lags["billing"].by_partition["orders", 0] == (2, 59.0)


async def with_offsets_topic(w: World) -> None:
    await (await w.client()).ask(messages.FindCoordinatorRequest(key="anybody", key_type=0), 1)
    await until(lambda: OFFSETS_TOPIC in w.server.context.metadata.topics)


def commit(w: World, partition: int, group: str, offset: int, *, partitions: int = 1) -> None:
    value = offset_value(offset.to_bytes(8, "big") + b"\0\0\0\0", b"", NOW_MS)
    stored = StoredOffsets("orders", list(range(partitions)), [value] * partitions)
    records = encode([OffsetsPut(group, [stored])])
    log = w.server.context.log(OFFSETS_TOPIC, partition)
    batch = build_keyed_batch([each.key for each in records], [each.value for each in records], NOW_MS)
    log.append_as_leader(batch, 0, NOW_MS, internal=True)
    log.advance_high_watermark(log.log_end_offset)


async def test_the_time_of_a_record_in_a_batch_that_was_cut_is_told_from_its_header() -> None:
    batch = build_batch([(None, b"x" * 100, None, NOW_MS + number * 10) for number in range(11)], base_offset=50)
    assert [time_of(batch, offset) for offset in (40, 50, 57, 60)] == [NOW_MS, NOW_MS, NOW_MS + 70, NOW_MS + 100]
    assert time_of(batch[:200], 57) == NOW_MS + 70
    assert time_of(batch[:40], 57) is None
    assert time_of(batch, 61) is None
    assert time_of(b"", 61) is None
