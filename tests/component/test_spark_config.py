"""The arguments of a Spark session and what it is configured with; nothing is started."""

from __future__ import annotations

import subprocess
import sys

import pytest

import spark_bridge
from spark_bridge.spark_config import JVM_OPTIONS, MASTER_OPTIONS, application, memory_bytes, spark_configs

GOOD = {"app_name": "a", "num_executors": 2, "executor_cores": 1, "executor_memory": "1g", "configs": None}


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("num_executors", 0, "num_executors must be a whole number of at least 1, got 0"),
        ("num_executors", True, "num_executors must be a whole number of at least 1, got True"),
        ("executor_cores", -1, "executor_cores must be a whole number of at least 1, got -1"),
        ("executor_cores", 1.5, "executor_cores must be a whole number of at least 1, got 1.5"),
        ("executor_memory", "lots", 'executor_memory must be an amount such as "512m" or "2g", got \'lots\''),
        ("executor_memory", "1.5g", 'executor_memory must be an amount such as "512m" or "2g", got \'1.5g\''),
        ("executor_memory", "256m", "executor_memory='256m' is too little: Spark's executors need at least 450m"),
        ("app_name", " ", "app_name must be a name, got ' '"),
        ("configs", {"spark.executor.cores": 4}, "configs['spark.executor.cores'] cannot be set: executor_cores"),
        ("configs", {"spark.ray.actor.resource.cpu": "x"}, "must be a number of CPUs, got 'x'"),
    ],
)
def test_a_bad_argument_is_named_with_its_value_in_one_line(argument: str, value: object, said: str) -> None:
    with pytest.raises(spark_bridge.SessionError) as raised:
        application(**{**GOOD, argument: value})
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_bad_argument_is_refused_before_anything_is_started() -> None:
    with pytest.raises(spark_bridge.SessionError, match="num_executors"), spark_bridge.session("a", num_executors=0):
        pass
    with pytest.raises(spark_bridge.SessionError, match="executor_memory"):
        with spark_bridge.session("a", executor_memory="lots"):
            pass


@pytest.mark.parametrize(
    ("written", "mib"), [("1g", 1024), ("2GB", 2048), ("512m", 512), (" 600 MB ", 600), (512, 512), ("536870912b", 512)]
)
def test_memory_is_read_as_spark_reads_it(written: str | int, mib: int) -> None:
    assert memory_bytes(written) == mib << 20


def test_the_callers_configs_are_added_to_and_never_changed() -> None:
    mine = {"spark.executor.extraJavaOptions": "-Xss4m", "spark.sql.shuffle.partitions": 2, "spark.ui.enabled": False}
    before = dict(mine)
    configs = spark_configs(application(**{**GOOD, "configs": mine}), "/tmp/log", {})
    assert mine == before
    assert configs["spark.executor.extraJavaOptions"].endswith(" -Xss4m")
    assert configs["spark.sql.shuffle.partitions"] == "2"
    assert configs["spark.ui.enabled"] == "false"


def test_all_three_kinds_of_jvm_open_the_modules_that_spark_and_arrow_reach_into() -> None:
    configs = spark_configs(application(**GOOD), "/tmp/log", {})
    for key in JVM_OPTIONS:
        for module in ("java.base/java.nio", "java.base/sun.nio.ch", "java.sql/java.sql"):
            assert f"--add-opens={module}=ALL-UNNAMED" in configs[key].split()
    assert configs["spark.sql.execution.arrow.pyspark.enabled"] == "true"


def test_what_the_caller_sets_stands_above_our_defaults() -> None:
    off = {"spark.sql.execution.arrow.pyspark.enabled": "false"}
    assert spark_configs(application(**{**GOOD, "configs": off}), "", {}).items() >= off.items()


def test_another_java_reaches_the_jvms_that_ray_starts() -> None:
    configs = spark_configs(application(**GOOD), "", {"JAVA_HOME": "/j", "PATH": "/j/bin:${PATH}"})
    assert "-Dray.job.runtime-env.env-vars.PATH=/j/bin:${PATH}" in configs[MASTER_OPTIONS].split()
    assert "-Dray.job.runtime-env.env-vars.JAVA_HOME=/j" in configs[MASTER_OPTIONS].split()


def test_an_executors_share_of_a_cpu_is_what_the_configs_say() -> None:
    assert application(**{**GOOD, "executor_cores": 3}).executor_cpus == 3
    assert application(**{**GOOD, "configs": {"spark.ray.actor.resource.cpu": "0.5"}}).executor_cpus == 0.5


def test_importing_the_bridge_imports_neither_spark_nor_ray() -> None:
    code = "import sys, spark_bridge; print([m for m in ('ray', 'pyspark', 'raydp', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.conformance("XE-50")
@pytest.mark.parametrize(
    "key",
    [
        "spark.authenticate.secret",
        "spark.kafka.sasl.jaas.config",
        "spark.ssl.keyPassword",
        "spark.my.TOKEN",
        "x.kafka.sasl.user",
    ],
)
def test_a_secret_does_not_become_a_setting_of_spark(key: str) -> None:
    with pytest.raises(spark_bridge.SessionError, match=r"kafka\.sasl\.password\.file") as raised:
        application(**{**GOOD, "configs": {key: "swordfish"}})
    assert key in str(raised.value)
    assert "swordfish" not in str(raised.value)
