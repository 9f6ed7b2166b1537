"""Sessions that need a process of their own: with a Ray of their own, another Java, or several Ray nodes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import spark_bridge
from spark_bridge.encryption import write_secret
from spark_bridge.executor_changes import SessionExecutors
from tests.spark.support import FAST, FAST_JVM, FAST_SPARK, SMALL, executor_nodes, full_status, jvms, wait_until


@contextlib.contextmanager
def _two_nodes(folder: str) -> Iterator[list[str]]:
    """Two Ray nodes of two CPUs, a broker on one of them, and the other's CPUs taken; the brokers' Ray nodes."""
    import ray

    from actors.cluster import Cluster
    from tests.support.lean_nodes import LeanNodes

    nodes = LeanNodes()
    for number in range(2):
        more = {"include_dashboard": False} if number == 0 else {}
        nodes.add_node(num_cpus=2, object_store_memory=80 << 20, **more)
    try:
        ray.init(address=nodes.address, logging_level="ERROR", log_to_driver=False)
        with Cluster.start(1, name="nodes", host="127.0.0.1", data_dir=folder, config=FAST) as cluster:
            beside = {broker["node_id"] for broker in full_status(cluster)["brokers"]}
            other = next(node["NodeID"] for node in ray.nodes() if node["NodeID"] not in beside)
            taken = ray.util.placement_group([{"CPU": 2}], bundle_label_selector=[{"ray.io/node-id": other}])
            assert taken.wait(60)
            yield sorted(beside)
    finally:
        ray.shutdown()
        nodes.shutdown()


def two_nodes(folder: str) -> dict[str, Any]:
    """Twice a session beside the broker, the second one encrypted."""
    with _two_nodes(folder) as brokers:
        secret = Path(folder) / "spark-secret"
        write_secret(secret)
        return {"brokers": brokers, "sessions": [_session(2), _session(1, encrypted=str(secret))], **_left()}


def refused_on_two_nodes(folder: str) -> dict[str, Any]:
    """Sessions that do not start there."""
    with _two_nodes(folder):
        broken = {**FAST_SPARK, "spark.driver.extraJavaOptions": "-javaagent:/nowhere.jar"}
        return {
            "encrypted": [_refusal(encrypted=each) for each in (True, str(Path(folder) / "spark-secret"))],
            "too_many": _refusal(num_executors=5),
            "broken": _refusal(executor_memory=SMALL, configs=broken),
            **_left(),
        }


def _left() -> dict[str, Any]:
    """The actors and placement groups that Ray knows, those of the cluster aside."""
    import ray

    groups = sorted(group["state"] for group in ray.util.placement_group_table().values())
    return {"names_left": ray.util.list_named_actors(), "groups": groups}


def _session(count: int, **more: Any) -> dict[str, Any]:
    begun = time.monotonic()
    interrupt = signal.getsignal(signal.SIGINT)
    with spark_bridge.session("nodes", count, 1, SMALL, FAST_SPARK, **more) as spark:
        started = time.monotonic() - begun
        log = spark.conf.get("spark.coterie.driver.log")
        encrypts = spark.conf.get("spark.network.crypto.enabled", "false")
        rows = spark.range(100, numPartitions=2).mapInArrow(lambda batches: batches, "id long").count()
        found = {
            "nodes": sorted(executor_nodes(spark).values()),
            "rows": rows,
            "fixed": SessionExecutors(spark).fixed,
            "encrypts": encrypts,
            "javas": sorted({os.readlink(f"/proc/{jvm.pid}/exe") for jvm in jvms()}),
            "log_bytes": Path(log).stat().st_size,
            "start_s": started,
        }
    assert signal.getsignal(signal.SIGINT) is interrupt, "Ctrl-C is the process's own again"
    with contextlib.suppress(AssertionError):  # an actor is gone for Ray before its process has ended
        wait_until(lambda: not jvms(), 30)
    return {**found, "log_left": Path(log).exists(), "left": [jvm.pid for jvm in jvms()]}


def _refusal(**arguments: Any) -> str:
    begun = time.monotonic()
    try:
        with spark_bridge.session("refused", **arguments):
            return "started"
    except spark_bridge.SessionError as error:
        assert time.monotonic() - begun < 150, "said at once, not after the three minutes a start may take"
        return str(error)


def bare_ray() -> dict[str, Any]:
    """A Ray that found no Java when it was started."""
    import ray

    ray.init(address="local", include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        return {"said": _refusal(executor_memory=SMALL)}
    finally:
        ray.shutdown()


def local_spark(servers: str, topic: str, folder: str) -> dict[str, Any]:
    """A plain SparkSession without Ray, in another folder; then a session on RayDP beside it is refused."""
    from pyspark.sql import SparkSession

    from spark_bridge.executors import executor_count, prepare

    os.environ.pop("PYTHONPATH", None)
    os.chdir(folder)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.extraJavaOptions", FAST_JVM).getOrCreate()
    try:
        again = SparkSession.builder.getOrCreate()
        found = {"executors": executor_count(again), "prepared": prepare(again)}
        found["fixed"] = SessionExecutors(again).fixed
        found["read"] = spark_bridge.read_topic(spark, topic, servers).count()
        written = spark.range(3).selectExpr("cast(id as string) as value")
        found["written"] = spark_bridge.write_topic(written, servers, topic).records
        found["python"] = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
        found["said"] = _refusal(executor_memory=SMALL)
    finally:
        spark.stop()
    try:
        prepare(spark)
    except spark_bridge.SessionError as error:
        found["stopped"] = str(error)
    found["nobody"] = _refusal(ray_address="127.0.0.1:1")
    found["client"] = _refusal(ray_address="ray://127.0.0.1:10001")
    import ray

    found["ray_started"] = ray.is_initialized()
    return found


def windowed_job(servers: str, topic: str, group: str, checkpoint: str, connector: dict[str, str]) -> None:
    """A program with a streaming query whose progress is committed. It goes on until it is killed."""
    from pyspark.sql import SparkSession

    from tests.spark import windowed

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in {"spark.sql.shuffle.partitions": "2", **connector}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    with spark_bridge.commit_progress(spark, group, servers):
        windowed.start(spark, servers, topic, checkpoint, maxOffsetsPerTrigger=20).awaitTermination()
