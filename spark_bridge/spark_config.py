"""The settings of a Spark session on RayDP, and the checks of its arguments. No Spark, no Ray, no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from actors import CoterieError

# Spark's own launcher has this list for Java 17, but RayDP starts its JVMs without it.
_OPENED_FOR_SPARK: Final = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
# The serializer of Ray's Java actors reads the fields of values and of errors by reflection. Before its first value it
# looks at some classes of java.math, java.text and java.sql: without these RayDP's master dies of its first answer.
_OPENED_FOR_RAY: Final = (
    "java.base/java.lang.annotation",
    "java.base/java.math",
    "java.base/java.nio.charset",
    "java.base/java.nio.file",
    "java.base/java.nio.file.attribute",
    "java.base/java.security",
    "java.base/java.security.cert",
    "java.base/java.text",
    "java.base/java.time",
    "java.base/java.time.chrono",
    "java.base/java.time.format",
    "java.base/java.time.temporal",
    "java.base/java.time.zone",
    "java.base/java.util.concurrent.locks",
    "java.base/java.util.jar",
    "java.base/java.util.regex",
    "java.base/java.util.stream",
    "java.sql/java.sql",
)
MODULE_FLAGS: Final = " ".join(
    [
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens={each}=ALL-UNNAMED" for each in (*_OPENED_FOR_SPARK, *_OPENED_FOR_RAY)),
        "-Djdk.reflect.useDirectMethodHandle=false",
    ]
)
MASTER_OPTIONS: Final = "spark.ray.raydp_app_master.extraJavaOptions"
TAKES_MORE: Final = "-Dspark.dynamicAllocation.enabled=true -Dspark.dynamicAllocation.maxExecutors=1000000"
"""Options of RayDP's master alone: without them it starts no more executors than the session began with.

It is all that it makes of these settings. The driver does not have them, so that Spark decides nothing by itself.
"""
DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"
JVM_OPTIONS: Final = (DRIVER_OPTIONS, "spark.executor.extraJavaOptions", MASTER_OPTIONS)
DRIVER_LOG: Final = "spark.coterie.driver.log"
"""The setting of a session that says which file its JVM writes to."""

UI: Final = "spark.ui.enabled"
"""The setting that asks for Spark's pages. They ask nobody who he is."""

_SECRET: Final = re.compile(r"secret|password|token|jaas|kafka\.sasl", re.IGNORECASE)
_CPU_SHARE: Final = ("spark.ray.raydp_spark_executor.actor.resource.cpu", "spark.ray.actor.resource.cpu")
_BY_ARGUMENT: Final = {
    "spark.app.name": "app_name",
    "spark.executor.instances": "num_executors",
    "spark.executor.cores": "executor_cores",
    "spark.executor.memory": "executor_memory",
    "spark.master": "the session itself",
    "spark.authenticate": "encrypted",
    "spark.network.crypto.enabled": "encrypted",
    "spark.io.encryption.enabled": "encrypted",
}
_MEMORY: Final = re.compile(r"(\d+)\s*(b|[kmgt]b?|)", re.IGNORECASE)
_UNITS: Final = {"": 1 << 20, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LEAST_MEMORY: Final = 450 << 20  # 1.5 times what Spark reserves; below, its executors refuse to start


class SessionError(CoterieError, RuntimeError):
    """A Spark session cannot be made or used. The text is one line and says what is wrong and what to do."""


class SparkMissingError(SessionError):
    """PySpark or RayDP is not installed, as on Pythons for which there is no RayDP."""


@dataclass(frozen=True, slots=True)
class Application:
    """The checked arguments of a session."""

    name: str
    num_executors: int
    executor_cores: int
    executor_memory_bytes: int
    executor_cpus: float
    """The CPUs that an executor takes in Ray: as many as its cores, unless the configs say otherwise."""
    configs: Mapping[str, str]

    @property
    def executor_memory(self) -> str:
        """The memory of an executor as text that both Spark and RayDP understand."""
        return f"{self.executor_memory_bytes >> 20}M"


def application(
    app_name: str,
    num_executors: int,
    executor_cores: int,
    executor_memory: str | int,
    configs: Mapping[str, Any] | None,
) -> Application:
    """Check the arguments of a session. Raises SessionError naming the argument and the value."""
    if not isinstance(app_name, str) or not app_name.strip():
        raise SessionError(f"app_name must be a name, got {app_name!r}")
    for name, value in (("num_executors", num_executors), ("executor_cores", executor_cores)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise SessionError(f"{name} must be a whole number of at least 1, got {value!r}")
    memory = memory_bytes(executor_memory)
    texts = _texts(configs or {})
    return Application(app_name, num_executors, executor_cores, memory, executor_cpus(texts, executor_cores), texts)


def memory_bytes(memory: str | int) -> int:
    """The bytes of "512m", "1g" or "1GB", as Spark reads them; a bare number is MiB. Raises SessionError."""
    match = _MEMORY.fullmatch(str(memory).strip())
    if match is None:
        raise SessionError(f'executor_memory must be an amount such as "512m" or "2g", got {memory!r}')
    size = int(match[1]) * _UNITS[match[2].lower()[:1]]
    if size < _LEAST_MEMORY:
        raise SessionError(f"executor_memory={memory!r} is too little: Spark's executors need at least 450m")
    return size


def spark_configs(
    app: Application, log: str, java_env: Mapping[str, str], own: Mapping[str, str] | None = None, jvm_option: str = ""
) -> dict[str, str]:
    """The caller's configs with everything that RayDP's `init_spark` needs, in a new dict.

    `java_env` is set in the environment of the JVMs that Ray starts. `own` are settings that stand above the caller's,
    and `jvm_option` is one more option of each JVM.
    """
    configs = {
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
        UI: "false",
        # RayDP's masters idle: with a CPU each they would wait for one that the executors have.
        "spark.ray.raydp_spark_master.actor.resource.CPU": "0",
        DRIVER_LOG: log,
    }
    configs |= {**app.configs, **(own or {})}
    for key in JVM_OPTIONS:
        configs[key] = f"{MODULE_FLAGS} {jvm_option} {configs.get(key, '')}".strip()
    # The JVM that makes RayDP's actors is a Ray driver of its own, with its own runtime environment.
    variables = (f"-Dray.job.runtime-env.env-vars.{name}={value}" for name, value in java_env.items())
    configs[MASTER_OPTIONS] = " ".join([configs[MASTER_OPTIONS], TAKES_MORE, *variables])
    return configs


def _texts(configs: Mapping[str, Any]) -> dict[str, str]:
    for key in configs:
        if _SECRET.search(key):
            raise SessionError(
                f"configs[{key!r}] may be a secret, and Spark's settings stand on command lines, for everybody to see: "
                "Kafka's credentials go by reference (kafka.sasl.password.file, kafka.ssl.keyfile), others into files"
            )
        if key in _BY_ARGUMENT:
            raise SessionError(f"configs[{key!r}] cannot be set: {_BY_ARGUMENT[key]} decides it")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in configs.items()}


def executor_cpus(configs: Mapping[str, str], executor_cores: int) -> float:
    """The CPUs that an executor takes in Ray by Spark's settings. Raises SessionError."""
    for key in _CPU_SHARE:
        if key in configs:
            try:
                return float(configs[key])
            except ValueError as error:
                raise SessionError(f"configs[{key!r}] must be a number of CPUs, got {configs[key]!r}") from error
    return float(executor_cores)
