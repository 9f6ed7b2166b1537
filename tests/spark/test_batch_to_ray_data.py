"""A batch of a stream handed to Ray Data, while the session has the executors it began with.

RayDP finds an executor's rows by its actor's first name; a replaced executor has another one.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
import ray
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from actors.cluster import Cluster
from spark_bridge.batch import Batch
from tests.spark.streams import committed, ends, make_topic, run, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.filterwarnings("ignore:DataFrame.sql_ctx is an internal property")  # RayDP uses it
def test_a_batch_can_be_handed_to_ray_data(spark: SparkSession, cluster: Cluster, topic_name: str) -> None:
    """RayDP's master once died of such a batch: its serializer could not look into classes of java.math."""
    servers = cluster.bootstrap_servers
    make_topic(servers, topic_name)
    values = send(servers, topic_name, range(20))
    handed: list[dict[str, Any]] = []

    def hand_on(df: DataFrame, batch: Batch) -> None:
        more = df.withColumn("price", f.lit("1.5").cast("decimal(10,2)")).withColumn(
            "day", f.to_date(f.lit("2026-11-26"))
        )
        handed.extend(ray.data.from_spark(more).take_all())

    run(spark, servers, topic_name, hand_on)
    assert sorted(row["value"] for row in handed) == sorted(values)
    assert {(row["price"], row["day"]) for row in handed} == {(Decimal("1.50"), date(2026, 11, 26))}
    assert committed(servers, topic_name) == ends(servers, topic_name)
