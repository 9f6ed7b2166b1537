"""Reads without an end: datasets that follow a group, committed as they are consumed, through deaths and rebalances."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.data import Dataset

from actors.client import Admin
from actors.client.errors import TopicRecreatedError
from actors.cluster import Cluster
from actors.members.ranges.ray_data import read_group
from actors.members.ranges.ray_follow import BatchNotReadError, GroupFollow
from tests.ray.support import ROOT, committed, consumer, produce, topic, wait_until

PARTITIONS = 3


def follow(cluster: Cluster, name: str, **more: Any) -> GroupFollow:
    settings = {"batch_interval_s": 0.0} | more
    return read_group(name, f"g-{name}", bootstrap_servers=cluster.bootstrap_servers, follow=True, **settings)


def fill(cluster: Cluster, name: str, first: int, until: int) -> list[bytes]:
    values = [b"%05d" % n for n in range(first, until)]
    produce(cluster.bootstrap_servers, name, values)
    return values


def committed_in_all(cluster: Cluster, name: str) -> int:
    with contextlib.closing(consumer(cluster.bootstrap_servers, f"g-{name}")) as client:
        return sum(max(offset, 0) for offset in committed(client, name, PARTITIONS))


@pytest.mark.parametrize("fail", [True, False])
def test_a_topic_deleted_and_created_again_was_followed_from_where_the_old_one_ended(
    shared: Cluster, name: str, fail: bool
) -> None:
    topic(shared.bootstrap_servers, name, 1)
    old = fill(shared, name, 0, 100)
    new: list[bytes] = []
    seen: list[bytes] = []

    def replaced(read: GroupFollow) -> None:
        for dataset in read:
            seen.extend(row["value"] for row in dataset.iter_rows())
            if len(seen) == len(old):
                with Admin(bootstrap_servers=shared.bootstrap_servers) as admin:
                    admin.delete_topics([name])
                topic(shared.bootstrap_servers, name, 1)
                new.extend(fill(shared, name, 1000, 1150))
            if new and set(new) <= set(seen):
                read.stop()

    with follow(shared, name, fail_on_data_loss=fail) as read:
        if fail:
            with pytest.raises(TopicRecreatedError, match="set fail_on_data_loss to false"):
                replaced(read)
        else:
            replaced(read)
            assert seen == old + new


def test_it_goes_on_with_what_comes_and_ends_with_all_committed_when_it_is_stopped(shared: Cluster, name: str) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    values = fill(shared, name, 0, 300)
    seen: list[bytes] = []
    with follow(shared, name) as read:
        for dataset in read:
            seen += [row["value"] for row in dataset.iter_rows()]
            if len(seen) == 300:
                values += fill(shared, name, 300, 500)
            if len(seen) == 500:
                read.stop()
        assert sum(read.committed.values()) == 500
    assert sorted(seen) == values
    assert committed_in_all(shared, name) == 500


def test_what_was_not_consumed_is_not_committed_and_comes_in_the_next_read(shared: Cluster, name: str) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    values = fill(shared, name, 0, 300)
    seen: list[bytes] = []
    with follow(shared, name, max_batch_offsets=100) as read:
        for batch in read.iter_batches(batch_size=20):
            seen += batch["value"].tolist()
            if len(seen) > 150:  # the second dataset, of which Ray's tasks have read all by now
                break
        done = sum(read.committed.values())
    assert 0 < done < len(seen)
    assert committed_in_all(shared, name) == done
    again: list[bytes] = []
    with follow(shared, name) as read:
        for batch in read.iter_batches():
            again += batch["value"].tolist()
            if len(again) + done >= 300:
                read.stop()
    assert sorted([*seen[:done], *again]) == values, "each once"
    assert committed_in_all(shared, name) == 300


def test_a_dataset_that_nobody_used_ends_the_read_and_is_not_committed(shared: Cluster, name: str) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    fill(shared, name, 0, 30)
    looks: list[Callable[[Dataset], Any]] = [lambda dataset: dataset.map_batches(lambda batch: batch), take_five]
    for look in looks:  # the first one is lazy
        with follow(shared, name) as read:
            datasets = iter(read)
            look(next(datasets))
            with pytest.raises(BatchNotReadError, match="not read to its end"):
                next(datasets)
    assert committed_in_all(shared, name) == 0


def take_five(dataset: Dataset) -> Any:
    return dataset.take(5)


class DiesOnce:
    """Kills the process of its task when it meets a value for the first time, after blocks of the task are out."""

    def __init__(self, value: bytes, marker: Path) -> None:
        self.value, self.marker = value, marker

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if self.value in batch["value"]:
            with contextlib.suppress(FileExistsError):
                self.marker.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return batch


def test_nothing_is_lost_when_the_process_of_a_task_is_killed_that_reads(
    shared: Cluster, name: str, tmp_path: Path
) -> None:
    topic(shared.bootstrap_servers, name, 1)
    values = [b"%05d" % n + b"x" * 1000 for n in range(6000)]
    produce(shared.bootstrap_servers, name, values)
    marker = tmp_path / "died"
    seen: list[bytes] = []
    with follow(shared, name) as read:
        for dataset in read:
            dataset.context.target_max_block_size = 256 << 10
            dies = DiesOnce(values[4000], marker)
            mapped = dataset.map_batches(lambda batch, dies=dies: dies(batch), batch_size=100)
            seen += [row["value"] for row in mapped.iter_rows()]
            if len(seen) >= len(values):
                read.stop()
    assert marker.exists()
    assert sorted(seen) == values, "each once: the second run cut its records as the first one"
    with contextlib.closing(consumer(shared.bootstrap_servers, f"g-{name}")) as client:
        assert committed(client, name, 1) == [len(values)]


PROGRAM = """
import sys

