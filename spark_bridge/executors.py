"""What the bridge asks any SparkSession: how many executors and task slots it has, and whether it can be used.

`executor_changes` asks for more executors, or for fewer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_bridge.spark_config import SessionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEWEST_JAVA: Final = 17


def executor_count(spark: SparkSession) -> int:
    """How many executors are registered now; 1 if Spark runs in one JVM (`local[n]`). Raises SessionError."""
    context = context_of(spark)
    if context.master.startswith("local") and not context.master.startswith("local-cluster"):
        return 1
    infos = context._jsc.sc().statusTracker().getExecutorInfos()
    return len(infos) - 1  # the driver is listed, too


def task_slots(spark: SparkSession) -> int:
    """How many tasks can run at once, as far as Spark knows now; at least 1. Raises SessionError."""
    return max(1, int(context_of(spark).defaultParallelism))


def prepare(spark: SparkSession) -> int:
    """Check that the bridge can use this session, and return how many executors it has, at least 1.

    A session made with `getOrCreate` can be used: `local[n]`, or a cluster whose executors can import this package.
    Raises SessionError saying what is wrong with the session.
    """
    context = context_of(spark)
    version = str(context._jvm.java.lang.System.getProperty("java.specification.version"))
    major = int(version.split(".")[-1])
    if major > _NEWEST_JAVA:
        raise SessionError(
            f"this SparkSession runs on Java {version}, on which Spark {spark.version} cannot hand Arrow data to "
            f"Python: start it with JAVA_HOME set to a Java {_NEWEST_JAVA}"
        )
    wanted = context.getConf().get("spark.executor.instances")
    return max(executor_count(spark), int(wanted) if wanted and wanted.isdigit() else 1, 1)


def context_of(spark: SparkSession):  # type: ignore[no-untyped-def]
    """The session's SparkContext, with its JVM. Raises SessionError."""
    context = getattr(spark, "_sc", None)
    if context is None:
        raise SessionError(
            f"{type(spark).__name__} is not a classic SparkSession: Spark Connect hides its executors, so make the "
            "session with spark_bridge.session or SparkSession.builder without remote()"
        )
    if context._jsc is None:
        raise SessionError("this SparkSession has been stopped")
    return context
