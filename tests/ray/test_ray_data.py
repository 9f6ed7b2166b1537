"""Bounded Ray Data jobs as members of a group: each goes on where the last one ended, and commits on success only."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ray.data import Dataset

from actors.client import Admin, Consumer, Producer, TopicPartition
from actors.client.errors import ConfigurationError, UnknownTopicOrPartitionError
from actors.client.records import OffsetRange
from actors.cluster import Cluster
from actors.members.ranges import ray_datasource
from actors.members.ranges.ray_data import GroupRead, read_group
from actors.members.ranges.ray_datasource import SCHEMA, read_range
from tests.ray.support import await_topic, consumer, produce, topic, wait_until

PARTITIONS = 3


def job(cluster: Cluster, name: str, **more: Any) -> GroupRead:
    return read_group(name, f"g-{name}", bootstrap_servers=cluster.bootstrap_servers, **more)


def fill(cluster: Cluster, name: str, first: int, until: int) -> list[bytes]:
    values = [b"%d" % n for n in range(first, until)]
    produce(cluster.bootstrap_servers, name, values)
    return values


def values_of(read: GroupRead) -> list[bytes]:
    return sorted(row["value"] for row in read.dataset.take_all())


def lag(cluster: Cluster, name: str) -> int:
    partitions = [TopicPartition(name, n) for n in range(PARTITIONS)]
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=f"g-{name}") as client:
        committed, ends = client.committed_offsets(partitions), client.end_offsets(partitions)
    return sum(ends[tp] - (at.offset if at is not None else 0) for tp, at in committed.items())


def test_a_job_reads_everything_and_the_next_one_what_is_new(shared: Cluster, name: str) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    old = fill(shared, name, 0, 1000)
    with job(shared, name) as read:
        assert read.dataset.schema().base_schema == SCHEMA
        assert values_of(read) == sorted(old)
    assert lag(shared, name) == 0
    new = fill(shared, name, 1000, 1500)
    with job(shared, name) as read:
        assert values_of(read) == sorted(new)
    with job(shared, name) as read:
        assert values_of(read) == []


def test_a_job_that_fails_commits_nothing(shared: Cluster, name: str) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    old = fill(shared, name, 0, 300)
    seen = []

    def fail(read: GroupRead) -> None:
        seen.extend(values_of(read))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), job(shared, name) as read:
        fail(read)
    assert seen == sorted(old)
    assert lag(shared, name) == len(old)
    with job(shared, name) as read:
        assert values_of(read) == sorted(old)


def test_what_nobody_read_is_not_committed(shared: Cluster, name: str) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    old = fill(shared, name, 0, 300)
    with job(shared, name):
        pass
    assert lag(shared, name) == len(old)


LOOKS: list[Callable[[Dataset], Any]] = [
    lambda dataset: dataset.take(5),
    lambda dataset: dataset.map_batches(lambda batch: batch).limit(5).take_all(),
    lambda dataset: dataset.schema(),
]


@pytest.mark.parametrize("look", LOOKS, ids=["take", "limit", "schema"])
def test_a_look_at_some_rows_commits_nothing(shared: Cluster, name: str, look: Callable[[Dataset], Any]) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    old = fill(shared, name, 0, 300)
    with job(shared, name) as read:
        assert look(read.dataset)
    assert lag(shared, name) == len(old)


def test_parquet_of_mapped_rows_has_headers_that_others_can_read(shared: Cluster, name: str, tmp_path: Path) -> None:
    """The page's own example wrote them pickled: NumPy has no type for them."""
    topic(shared.bootstrap_servers, name, 1)
    with Producer(bootstrap_servers=shared.bootstrap_servers) as producer:
        for headers in ([("trace", b"\xff")], [], [("trace", b"2"), ("of", b"ann")]):
            producer.send(name, b"v", headers=headers)
    kinds = {}
    with job(shared, name) as read:
        for batch_format in ("default", "pandas", "pyarrow"):
            mapped = read.dataset.map_batches(lambda batch: batch, batch_format=batch_format)
            mapped.write_parquet(str(tmp_path / batch_format))
            (file,) = (tmp_path / batch_format).glob("*.parquet")
            kinds[batch_format] = pq.read_schema(file).field("headers").type
    assert pa.types.is_map(kinds["pandas"])
    assert pa.types.is_map(kinds["pyarrow"])
    assert not pa.types.is_map(kinds["default"]), "the page need not warn any more"


