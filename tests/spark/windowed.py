"""A streaming query as Spark has it: its own Kafka source, counts by window with a watermark, a checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


def start(
    spark: SparkSession, servers: str, topic: str, checkpoint: Path | str, name: str = "", **options: Any
) -> StreamingQuery:
    """Begin to count a topic's records by partition and window, from the earliest or where the checkpoint says."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    for option, value in {"startingOffsets": "earliest", **options}.items():
        source = source.option(option, value)
    windows = source.load().withWatermark("timestamp", "1 minute").groupBy(f.window("timestamp", "10 seconds"))
    writer = windows.agg(f.count("*").alias("records")).writeStream.format("noop").outputMode("update")
    return writer.queryName(name or topic).option("checkpointLocation", str(checkpoint)).start()


@contextlib.contextmanager
def windowed(
    spark: SparkSession, servers: str, topic: str, checkpoint: Path, **options: Any
) -> Iterator[StreamingQuery]:
    """A query that is stopped whatever happens. A failure shows what it did last."""
    query = start(spark, servers, topic, checkpoint, **options)
    try:
        yield query
    except BaseException as error:
        error.add_note(f"the query: {query.status}, {query.exception()}, {query.lastProgress}")
        raise
    finally:
        query.stop()
