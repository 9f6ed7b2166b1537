"""Spark on RayDP: `read_topic` against the floor (batches made in the task), `write_topic`, an empty micro-batch.

One million records of 100 bytes in eight partitions, two executors of one core, every column materialised. The floor
has as many tasks and batches of the same size as the read, so that what is compared is where the records come from.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from benchmarks.common import Row, median, note, print_rows, temporary_folder, thousands

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = 1_000_000
PARTITIONS = 8
ROUNDS = 5
MICRO_BATCHES = 15
SIZE_BYTES = 100
WRITE_ROWS = 10_000  # of an Arrow batch, Spark's own default
READ_AT_MOST = 1.5
WRITE_AT_LEAST = 500_000
EMPTY_WITHIN_S = 0.5


@contextlib.contextmanager
def running() -> Iterator[tuple[SparkSession, str]]:
    """A Spark session on RayDP beside three brokers, and the brokers' addresses."""
    import spark_bridge
    from actors.cluster import Cluster
    from actors.runtime import ray_runtime

    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    with temporary_folder() as folder, contextlib.ExitStack() as stack:
        ray_runtime.start_embedded(folder / "ray-token", num_cpus=6, object_store_memory=200 << 20)
        stack.callback(ray_runtime.end)
        cluster = stack.enter_context(Cluster.start(3, name="bench-spark", data_dir=folder / "data"))
        yield stack.enter_context(spark_bridge.session("bench", 2, 1, "1g", quiet)), cluster.bootstrap_servers


def made(spark: SparkSession, tasks: int) -> DataFrame:
    """The floor: the records' columns, made in as many tasks."""
    from spark_bridge.columns import spark_schema

    share = RECORDS // tasks

    def make(numbers: Iterable[Any]) -> Iterator[Any]:
        import numpy as np
        import pyarrow as pa

        from actors.client.consumer.ranges import BATCH_ROWS, range_schema
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


def measure_write(spark: SparkSession, servers: str) -> tuple[float, float]:
    """Seconds of a write, and of only making what is written; medians. The last topic is the one to read."""
    from actors.client import Admin
    from actors.client.admin.types import NewTopic
    from spark_bridge.write import write_topic

    rows, writes, makes = to_write(spark), [], []
    for number in range(ROUNDS):
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(f"records-{number}", PARTITIONS, 1)])
        makes.append(materialise(rows))
        started = time.perf_counter()
        written = write_topic(rows, servers, f"records-{number}")
        writes.append(time.perf_counter() - started)
        if written.records != RECORDS:
            raise RuntimeError(f"{written.records} records were written, not {RECORDS}")
        note(f"write: {thousands(RECORDS / writes[-1])}/s; only making the rows: {makes[-1]:.2f} s")
    # The first of each starts Python workers and compiles: it is another measurement.
    return median(writes[1:]), median(makes[1:])


def measure_read(spark: SparkSession, servers: str) -> tuple[float, float]:
    """Seconds of a read and of the floor; medians of rounds in which one follows the other."""
    from spark_bridge.read import read_topic

    df, floor = read_topic(spark, f"records-{ROUNDS - 1}", servers), made(spark, PARTITIONS)
    if df.count() != RECORDS:
        raise RuntimeError("not every record was read")
    rounds = [(materialise(df), materialise(floor)) for _ in range(ROUNDS + 1)][1:]
    for read, made_s in rounds:
        note(f"read {read:.2f} s, floor {made_s:.2f} s: {read / made_s:.2f}")
    return median(read for read, _ in rounds), median(made_s for _, made_s in rounds)


def measure_empty(spark: SparkSession, servers: str) -> float:
    """Median seconds of a micro-batch that holds one record and whose function only counts it."""
    from actors.client import Admin, Producer
    from actors.client.admin.types import NewTopic
    from spark_bridge.stream import GroupStream

    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("few", 2, 1)])
    done = threading.Semaphore(0)

    def count(df: DataFrame, batch: int) -> None:
        df.count()
        done.release()

    options = {"startingOffsets": "earliest"}
    query = GroupStream(spark, ["few"], "bench", servers, options).foreach_batch(count).start()
    try:
        with Producer(bootstrap_servers=servers) as producer:
            for _ in range(MICRO_BATCHES):
                producer.send("few", b"one").get(10)
                if not done.acquire(timeout=60):
                    raise RuntimeError(f"no micro-batch within 60 s: {query.status}, {query.exception}")
        # The last one's progress is there once its offsets are committed.
        deadline = time.monotonic() + 30
        while len(query.recent_progress) < MICRO_BATCHES and time.monotonic() < deadline:
            time.sleep(0.05)
        took = [each["durationMs"]["triggerExecution"] / 1000 for each in query.recent_progress]
    finally:
        query.stop()
    return median(itertools.islice(took, MICRO_BATCHES // 3, None))


def _note_and(what: str, measure: Callable[[], Any]) -> Any:
    note(f"spark: {what}")
    return measure()


def run() -> list[Row]:
    with running() as (spark, servers):
        write_s, make_s = _note_and("write", lambda: measure_write(spark, servers))
        read_s, floor_s = _note_and("read", lambda: measure_read(spark, servers))
        empty_s = _note_and("micro-batches", lambda: measure_empty(spark, servers))
    rate, ratio = RECORDS / write_s, read_s / floor_s
    return [
        Row(
            "Spark: read_topic, a million records of 100 bytes, 8 partitions",
            f"{read_s:.2f} s, {thousands(RECORDS / read_s)}/s",
            f"the floor {floor_s:.2f} s",
            ratio,
            f"at most {READ_AT_MOST}",
            ratio <= READ_AT_MOST,
        ),
        Row(
            "Spark: write_topic, the same",
            f"{write_s:.2f} s, {thousands(rate)}/s",
            f"only making the rows {make_s:.2f} s",
            write_s / make_s,
            f"{thousands(WRITE_AT_LEAST)}/s",
            rate >= WRITE_AT_LEAST,
        ),
        Row(
            "Spark: a micro-batch of one record",
            f"{empty_s:.2f} s",
            budget=f"< {EMPTY_WITHIN_S} s",
            met=empty_s < EMPTY_WITHIN_S,
        ),
    ]


if __name__ == "__main__":
    print_rows(run())
