"""Questions of the bridge to any SparkSession: how many executors and task slots it has, and whether it can be used.

`executor_changes` asks for more executors, or for fewer.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_bridge.spark_config import SessionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEWEST_JAVA: Final = {3: 17}
"""By Spark's major version: the last Java on which it hands Arrow data to Python. Spark 4 does on all it knows."""
_PACKAGE_FOLDER: Final = str(Path(__file__).resolve().parent.parent)
ENDED: Final = "the Spark session has ended"


def executor_count(spark: SparkSession) -> int:
    """The number of executors that are registered now; 1 if Spark runs in one JVM (`local[n]`). Raises SessionError."""
    context = context_of(spark)
    if context.master.startswith("local") and not context.master.startswith("local-cluster"):
        return 1
    infos = context._jsc.sc().statusTracker().getExecutorInfos()
    return len(infos) - 1  # the driver is listed, too


def prepare(spark: SparkSession) -> int:
    """Check that the bridge can use this session, and return how many executors it has, at least 1.

    A session made with `getOrCreate` can be used: `local[n]`, or a cluster whose executors can import this package.
    Raises SessionError saying what is wrong with the session.
    """
    context = context_of(spark)
    version = str(context._jvm.java.lang.System.getProperty("java.specification.version"))
    newest = _NEWEST_JAVA.get(int(spark.version.partition(".")[0]))
    if newest is not None and int(version.split(".")[-1]) > newest:
        raise SessionError(
            f"this SparkSession runs on Java {version}, on which Spark {spark.version} cannot hand Arrow data to "
            f"Python: start it with JAVA_HOME set to a Java {newest}"
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
    check_session(spark)
    return context


def has_ended(spark: SparkSession) -> bool:
    """True if the session was stopped, or its JVM has ended. Of one of Spark Connect nothing is known here."""
    context = getattr(spark, "_sc", None)
    if context is None:
        return False
    try:
        return bool(context._jsc.sc().isStopped())
    except Exception:  # PySpark has dropped its JVM, or nobody answers there: py4j's errors have no common class
        return True


def check_session(spark: SparkSession) -> None:
    """Raise SessionError if the session has ended: PySpark itself would name an attribute of None.

    Tasks of a session that runs in one JVM (`local[n]`) are then run by this interpreter, and find this package.
    PySpark takes the first python3 on PATH, which is another one if no environment is activated. A PYSPARK_PYTHON
    that is set stays, and so does the Python of a cluster's machines.
    """
    if has_ended(spark):
        raise SessionError(f"{ENDED}: use one that has not been stopped")
    context = getattr(spark, "_sc", None)
    if context is None or not context.master.startswith("local"):
        return
    if not os.environ.get("PYSPARK_PYTHON"):
        context.pythonExec = sys.executable
    paths = context.environment.get("PYTHONPATH", "").split(os.pathsep)
    if _PACKAGE_FOLDER not in paths:
        context.environment["PYTHONPATH"] = os.pathsep.join([*filter(None, paths), _PACKAGE_FOLDER])
