r"""A Spark job for `ray job submit`: reads a topic as a consumer group, and keeps what it read as Parquet files.

    ray job submit --address http://HEAD:8265 --working-dir examples -- \
        python spark_job.py --topic orders --group archive --output /shared/orders

It finds Coterie's cluster on the Ray it runs on, and reads to the end of the topic. Submitted again, it goes on from
there. With --every "10 seconds" it reads on until `ray job stop`. Every Ray node needs Coterie installed; --working-dir
must not have a package called `actors`.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import coterie
from coterie import Batch, Cluster, GroupStream, OnceFiles


def main() -> None:
    """Read the topic, and print how many records the files have now."""
    options = arguments()
    sink = OnceFiles(options.output)  # a folder that all Ray nodes share

    def keep(df: DataFrame, batch: Batch) -> None:
        count = sink.write(df, batch, readable)
        print(f"batch {batch:d}: {count} records", flush=True)

    with (
        Cluster.connect(os.environ["RAY_ADDRESS"], options.cluster) as cluster,  # ray job submit sets RAY_ADDRESS
        coterie.spark.session(
            options.group, options.executors, executor_memory=options.executor_memory, configs=dict(options.conf)
        ) as spark,
    ):
        query = (
            GroupStream(
                spark,
                topics=[options.topic],
                group_id=options.group,
                bootstrap_servers=cluster.bootstrap_servers,
                options={"startingOffsets": "earliest"} | {f"kafka.{key}": text for key, text in options.kafka},
            )
            .foreach_batch(keep)
            .trigger(**({"processing_time": options.every} if options.every else {"available_now": True}))
            .start()
        )
        query.await_termination()
        print(f"{sink.read(spark).count()} records in {options.output}")


def arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description="Keep a topic's records as Parquet files.")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True, help="the consumer group; also the application's name")
    parser.add_argument("--output", required=True, help="a folder that all Ray nodes share")
    parser.add_argument("--cluster", default="default", help="name of Coterie's cluster (default: %(default)s)")
    parser.add_argument("--every", help='go on for ever, with a batch as often as this: "10 seconds"')
    parser.add_argument("--executors", type=int, default=2, help="how many, of one core (default: %(default)s)")
    parser.add_argument("--executor-memory", default="1g", help="as Spark writes it (default: %(default)s)")
    pairs: dict[str, Any] = {"action": "append", "default": [], "type": lambda text: text.split("=", 1)}
    parser.add_argument("--conf", **pairs, help="a setting of Spark's: KEY=VALUE")
    parser.add_argument("--kafka", **pairs, help="a setting of Kafka's clients, such as logins have: KEY=VALUE")
    return parser.parse_args()


def readable(new: DataFrame) -> DataFrame:
    """Keys and values as text."""
    return new.select("partition", "offset", "timestamp", *(f.col(name).cast("string") for name in ("key", "value")))


if __name__ == "__main__":
    main()