import ray

from actors.members.ranges.ray_data import read_group

address, servers, name = sys.argv[1:]
ray.init(address=address, logging_level="ERROR", log_to_driver=False)
settings = {"bootstrap_servers": servers, "batch_interval_s": 0.0, "session_timeout_ms": 6000}
with read_group(name, f"g-{name}", follow=True, max_batch_offsets=100, **settings) as read:
    for batch in read.iter_batches(batch_size=20, batch_format="pyarrow"):
        for value in batch["value"]:
            print("value", value.as_py().decode(), flush=True)
        sys.stdin.readline()
"""
"""Consumes a batch for each line that it is told, and one more. Ray may print lines of its own."""


def test_what_a_program_had_in_hand_that_was_killed_comes_again(shared: Cluster, name: str) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    values = fill(shared, name, 0, 300)
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-c", PROGRAM, address, shared.bootstrap_servers, name]
    path = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=path) as program:
        try:
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write("\n" * 7)  # five batches of the first dataset, two of the second, and one more
            program.stdin.flush()
            done = wait_until(lambda: committed_in_all(shared, name), what="the first dataset's commit")
            told = (line.split() for line in program.stdout)
            values_told = (words[1].encode() for words in told if words[0:1] == ["value"])
            seen = list(itertools.islice(values_told, done + 60))
        finally:
            program.kill()
    assert committed_in_all(shared, name) == done
    again: list[bytes] = []
    with follow(shared, name) as read:  # it joins when the dead member's session has ended
        for dataset in read:
            again += [row["value"] for row in dataset.iter_rows()]
            if len(again) >= 300 - done:
                read.stop()
    assert sorted(seen[:done] + again) == values
    assert set(seen[done:]) <= set(again)


def test_a_partition_goes_to_another_member_when_the_dataset_in_hand_is_committed(shared: Cluster, name: str) -> None:
    topic(shared.bootstrap_servers, name, PARTITIONS)
    values = fill(shared, name, 0, 300)
    seen: list[bytes] = []
    entered, go_on = threading.Event(), threading.Event()

    def run() -> None:
        with follow(shared, name, revoke_wait_ms=120_000) as read:
            reads.append(read)
            for dataset in read:
                seen.extend(row["value"] for row in dataset.iter_rows())
                entered.set()
                assert go_on.wait(120)

    reads: list[GroupFollow] = []
    thread = threading.Thread(target=run)
    thread.start()
    settings = {"partition.assignment.strategy": "cooperative-sticky"}
    others: list[bytes] = []
    with contextlib.closing(consumer(shared.bootstrap_servers, f"g-{name}", **settings)) as other:

        def take() -> None:
            message = other.poll(0.1)
            if message is not None and message.error() is None:
                others.append(message.value())

        def has_joined() -> bool:
            take()
            return members_of(shared, name) == 2

        try:
            assert entered.wait(120)
            other.subscribe([name])
            wait_until(has_joined, what="the other member")
            assert other.assignment() == [], "the dataset is in hand"
            go_on.set()
            wait_until(lambda: take() or other.assignment(), what="a partition of its own")
            values += fill(shared, name, 300, 600)
            wait_until(lambda: take() or len(seen) + len(others) >= 600, what="all records")
        finally:
            go_on.set()
            for read in reads:
                read.stop()
            thread.join(60)
    assert sorted(seen + others) == values, "each once: what was in hand was committed before its partition moved"
    assert others
    assert seen[300:]


def members_of(cluster: Cluster, name: str) -> int:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        (group,) = admin.describe_consumer_groups([f"g-{name}"])
    return len(group.members)
