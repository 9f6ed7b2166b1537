"""What a test of sessions must have a process for: a Ray of its own, another Java, or several Ray nodes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

import spark_bridge
from actors import ray_runtime
from tests.spark.support import FAST, FAST_SPARK, SMALL, executor_nodes


def three_nodes(folder: str) -> dict[str, Any]:
    """Three Ray nodes of one CPU, brokers on two of them, and the third's CPU taken: twice a session."""
    import ray
    from ray.cluster_utils import Cluster as Nodes

    from actors.cluster import Cluster

    nodes = Nodes()
    for number in range(3):
        more = {"include_dashboard": False} if number == 0 else {}
        nodes.add_node(num_cpus=1, object_store_memory=80 << 20, **more)
    try:
        ray.init(address=nodes.address, logging_level="ERROR", log_to_driver=False)
        with Cluster.start(2, name="nodes", host="127.0.0.1", data_dir=folder, config=FAST) as cluster:
            beside = {broker["node_id"] for broker in cluster.status()["brokers"]}
            third = next(node["NodeID"] for node in ray.nodes() if node["NodeID"] not in beside)
            taken = ray.util.placement_group([{"CPU": 1}], bundle_label_selector=[{"ray.io/node-id": third}])
            assert taken.wait(20)
            found: dict[str, Any] = {"brokers": sorted(beside), "sessions": [_session(2), _session(1)]}
            found["too_many"] = _refusal(num_executors=4)
            found["groups"] = sorted(g["state"] for g in ray.util.placement_group_table().values())
        return found
    finally:
        ray.shutdown()
        nodes.shutdown()


def _session(count: int) -> dict[str, Any]:
    begun = time.monotonic()
    with spark_bridge.session("nodes", count, 1, SMALL, FAST_SPARK) as spark:
        started = time.monotonic() - begun
        log = spark.conf.get("spark.coterie.driver.log")
        rows = spark.range(100, numPartitions=2).mapInArrow(lambda batches: batches, "id long").count()
        found = {
            "nodes": sorted(executor_nodes(spark).values()),
            "rows": rows,
            "javas": sorted({os.readlink(f"/proc/{jvm.pid}/exe") for jvm in _jvms()}),
            "log_bytes": Path(log).stat().st_size,
            "start_s": started,
        }
    return {**found, "log_left": Path(log).exists(), "left": [jvm.pid for jvm in _jvms()]}


def _jvms() -> list[psutil.Process]:
    family = psutil.Process().children(recursive=True)
    return [p for p in family if p.name() == "java" and p.status() != psutil.STATUS_ZOMBIE]


def _refusal(**arguments: Any) -> str:
    begun = time.monotonic()
    try:
        with spark_bridge.session("refused", **arguments):
            return "started"
    except spark_bridge.SessionError as error:
        assert time.monotonic() - begun < 30, "said at once, not after a wait"
        return str(error)


def bare_ray() -> dict[str, Any]:
    """A Ray that found no Java when it was started."""
    import ray

    ray.init(address="local", include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        return {"said": _refusal(executor_memory=SMALL)}
    finally:
        ray.shutdown()


def local_spark() -> dict[str, Any]:
    """A plain SparkSession without Ray; then a session on RayDP beside it is refused."""
    from pyspark.sql import SparkSession

    from spark_bridge.executors import executor_count, prepare, task_slots

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        again = SparkSession.builder.getOrCreate()
        found = {"executors": executor_count(again), "prepared": prepare(again), "slots": task_slots(again)}
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


def submitted_job(folder: str) -> dict[str, Any]:
    """`ray job submit` of the example, on a topic of which its group has committed the first ten records."""
    import ray

    from actors.cluster import Cluster
    from tests.ray.support import commit, consumer, produce, topic

    context = ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=True,
        dashboard_host="127.0.0.1",
        object_store_memory=200 << 20,
        logging_level="ERROR",
        log_to_driver=False,
    )
    try:
        with Cluster.start(1, data_dir=f"{folder}/data", config=FAST) as cluster:
            servers = cluster.bootstrap_servers
            topic(servers, "orders", 1)
            produce(servers, "orders", (b"%d" % i for i in range(500)))
            client = consumer(servers, "archive")
            commit(client, "orders", 10)
            client.close()
            return {"log": _submit(context.dashboard_url, folder)}
    finally:
        ray_runtime.end()


def _submit(dashboard: str, folder: str) -> str:
    """The log of the job, which must succeed."""
    fast = [word for item in FAST_SPARK.items() for word in ("--conf", "=".join(item))]
    job = ["--topic", "orders", "--group", "archive", "--output", f"{folder}/orders", "--executor-memory", SMALL]
    submit = [sys.executable, "-m", "ray.scripts.scripts", "job", "submit", "--address", f"http://{dashboard}"]
    command = [*submit, "--working-dir", "examples", "--", sys.executable, "spark_job.py", *job, *fast]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, (done.stdout[-4000:], done.stderr[-2000:])
    return done.stdout