WHOLE: list[Callable[[Dataset, Path], Any]] = [
    lambda dataset, folder: dataset.map_batches(lambda batch: batch).write_parquet(str(folder)),
    lambda dataset, folder: [list(part.iter_rows()) for part in dataset.streaming_split(1)],
    lambda dataset, folder: (dataset.take(5), dataset.sort("offset").materialize()),
]


@pytest.mark.parametrize("use", WHOLE, ids=["write", "split", "sort"])
def test_what_was_used_whole_is_committed(
    shared: Cluster, name: str, tmp_path: Path, use: Callable[[Dataset, Path], Any]
) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    fill(shared, name, 0, 300)
    with job(shared, name) as read:
        use(read.dataset, tmp_path / "out")
    assert lag(shared, name) == 0


def test_a_partition_that_is_added_later_begins_at_its_oldest_record(shared: Cluster, name: str) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS - 1)
    fill(shared, name, 0, 100)
    with job(shared, name, auto_offset_reset="latest") as read:
        assert values_of(read) == []
    with Admin(bootstrap_servers=shared.bootstrap_servers) as admin:
        admin.create_partitions({name: PARTITIONS})
    await_topic(shared.bootstrap_servers, name, PARTITIONS)
    new = fill(shared, name, 100, 400)
    with job(shared, name, auto_offset_reset="latest") as read:
        assert values_of(read) == sorted(new)


def test_settings_reach_the_tasks_that_read(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    class Reader:
        def __init__(self, servers: str, **settings: Any) -> None:
            given.update(settings)

        def read(self, ranges: list[OffsetRange]) -> Iterator[Any]:
            yield from ()

        def __enter__(self) -> Reader:
            return self

        def __exit__(self, *exc: object) -> None: ...

    monkeypatch.setattr(ray_datasource, "RangeReader", Reader)
    monkeypatch.setattr(ray_datasource.ray, "get", lambda reference: None)
    options = {"isolation_level": "read_committed", "group_instance_id": "mine", "session_timeout_ms": 6000}
    read = read_group("t", "g", bootstrap_servers="127.0.0.1:1", **options)
    assert list(read_range(OffsetRange("t", 0, 0, 1), read.plan.reading, MagicMock(), 0)) == []
    assert given["isolation_level"] == "read_committed"
    assert "group_instance_id" not in given


def test_another_member_shares_the_work(shared: Cluster, name: str) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    fill(shared, name, 0, 300)
    settings = {"partition.assignment.strategy": "cooperative-sticky"}
    entered = threading.Event()
    found: list[int] = []

    def run() -> None:
        with job(shared, name) as read:
            found.extend(r.partition for r in read.ranges)
            entered.set()
            read.dataset.count()

    thread = threading.Thread(target=run)
    with contextlib.closing(consumer(shared.bootstrap_servers, f"g-{name}", **settings)) as other:
        other.subscribe([name])
        wait_until(lambda: other.poll(0.1) and other.assignment(), what="the first member's assignment")
        thread.start()
        try:
            while not entered.is_set() and thread.is_alive():
                other.poll(0.05)
            owned = {tp.partition for tp in other.assignment()}
            assert found
            assert owned.isdisjoint(found)
            while thread.is_alive():
                other.poll(0.05)
        finally:
            thread.join(60)


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"auto_offset_reset": "none"}, ConfigurationError, "auto_offset_reset='none'"),
        ({"sesion_timeout_ms": 1}, ConfigurationError, "sesion_timeout_ms"),
        ({}, UnknownTopicOrPartitionError, "there is no topic"),
    ],
)
def test_bad_input_is_named(shared: Cluster, name: str, more: dict[str, Any], error: type, text: str) -> None:
    with pytest.raises(error, match=text), job(shared, name, **more):
        pass
