"""The demo's Spark job: a group of its own on the flights, which adds up departure delays per origin and hour.

Each micro-batch is added up by the executors and written together with the ranges of offsets it held, so a batch that
comes again is not counted twice. One executor is killed with SIGKILL while a batch runs.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import psutil
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import coterie
from coterie import Batch, GroupStream, OnceFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP = "delays-per-origin-and-hour"
FLIGHT = "origin STRING, time_hour STRING, dep_delay INT"
BATCH_FLIGHTS = 60_000
KILLED_IN = 2  # the batch that loses an executor

# They halve the start of the JVMs, and cost speed later: for demos and tests.
_FAST_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_CONFIGS = {
    "spark.driver.extraJavaOptions": _FAST_START,
    "spark.executor.extraJavaOptions": _FAST_START,
    "spark.ray.raydp_app_master.extraJavaOptions": _FAST_START,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}

Delays = dict[tuple[str, str], list[int]]  # (origin, hour) -> [flights, flights with a delay, sum of delays in minutes]


def run(console: Console, servers: str, topic: str, folder: Path) -> Delays:
    """Read the topic to its end as a group, and return what was added up.

    Raises SparkMissingError where Spark is not installed.
    """
    sink = OnceFiles(folder)
    with coterie.spark.session("flights", num_executors=2, executor_memory="512m", configs=_CONFIGS) as spark:
        console.print("a Spark session on the same Ray, two executors")

        def handle(df: DataFrame, batch: Batch) -> None:
            if batch == KILLED_IN:
                _kill_an_executor(spark, lambda pid: console.print(f"executor {pid} is killed in batch {batch:d}"))
            count = sink.write(df, batch, add_up)
            console.print(f"batch {batch:d}: {count:,} flights", highlight=False)

        query = (
            GroupStream(
                spark,
                topics=[topic],
                group_id=GROUP,
                bootstrap_servers=servers,
                options={"startingOffsets": "earliest", "maxOffsetsPerTrigger": BATCH_FLIGHTS},
            )
            .foreach_batch(handle)
            .trigger(available_now=True)
            .start()
        )
        query.await_termination()
        sums = ("flights", "delayed", "minutes")
        totals = sink.read(spark).groupBy("origin", "hour").sum(*sums).toDF("origin", "hour", *sums)
        rows = totals.collect()
    return {(row.origin, row.hour): [row.flights, row.delayed, row.minutes or 0] for row in rows}


def add_up(new: DataFrame) -> DataFrame:
    """The totals of a batch."""
    from pyspark.sql import functions as f

    flights = new.select(f.from_json(f.col("value").cast("string"), FLIGHT).alias("flight")).select("flight.*")
    return flights.groupBy("origin", f.substring("time_hour", 12, 2).alias("hour")).agg(
        f.count("*").alias("flights"), f.count("dep_delay").alias("delayed"), f.sum("dep_delay").alias("minutes")
    )


def expected(frame: pd.DataFrame) -> Delays:
    """The same totals, computed by pandas."""
    grouped = frame.groupby(["origin", frame["time_hour"].str[11:13]])["dep_delay"].agg(["size", "count", "sum"])
    return {
        (str(origin), str(hour)): [int(row["size"]), int(row["count"]), int(row["sum"])]
        for (origin, hour), row in grouped.iterrows()
    }


def table(delays: Delays) -> Table:
    """Per origin: flights, mean delay, and the hour with the worst."""
    made = Table(title="Departure delays per origin, by Spark")
    for column in ("origin", "flights", "mean delay (min)", "worst hour (UTC)"):
        made.add_column(column, justify="right")
    for origin in sorted({origin for origin, _ in delays}):
        hours = {hour: numbers for (at, hour), numbers in delays.items() if at == origin}
        flights, _, minutes = (sum(numbers[i] for numbers in hours.values()) for i in range(3))
        worst = max(hours, key=lambda hour: hours[hour][2] / max(hours[hour][1], 1))
        delayed = sum(numbers[1] for numbers in hours.values())
        made.add_row(origin, f"{flights:,}", f"{minutes / max(delayed, 1):.2f}", f"{worst}:00")
    return made


def _kill_an_executor(spark: SparkSession, tell: Callable[[int], Any]) -> None:
    """As soon as the next job runs, kill -9 the JVM of one executor."""
    pids = {row.pid for row in spark.range(0, 8, 1, 8).mapInArrow(_jvm, "pid long").collect()}
    tracker = spark.sparkContext.statusTracker()

    def kill() -> None:
        while not tracker.getActiveJobsIds():
            waiting.wait(0.01)
        victim = min(pids)
        os.kill(victim, signal.SIGKILL)
        tell(victim)

    waiting = threading.Event()
    threading.Thread(target=kill, daemon=True).start()


def _jvm(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: the process id of its JVM, an ancestor of the Python that runs this."""
    java = next(each for each in psutil.Process().parents() if "java" in each.name())
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"pid": [java.pid]})
