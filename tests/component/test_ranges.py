"""`RangeReader` against a broker that does what the test says: exactly the range, and what is missing is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from actors.client import TopicPartition
from actors.client.consumer import ranges as module
from actors.client.consumer.range_columns import range_schema
from actors.client.consumer.ranges import RangeReader
from actors.client.errors import ClosedError, ConfigurationError, CorruptMessageError, DataLossError, KafkaTimeoutError
from actors.client.records import OffsetRange
from actors.records.batch import read_header, without_records
from actors.records.building import build_batch, build_sparse_batch
from actors.wire import messages as m
from tests.support.client_broker import DROP, ScriptedBroker

T0 = TopicPartition("t", 0)


def reader(kafka: ScriptedBroker, settle_ms: int = 200, **settings: Any) -> RangeReader:
    return RangeReader(kafka.bootstrap_servers, retry_backoff_ms=10, settle_ms=settle_ms, **settings)


def offsets(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def filled(kafka: ScriptedBroker, count: int = 100, per_batch: int = 10) -> None:
    for start in range(0, count, per_batch):
        kafka.append("t", 0, *(b"v%d" % n for n in range(start, start + per_batch)))


@pytest.mark.parametrize(("start", "end"), [(0, 100), (3, 97), (10, 20), (15, 16), (99, 100), (0, 1), (7, 7)])
def test_exactly_the_range_is_read(kafka, start, end):
    filled(kafka)
    with reader(kafka) as some:
        assert offsets(some.read([OffsetRange("t", 0, start, end)])) == list(range(start, end))


def test_columns_are_those_of_sparks_kafka_source(kafka):
    kafka.append("t", 1, b"v", None, key=b"k", headers=[("h", b"1")])
    with reader(kafka, headers=True) as some:
        (batch,) = some.read([OffsetRange("t", 1, 0, 2)])
    assert batch.schema == range_schema(headers=True)
    assert batch.schema.names == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    ]
    first, second = batch.to_pylist()
    assert (first["key"], first["value"], first["topic"], first["partition"]) == (b"k", b"v", "t", 1)
    assert first["timestamp"].timestamp() == 1_700_000_000
    assert first["headers"] == [{"key": "h", "value": b"1"}]
    assert second["value"] is None


def test_several_ranges_come_one_after_the_other(kafka):
    filled(kafka)
    kafka.append("t", 1, b"a", b"b")
    wanted = [OffsetRange("t", 1, 0, 2), OffsetRange("t", 0, 20, 20), OffsetRange("t", 0, 5, 8)]
    with reader(kafka) as some:
        assert offsets(some.read(wanted)) == [0, 1, 5, 6, 7]
        assert offsets(some.read(wanted)) == [0, 1, 5, 6, 7]


def test_many_small_fetches_give_the_same(kafka):
    filled(kafka, 1000, 7)
    with reader(kafka, max_partition_fetch_bytes=200) as some:
        assert offsets(some.read([OffsetRange("t", 0, 5, 999)])) == list(range(5, 999))
    assert len(kafka.requests(m.FetchRequest)) > 20


def test_no_arrow_batch_is_larger_than_asked_whatever_the_batches_are(kafka, monkeypatch):
    monkeypatch.setattr(module, "BATCH_ROWS", 100)
    for size in (250, 60, 60, 1, 99, 1):
        kafka.append("t", 0, *[b"v"] * size)
    with reader(kafka) as some:
        batches = list(some.read([OffsetRange("t", 0, 10, 471)]))
    assert [batch.num_rows for batch in batches] == [100, 100, 40, 60, 61, 100]
    assert offsets(iter(batches)) == list(range(10, 471))


def test_gaps_of_compaction_are_passed(kafka):
    records = [(delta, b"k", b"v", None, 5) for delta in (2, 5, 9)]
    kafka.append_batch(T0, build_sparse_batch(records, base_offset=0, last_offset_delta=19))
    kafka.append("t", 0, b"after")
    with reader(kafka) as some:
        assert offsets(some.read([OffsetRange("t", 0, 3, 12)])) == [5, 9]
        assert offsets(some.read([OffsetRange("t", 0, 10, 20)])) == []


def test_batches_that_compaction_has_emptied_are_passed(kafka):
    empty = without_records(read_header(build_batch([(b"k", b"v", None, 5)], producer_id=1, base_sequence=0)))
    for batch in (empty, build_batch([(b"k", b"v", None, 5)]), empty):
        kafka.append_batch(T0, batch)
    with reader(kafka) as some:
        assert offsets(some.read([OffsetRange("t", 0, 0, 3)])) == [1]
        assert offsets(some.read([OffsetRange("t", 0, 2, 3)])) == []


def test_a_range_whose_end_is_a_gap_ends(kafka):
    """Compaction may leave nothing before the log's end, so that no fetch ever says how far it is."""
    filled(kafka, 10)
    kafka.ends[T0] = 30
    with reader(kafka) as some:
        assert offsets(some.read([OffsetRange("t", 0, 5, 30)])) == [5, 6, 7, 8, 9]


