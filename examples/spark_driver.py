"""A Spark job as a consumer group, in one script: a cluster, a topic with orders, and the sum of each customer.

    python -m examples.spark_driver [--orders 10000]

The script is the driver: it starts brokers and executors on an embedded Ray and ends them. Run it twice with the same
--data-dir, and the second run reads only what the first has not committed.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import coterie
from coterie import Admin, Batch, Cluster, GroupStream, NewTopic, Producer

TOPIC = "orders"
GROUP = "billing"
ORDER = "customer STRING, cents LONG"


def main(arguments: list[str] | None = None) -> int:
    """Produce, read as a group, compare; the exit code is 1 if the sums differ."""
    parser = argparse.ArgumentParser(description="Read orders with Spark, as a consumer group.")
    parser.add_argument("--orders", type=int, default=10_000, help="how many to produce (default: %(default)s)")
    parser.add_argument("--data-dir", help="where the cluster keeps its data (default: a temporary folder)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="coterie-orders-") as temporary:
        with Cluster.start(brokers=3, data_dir=options.data_dir or temporary) as cluster:
            produced = produce(cluster.bootstrap_servers, options.orders)
            billed = bill(cluster.bootstrap_servers)
    for customer, cents in sorted(billed.items()):
        print(f"{customer}  {cents / 100:12,.2f}")
    print(f"{options.orders:,} orders of {len(billed)} customers, {'as produced' if billed == produced else 'WRONG'}")
    return 0 if billed == produced else 1


def produce(servers: str, count: int) -> Counter[str]:
    """Produce orders of ten customers. Returns the sum of each customer, in cents."""
    sums: Counter[str] = Counter()
    with Admin(bootstrap_servers=servers) as admin:
        if TOPIC not in admin.list_topics():
            admin.create_topics([NewTopic(TOPIC, 6)])
    chance = random.Random(count)
    with Producer(bootstrap_servers=servers, acks="all") as producer:
        for _ in range(count):
            customer, cents = f"customer-{chance.randrange(10)}", chance.randrange(100, 100_000)
            producer.send(TOPIC, json.dumps({"customer": customer, "cents": cents}).encode(), customer.encode())
            sums[customer] += cents
        producer.flush()
    return sums


def bill(servers: str) -> Counter[str]:
    """Read the orders that the group has not committed yet. Returns the sum of each customer, in cents."""
    sums: Counter[str] = Counter()

    def add(df: DataFrame, batch: Batch) -> None:
        orders = df.select(f.from_json(f.col("value").cast("string"), ORDER).alias("order")).select("order.*")
        for row in orders.groupBy("customer").agg(f.sum("cents").alias("cents")).collect():
            sums[row.customer] += row.cents

    with coterie.spark.session("billing", num_executors=2, executor_memory="512m") as spark:
        query = (
            GroupStream(
                spark,
                topics=[TOPIC],
                group_id=GROUP,
                bootstrap_servers=servers,
                options={"startingOffsets": "earliest"},
            )
            .foreach_batch(add)
            .trigger(available_now=True)
            .start()
        )
        query.await_termination()
    return sums


if __name__ == "__main__":
    raise SystemExit(main())
