"""Spark on RayDP, two executors of one core: jobs that read what is there, bulk reads and writes, a micro-batch.

An available-now `GroupStream` over 20,000 records and Spark's own connector doing the same, on the same brokers in the
same session. A million records of 100 bytes in eight partitions, every column materialised: `read_topic` beside a floor
that makes batches of the same size in as many tasks, and `write_topic` beside only making the rows.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import fill, note, temporary_folder
from benchmarks.figures import OURS, PEER, Figures, Pace, Spec
from benchmarks.model import Better, Budget
from tests.compat.apache_kafka import spark_connector_settings
from tests.compat.peers import UnavailableError
from tests.compat.raw import create_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = 1_000_000
PARTITIONS = 8
FEW_RECORDS = 20_000
MICRO_BATCHES = 15
SIZE_BYTES = 100
WRITE_ROWS = 10_000  # of an Arrow batch, Spark's own default
JOB_LIMIT_S = 120.0
AVAILABLE_NOW = "available-now job over 20,000 records, {} run"
READ = "read_topic, a million records"
WRITE = "write_topic, a million records"
MICRO_BATCH = "a micro-batch of one record"
SPECS = [
    Spec(AVAILABLE_NOW.format("first"), "s", Better.LESS, Budget(1.2), "Spark's connector"),
    Spec(AVAILABLE_NOW.format("second"), "s", Better.LESS, Budget(1.2), "Spark's connector"),
    Spec(READ, "s", Better.LESS, Budget(1.5), "the floor"),
    Spec(WRITE, "/s", Better.MORE, Budget(limit=500_000), "only making the rows"),
    Spec(MICRO_BATCH, "s", Better.LESS, Budget(limit=0.5)),
]


@contextlib.contextmanager
def running() -> Iterator[tuple[SparkSession, str]]:
    """A Spark session on RayDP beside three brokers, and the brokers' addresses."""
    import spark_bridge
    from actors.cluster import WARM, Cluster
    from actors.runtime import ray_runtime

    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", **_connector()}
    with temporary_folder() as folder, contextlib.ExitStack() as stack:
        ray_runtime.start_embedded(folder / "ray-token", warm=WARM, num_cpus=6, object_store_memory=200 << 20)
        stack.callback(ray_runtime.end)
        cluster = stack.enter_context(Cluster.start(3, name="bench-spark", data_dir=folder / "data"))
        yield stack.enter_context(spark_bridge.session("bench", 2, 1, "1g", quiet)), cluster.bootstrap_servers


def _connector() -> dict[str, str]:
    """The settings that give a session Spark's own connector, if it can be had."""
    try:
        return spark_connector_settings()
    except UnavailableError as error:
        note(f"without Spark's own connector: {error}")
        return {}


def made(spark: SparkSession, tasks: int) -> DataFrame:
    """The floor: the records' columns, made in as many tasks."""
    from spark_bridge.columns import spark_schema

    share = RECORDS // tasks

    def make(numbers: Iterable[Any]) -> Iterator[Any]:
        import numpy as np
        import pyarrow as pa

        from actors.client.consumer.range_columns import range_schema
        from actors.client.consumer.ranges import BATCH_ROWS
        from spark_bridge.worker import begin_task

        begin_task()  # the floor has the same garbage collector
        for _ in numbers:
            for start in range(0, share, BATCH_ROWS):
                count = min(BATCH_ROWS, share - start)
                columns = [
                    pa.array([b"%08d" % n for n in range(start, start + count)]),
                    pa.array([bytes(SIZE_BYTES - 8)] * count),
                    pa.repeat("records", count),
                    pa.repeat(pa.scalar(1, pa.int32()), count),
                    pa.array(np.arange(start, start + count)),
                    pa.array(np.full(count, 1_700_000_000_000_000)).cast(pa.timestamp("us", "UTC")),
                    pa.repeat(pa.scalar(0, pa.int32()), count),
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=range_schema())

    return spark.range(0, tasks, 1, tasks).mapInArrow(make, spark_schema())


