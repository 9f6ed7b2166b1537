"""What the tests on Spark share: settings that start it fast, its processes, and what the tests on Ray share, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ray

from tests.ray.support import FAST, assert_gone, coterie, descendants, produce, topic, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "FAST",
    "FAST_SPARK",
    "assert_gone",
    "coterie",
    "descendants",
    "executor_nodes",
    "executor_pids",
    "produce",
    "topic",
    "wait_until",
]

# They halve the start of a JVM, and cost speed later: for tests and demos.
_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
FAST_SPARK = {
    "spark.driver.extraJavaOptions": _JVM,
    "spark.executor.extraJavaOptions": _JVM,
    "spark.ray.raydp_app_master.extraJavaOptions": _JVM,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
SMALL = "512m"


def executor_pids(spark: SparkSession) -> dict[str, int]:
    """Process id of each living executor's JVM, by the name of its actor; SIGKILL to one is an executor's death."""
    return {actor["Name"]: actor["Pid"] for actor in _executors()}


def executor_nodes(spark: SparkSession) -> dict[str, str]:
    """Ray node id of each living executor, by the name of its actor."""
    return {actor["Name"]: actor["Address"]["NodeID"] for actor in _executors()}


def _executors() -> list[dict[str, object]]:
    actors = ray._private.state.actors().values()
    return [a for a in actors if a["Name"].startswith("raydp-executor-") and a["State"] == "ALIVE"]
