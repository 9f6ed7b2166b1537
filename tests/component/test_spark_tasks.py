"""The code of executors, called here as Spark calls it: no JVM, a broker that does what the test says."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from actors.client import TopicPartition
from actors.client.errors import DataLossError, KafkaError
from actors.client.records import OffsetRange
from actors.coordinator.classic.records import group_key
from actors.coordinator.groups.offset_records import OffsetAndMetadata, offset_key
from actors.records.building import build_batch
from actors.settings.secret import Secret
from actors.wire import messages as m
from spark_bridge import worker
from spark_bridge.groups import ReadOffsets
from spark_bridge.source import RangeTask, Reading
from spark_bridge.write import ColumnError, WriteRows
from tests.support.client_broker import SILENCE
from tests.support.offset_rows import value_bytes

T = 1_700_000_000_000


@pytest.fixture(autouse=True)
def as_a_worker() -> Iterator[None]:
    yield
    worker.close_readers()
    gc.unfreeze()  # this process collects its garbage as ever


def numbers(*values: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"id": pa.array(values, pa.int64())})


def run(task: Any, *batches: Any) -> list[dict[str, Any]]:
    """The rows a task gives, after the way to an executor."""
    return [row for batch in pickle.loads(pickle.dumps(task))(batches) for row in batch.to_pylist()]


def test_a_task_reads_the_ranges_whose_numbers_it_gets(kafka):
    kafka.append("t", 0, b"a", b"b", b"c")
    kafka.append("t", 1, b"d")
    ranges = [OffsetRange("t", 0, 0, 2), OffsetRange("t", 1, 0, 1), OffsetRange("t", 0, 2, 3)]
    task = RangeTask(ranges, Reading(kafka.bootstrap_servers))
    assert [row["value"] for row in run(task, *numbers(1))] == [b"d"]
    assert [row["value"] for row in run(task, *numbers(2, 0))] == [b"c", b"a", b"b"]


def test_one_reader_serves_the_tasks_of_a_worker_until_its_arguments_change(kafka):
    kafka.append("t", 0, b"a")
    ranges = [OffsetRange("t", 0, 0, 1)]
    for _ in range(3):
        run(RangeTask(ranges, Reading(kafka.bootstrap_servers)), *numbers(0))
    once = kafka.connections
    assert len(kafka.requests(m.FetchRequest)) == 3
    run(RangeTask(ranges, Reading(kafka.bootstrap_servers, headers=True)), *numbers(0))
    assert kafka.connections > once
    assert len([t for t in threading.enumerate() if t.name == "kafka-coterie-ranges"]) == 1


@pytest.mark.conformance("XF-08")
def test_two_users_never_share_a_reader(monkeypatch):
    """Their secrets look the same, also within other arguments."""
    made = []

    class Reader:
        def __init__(self, **arguments: Any) -> None:
            self.arguments = arguments
            self.closed = False
            made.append(self)

        def close(self) -> None:
            self.closed = True

    def reader(password: str) -> Reader:
        ssl = {"ciphers": ["a"], "key_password": Secret(password)}
        with worker.reader_for(bootstrap_servers="h:1", client_id="c", ssl=ssl) as found:
            return found

    monkeypatch.setattr(worker, "RangeReader", Reader)
    first = reader("swordfish")
    assert reader("swordfish") is first
    second = reader("Swordfish")
    assert second is not first
    assert second.arguments["ssl"]["key_password"].reveal() == "Swordfish"
    assert (first.closed, second.closed, len(made)) == (True, False, 2)
    assert "wordfish" not in repr(worker.kept_keys()[0])


def test_a_reader_that_failed_is_not_used_again(kafka):
    # It waits for half of this before records that are not there count as lost.
    task = RangeTask([OffsetRange("t", 0, 0, 5)], Reading(kafka.bootstrap_servers, poll_timeout_ms=2_000))
    with pytest.raises(DataLossError):
        run(task, *numbers(0))
    assert worker.kept_keys() == []


def rows(count: int, **columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"VALUE": pa.array([f"v{n}" for n in range(count)]), **columns})


def test_written_rows_are_counted_by_partition(kafka):
    kafka.topic("u", 1)
    topics = pa.array(["t", "u", "t", "t"])
    partitions = pa.array([0, 0, 1, 1], pa.int32())
    task = WriteRows(None, {"bootstrap_servers": kafka.bootstrap_servers})
    found = run(task, rows(4, topic=topics, partition=partitions), rows(0), rows(4, topic=topics, partition=partitions))
    assert {(row["topic"], row["partition"]): row["records"] for row in found} == {
        ("t", 0): 2,
        ("t", 1): 4,
        ("u", 0): 2,
    }
    assert kafka.ends[TopicPartition("t", 1)] == 4


def test_no_rows_need_no_broker():
    assert run(WriteRows("t", {"bootstrap_servers": "127.0.0.1:1"}), rows(0)) == []


def test_the_first_error_is_the_tasks_even_with_batches_under_way(kafka):
    kafka.script(m.ProduceRequest, *[SILENCE] * 5)
    task = WriteRows(None, {"bootstrap_servers": kafka.bootstrap_servers})
    with pytest.raises(ColumnError, match="null topic"):
        run(task, rows(3, topic=pa.array(["t"] * 3)), rows(1, topic=pa.array([None], pa.string())))


def test_rows_that_are_not_delivered_fail_the_task(kafka):
    kafka.script(m.ProduceRequest, *[SILENCE] * 50)
    settings = {"bootstrap_servers": kafka.bootstrap_servers, "delivery_timeout_ms": 300, "request_timeout_ms": 200}
    with pytest.raises(KafkaError):
        run(WriteRows("t", settings), rows(3))


def test_the_history_holds_offsets_and_tombstones_and_nothing_else(kafka):
    kafka.topic("__consumer_offsets", 1)
    plain, noted = OffsetAndMetadata(7, 3, "", T + 1), OffsetAndMetadata(9, -1, "note", T + 2, T + 99)
    records = [
        (group_key("g"), b"\x00\x03 whatever"),
        (offset_key("g", "t", 0), value_bytes(plain)),
        (offset_key("other", "t", 0), value_bytes(plain)),
        (offset_key("g", "t", 1), value_bytes(noted)),
        (offset_key("g", "t", 0), None),
        (offset_key("g", "t", 5), b"\x00\x63"),
        (b"\x00\x63", b""),
        (None, None),
    ]
    kafka.append_batch(
        TopicPartition("__consumer_offsets", 0), build_batch([(key, value, None, T) for key, value in records])
    )
    ranges = [OffsetRange("__consumer_offsets", 0, 0, len(records))]
    found = run(ReadOffsets(ranges, Reading(kafka.bootstrap_servers), frozenset({"g"})), *numbers(0))
    told = [
        (r["topic"], r["partition"], r["offset"], r["leader_epoch"], r["metadata"], r["tombstone"], r["log_offset"])
        for r in found
    ]
    assert told == [
        ("t", 0, 7, 3, "", False, 1),
        ("t", 1, 9, None, "note", False, 3),
        ("t", 0, None, None, None, True, 4),
    ]
    assert [round(r["timestamp"].timestamp() * 1000) - T for r in found] == [1, 2, 0]
    assert found[1]["expire_timestamp"].timestamp() * 1000 == pytest.approx(T + 99)
    everyone = run(ReadOffsets(ranges, Reading(kafka.bootstrap_servers), None), *numbers(0))
    assert [row["group"] for row in everyone] == ["g", "other", "g", "g"]
    assert run(ReadOffsets(ranges, Reading(kafka.bootstrap_servers), frozenset()), *numbers(0)) == []