def to_write(spark: SparkSession) -> DataFrame:
    """Keys and values, made in two tasks."""

    def make(numbers: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in numbers:
            for task in batch.column(0).to_pylist():
                for start in range(task * RECORDS // 2, (task + 1) * RECORDS // 2, WRITE_ROWS):
                    keys = pa.array([b"%08d" % n for n in range(start, start + WRITE_ROWS)])
                    values = pa.array([bytes(SIZE_BYTES - 8)] * WRITE_ROWS)
                    yield pa.RecordBatch.from_arrays([keys, values], ["key", "value"])

    return spark.range(0, 2, 1, 2).mapInArrow(make, "key binary, value binary")


def materialise(df: DataFrame) -> float:
    """Seconds until every column of every row has been made a row of Spark's."""
    started = time.perf_counter()
    df.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def measure_write(figures: Figures, spark: SparkSession, servers: str, pace: Pace) -> None:
    """Writes, and only making what is written."""
    from spark_bridge.write import write_topic

    rows = to_write(spark)
    for number in range(pace.turns + 1):
        create_topics(servers, {f"records-{number}": PARTITIONS})
        made_s = materialise(rows)
        started = time.perf_counter()
        written = write_topic(rows, servers, f"records-{number}")
        took = time.perf_counter() - started
        if written.records != RECORDS:
            raise RuntimeError(f"{written.records} records were written, not {RECORDS}")
        if number:  # the first of each starts Python workers and compiles: it is another measurement
            figures.add(OURS, WRITE, RECORDS / took)
            figures.add(PEER, WRITE, RECORDS / made_s)


def measure_read(figures: Figures, spark: SparkSession, servers: str, pace: Pace) -> None:
    """Reads and the floor, one after the other."""
    from spark_bridge.read import read_topic

    df, floor = read_topic(spark, "records-0", servers), made(spark, PARTITIONS)
    if df.count() != RECORDS:
        raise RuntimeError("not every record was read")
    for number in range(pace.turns + 1):
        read_s, floor_s = materialise(df), materialise(floor)
        if number:
            figures.add(OURS, READ, read_s)
            figures.add(PEER, READ, floor_s)


def measure_empty(figures: Figures, spark: SparkSession, servers: str, batches: int) -> None:
    """Micro-batches that hold one record and whose function only counts it."""
    from actors.client import Producer
    from spark_bridge.stream import GroupStream

    create_topics(servers, {"few": 2})
    done = threading.Semaphore(0)

    def count(df: DataFrame, batch: int) -> None:
        df.count()
        done.release()

    options = {"startingOffsets": "earliest"}
    query = GroupStream(spark, ["few"], "bench", servers, options).foreach_batch(count).start()
    try:
        with Producer(bootstrap_servers=servers) as producer:
            for _ in range(batches):
                producer.send("few", b"one").get(10)
                if not done.acquire(timeout=60):
                    raise RuntimeError(f"no micro-batch within 60 s: {query.status}, {query.exception}")
        # The last one's progress is there once its offsets are committed.
        deadline = time.monotonic() + 30
        while len(query.recent_progress) < batches and time.monotonic() < deadline:
            time.sleep(0.05)
        took = [each["durationMs"]["triggerExecution"] / 1000 for each in query.recent_progress]
    finally:
        query.stop()
    for each in took[len(took) // 3 :]:
        figures.only_ours(MICRO_BATCH, each)


def measure_available_now(figures: Figures, spark: SparkSession, servers: str, run: str) -> None:
    """The same job through a GroupStream and through Spark's own connector, on the same brokers."""
    what = AVAILABLE_NOW.format(run)
    with figures.attempt(OURS, what):
        figures.add(OURS, what, _group_stream_s(spark, servers, f"available-now-{run}"))
    with figures.attempt(PEER, what), temporary_folder() as folder:
        figures.add(PEER, what, _connector_s(spark, servers, folder))


def _summed(found: list[tuple[int, int]]) -> Callable[[DataFrame, int], None]:
    """A batch function that reads every value: how many there are, and their bytes."""

    def add(df: DataFrame, _: int) -> None:
        (row,) = df.selectExpr("count(*)", "coalesce(sum(length(value)), 0)").collect()
        found.append((row[0], row[1]))

    return add


def _check(found: list[tuple[int, int]]) -> None:
    counted = sum(count for count, _ in found), sum(size for _, size in found)
    if counted != (FEW_RECORDS, FEW_RECORDS * SIZE_BYTES):
        raise RuntimeError(f"{counted} records and bytes were read")


def _group_stream_s(spark: SparkSession, servers: str, group: str) -> float:
    from spark_bridge.stream import GroupStream

    found: list[tuple[int, int]] = []
    began = time.perf_counter()
    stream = GroupStream(spark, ["available"], group, servers, {"startingOffsets": "earliest"})
    query = stream.foreach_batch(_summed(found)).trigger(available_now=True).start()
    try:
        query.await_termination(JOB_LIMIT_S)
        took = time.perf_counter() - began
    finally:
        query.stop()
    _check(found)
    return took


def _connector_s(spark: SparkSession, servers: str, folder: Path) -> float:
    found: list[tuple[int, int]] = []
    began = time.perf_counter()
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    rows = source.option("subscribe", "available").option("startingOffsets", "earliest").load()
    writer = rows.writeStream.foreachBatch(_summed(found)).option("checkpointLocation", str(folder))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination(int(JOB_LIMIT_S))
        took = time.perf_counter() - began
    finally:
        query.stop()
    _check(found)
    return took


def run(figures: Figures, pace: Pace) -> None:
    """One session; the available-now jobs come first, while nothing else has warmed them up."""
    with running() as (spark, servers):
        fill(servers, "available", PARTITIONS, FEW_RECORDS, SIZE_BYTES)
        spark.range(1).count()  # the cost of any first job is nobody's
        for number in ("first", "second"):
            measure_available_now(figures, spark, servers, number)
        with figures.attempt(OURS, WRITE):
            measure_write(figures, spark, servers, pace)
        with figures.attempt(OURS, READ):
            measure_read(figures, spark, servers, pace)
        with figures.attempt(OURS, MICRO_BATCH):
            measure_empty(figures, spark, servers, pace.fewer(MICRO_BATCHES, 3))