def test_remote_storage_that_takes_its_time_is_waited_for(kafka):
    """A tiered broker whose storage is slow answers with nothing and expects to be asked again (KIP-1018)."""
    filled(kafka)
    kafka.script(m.FetchRequest, *[lambda request: answer(0, high_watermark=100)] * 4)
    with reader(kafka, settle_ms=10_000) as some:
        assert offsets(some.read([OffsetRange("t", 0, 3, 9)])) == list(range(3, 9))
    waits = [request.max_wait_ms for request in kafka.requests(m.FetchRequest)]
    assert waits[:5] == [100, 10_000, 10_000, 10_000, 10_000], "once it has answered so, it is given more time"


def test_control_batches_and_aborted_records_are_left_out(kafka):
    kafka.append("t", 0, b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    kafka.append_batch(
        T0,
        build_sparse_batch(
            [(0, b"\0\0\0\0", b"", None, 5)], base_offset=0, producer_id=7, is_transactional=True, is_control=True
        ),
    )
    kafka.append("t", 0, b"b")
    kafka.aborted[T0] = [(7, 0)]
    with reader(kafka, isolation_level="read_committed") as some:
        assert offsets(some.read([OffsetRange("t", 0, 0, 3)])) == [2]
    with reader(kafka) as some:
        assert offsets(some.read([OffsetRange("t", 0, 0, 3)])) == [0, 2]


@pytest.mark.parametrize(
    ("start", "end", "there"), [(0, 30, range(20, 30)), (5, 15, []), (90, 120, range(90, 100)), (200, 210, [])]
)
def test_a_range_that_is_not_in_the_log_is_an_error_or_read_as_far_as_it_goes(kafka, start, end, there):
    filled(kafka)
    kafka.starts[T0] = 20
    wanted = [OffsetRange("t", 0, start, end)]
    with reader(kafka) as some, pytest.raises(DataLossError) as failed:
        offsets(some.read(wanted))
    assert "t-0: " in str(failed.value)
    assert f"to {end} are wanted" in str(failed.value)
    assert "the log has 20 to 100" in str(failed.value)
    assert "failOnDataLoss=false" in str(failed.value)
    with reader(kafka, fail_on_data_loss=False) as some:
        assert offsets(some.read(wanted)) == list(there)


def test_records_that_appear_while_the_end_settles_are_read(kafka):
    filled(kafka, 10)
    with reader(kafka, settle_ms=10_000) as some:
        batches = some.read([OffsetRange("t", 0, 0, 20)])
        assert offsets(iter([next(batches)])) == list(range(10))
        kafka.append("t", 0, *[b"late"] * 10)
        assert offsets(batches) == list(range(10, 20))


@pytest.mark.parametrize(("topic", "partition"), [("t", 9), ("gone", 0)])
def test_a_topic_or_partition_that_is_gone_is_an_error_or_nothing(kafka, topic, partition):
    wanted = [OffsetRange(topic, partition, 0, 5)]
    with reader(kafka) as some, pytest.raises(DataLossError, match=f"{topic}-{partition}.*no such partition"):
        offsets(some.read(wanted))
    with reader(kafka, fail_on_data_loss=False) as some:
        assert offsets(some.read(wanted)) == []
    assert all(not request.allow_auto_topic_creation for request in kafka.requests(m.MetadataRequest))


def test_a_partition_the_broker_does_not_know_any_more_is_lost_in_the_end(kafka):
    filled(kafka)
    kafka.script(m.FetchRequest, *[lambda request: answer(3)] * 1000)
    with reader(kafka, poll_timeout_ms=5_000) as some, pytest.raises(DataLossError, match="no such partition"):
        offsets(some.read([OffsetRange("t", 0, 3, 9)]))


def test_a_timeout_while_an_end_settles_says_what_is_missing(kafka):
    filled(kafka, 10)
    with reader(kafka, settle_ms=10_000, poll_timeout_ms=3_000) as some:
        with pytest.raises(DataLossError, match="the log has 0 to 10"):
            offsets(some.read([OffsetRange("t", 0, 10, 20)]))


def test_nothing_for_the_timeout_names_the_setting(kafka):
    filled(kafka)
    code = lambda request: answer(6)  # noqa: E731
    kafka.script(m.FetchRequest, *[code] * 1000)
    with reader(kafka, poll_timeout_ms=3_000) as some, pytest.raises(KafkaTimeoutError) as failed:
        offsets(some.read([OffsetRange("t", 0, 3, 9)]))
    for words in ("t-0", "offset 3", "poll_timeout_ms=3000", "kafkaConsumer.pollTimeoutMs", "NOT_LEADER_OR_FOLLOWER"):
        assert words in str(failed.value)


def test_a_leader_that_goes_and_comes_back_costs_nothing(kafka):
    filled(kafka, 1000, 7)
    kafka.script(m.FetchRequest, None, DROP, lambda request: answer(6), None, DROP, lambda request: answer(5))
    with reader(kafka, max_partition_fetch_bytes=500) as some:
        batches = some.read([OffsetRange("t", 0, 0, 994)])
        found = offsets(iter([next(batches)]))
        kafka.drop_connections()
        assert found + offsets(batches) == list(range(994))


def test_no_broker_is_told_after_the_timeout(kafka):
    kafka.close()
    with (
        reader(kafka, poll_timeout_ms=200) as some,
        pytest.raises(KafkaTimeoutError, match="kafkaConsumer"),
    ):
        offsets(some.read([OffsetRange("t", 0, 0, 1)]))


def test_a_wrong_checksum_is_an_error(kafka):
    filled(kafka, 10)
    kafka.logs[T0][-3] ^= 1
    with reader(kafka) as some, pytest.raises(CorruptMessageError, match="checksum"):
        offsets(some.read([OffsetRange("t", 0, 0, 5)]))


@pytest.mark.parametrize("setting", [{"group_id": "g"}, {"auto_offset_reset": "earliest"}, {"poll_timeout_ms": 0}])
def test_settings_that_mean_nothing_here_are_refused(kafka, setting):
    with pytest.raises(ConfigurationError, match=next(iter(setting))):
        reader(kafka, **setting)


def test_a_closed_reader_says_so_and_its_thread_is_gone(kafka):
    filled(kafka)
    some = reader(kafka)
    assert offsets(some.read([OffsetRange("t", 0, 0, 1)])) == [0]
    some.close()
    with pytest.raises(ClosedError):
        offsets(some.read([OffsetRange("t", 0, 0, 1)]))
    assert not [t for t in threading.enumerate() if t.name == "kafka-coterie-ranges" and t.is_alive()]


def test_a_reader_may_be_left_in_the_middle(kafka):
    filled(kafka, 1000)
    with reader(kafka, max_partition_fetch_bytes=200) as some:
        for _ in range(3):
            batches = some.read([OffsetRange("t", 0, 0, 1000)])
            next(batches)
            batches.close()
        assert offsets(some.read([OffsetRange("t", 0, 990, 1000)])) == list(range(990, 1000))


def answer(code: int, high_watermark: int = -1) -> m.FetchResponse:
    part = m.FetchResponse
    data = part.PartitionData(
        partition_index=0, error_code=code, high_watermark=high_watermark, preferred_read_replica=-1
    )
    return part(responses=[part.FetchableTopicResponse(topic="t", partitions=[data])])
