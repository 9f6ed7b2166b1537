"""Sessions on RayDP: what they are configured with, where they run, how they end, and what a bad one says."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import ray

import spark_bridge
from actors.cluster import Cluster
from spark_bridge.executors import executor_count, prepare, task_slots
from tests.spark.support import FAST_SPARK, executor_nodes, executor_pids, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def python_of_the_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The interpreter, for each row."""
    for batch in batches:
        yield pa.record_batch({"id": batch["id"], "python": pa.array([sys.executable] * len(batch))})


def test_arrow_batches_travel_to_the_same_python_as_the_drivers(spark: SparkSession) -> None:
    rows = spark.range(100, numPartitions=2).mapInArrow(python_of_the_task, "id long, python string").collect()
    assert sorted(row.id for row in rows) == list(range(100))
    assert {row.python for row in rows} == {sys.executable}
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"


def test_the_bridge_knows_how_many_executors_there_are(spark: SparkSession) -> None:
    assert executor_count(spark) == 2
    assert prepare(spark) == 2
    assert task_slots(spark) == 2


def test_a_second_session_in_the_process_is_refused(spark: SparkSession) -> None:
    with pytest.raises(spark_bridge.SessionError, match="this process has a Spark session on RayDP already"):
        with spark_bridge.session("second", configs=FAST_SPARK):
            pass


def test_an_executor_that_is_killed_comes_back_and_the_job_ends_right(spark: SparkSession) -> None:
    before = executor_pids(spark)
    assert len(before) == 2
    victim = next(iter(before.values()))
    os.kill(victim, signal.SIGKILL)
    assert spark.range(1000, numPartitions=4).count() == 1000
    wait_until(lambda: executor_count(spark) == 2, what="a second executor")
    assert victim not in executor_pids(spark).values()
    assert spark.range(1000, numPartitions=4).count() == 1000


def test_executors_run_on_the_brokers_node(cluster: Cluster, spark: SparkSession) -> None:
    brokers = {broker["node_id"] for broker in cluster.status()["brokers"]}
    assert set(executor_nodes(spark).values()) <= brokers == {ray.get_runtime_context().get_node_id()}
