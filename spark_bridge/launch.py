"""Start and end RayDP's application and the JVM of this process. Imported only when a session is asked for."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

import ray
from pyspark import SparkContext
from pyspark.sql import SparkSession

from actors.runtime import ray_inside
from actors.runtime.environment import REAL, Clock
from spark_bridge import encryption
from spark_bridge.executors import executor_count
from spark_bridge.spark_config import DRIVER_OPTIONS, Application, SessionError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of packages that RayDP imports; PySpark above sets a filter for good
    import raydp
    import raydp.spark.ray_cluster

_log = logging.getLogger(__name__)

START_SECONDS: Final = 180.0
_EXECUTORS_SECONDS: Final = 120.0
_JVM_EXIT_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05


def refuse_running_session() -> None:
    """Raise SessionError if this process runs a SparkSession, because PySpark would silently use that one."""
    context = SparkContext._active_spark_context
    if context is not None:
        raise SessionError(
            f"this process runs a SparkSession already ({context.appName!r} on {context.master}): use it as it is, "
            "or call its stop() before you start one on RayDP"
        )
    _end_jvm()  # PySpark keeps the JVM of a stopped session, which has none of the options of a new one


def start(
    app: Application,
    configs: dict[str, str],
    group: Any,
    java_env: Mapping[str, str],
    log: str,
    clock: Clock = REAL.clock,
) -> SparkSession:
    """Start RayDP's application and wait for all its executors. RayDP changes `configs`.

    Raises SessionError naming `log`.
    """
    overdue = _Watchdog(app)
    # RayDP's agent in the driver's JVM would log where this machine's newest Ray does, which may be another, or gone.
    logs = ray_inside.logs_folder()
    configs[DRIVER_OPTIONS] = f"{configs.get(DRIVER_OPTIONS, '')} -Dray.logging.dir={logs}".strip()
    try:
        with overdue, _output_to(log), _master_environment(java_env), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spark = raydp.init_spark(
                app.name,
                app.num_executors,
                app.executor_cores,
                app.executor_memory,
                placement_group=group,
                configs=configs,
            )
            if configs.get("spark.authenticate") == "true":
                encryption.settle(spark)
            _wait_for_executors(spark, app, clock)
    except SessionError as error:
        raise SessionError(f"{error}; the log is {log}") from error
    except Exception as error:  # RayDP, Ray and py4j raise many kinds, without a common class
        why = f"not within {START_SECONDS:.0f} s" if overdue.bitten else _first_line(error)
        raise SessionError(f"Spark session {app.name!r} did not start: {why}; the log is {log}") from error
    return spark


def stop() -> bool:
    """End RayDP's application, if there is one, and this process's JVM. Returns whether both ended in order."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            raydp.stop_spark()
    except Exception as error:  # of a JVM or a Ray that has died: what it was is said where it was used
        _log.warning("the Spark session did not stop in order: %s", _first_line(error))
        return False
    finally:
        _end_jvm()
    return True


def _wait_for_executors(spark: SparkSession, app: Application, clock: Clock) -> None:
    deadline = clock.monotonic() + _EXECUTORS_SECONDS
    while (count := executor_count(spark)) < app.num_executors:
        if clock.monotonic() > deadline:
            raise SessionError(
                f"only {count} of num_executors={app.num_executors} executors of Spark session {app.name!r} have come "
                f"up within {_EXECUTORS_SECONDS:.0f} s: is the Ray cluster out of CPUs or memory (`ray status`)?"
            )
        clock.sleep(_POLL_SECONDS)


def _end_jvm() -> None:
    """End PySpark's JVM, which outlives its sessions, by closing its standard input."""
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    # A session whose JVM has died cannot be stopped; PySpark would go on believing in it.
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    if gateway is None:
        return
    with contextlib.suppress(Exception):  # py4j's errors have no common class; a dead JVM is what we want
        gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        try:
            process.wait(_JVM_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def interrupts_restored() -> Iterator[None]:
    """After the block, Ctrl-C does what it did before: PySpark's handler would ask a JVM that has ended."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _output_to(path: str) -> Iterator[None]:
    """Within the block, standard output and error go to a file, also those of JVMs that are started in it."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, target in zip(saved, (1, 2), strict=True):
            os.dup2(descriptor, target)
            os.close(descriptor)
        os.close(log)


@contextlib.contextmanager
def _master_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Within the block, RayDP's master, which starts `java` by name, gets these variables; it has no option for it."""
    if not variables:
        yield
        return
    module = raydp.spark.ray_cluster
    original = module.RayDPSparkMaster
    module.RayDPSparkMaster = _WithEnvironment(original, dict(variables))
    try:
        yield
    finally:
        module.RayDPSparkMaster = original


class _WithEnvironment:
    """An actor class whose `options` always sets a runtime environment."""

    def __init__(self, actor_class: Any, variables: dict[str, str]) -> None:
        self._actor_class = actor_class
        self._variables = variables

    def options(self, **options: Any) -> Any:
        return self._actor_class.options(runtime_env={"env_vars": self._variables}, **options)


class _Watchdog:
    """Ends what `init_spark` waits for when it takes too long, because it would wait forever."""

    def __init__(self, app: Application) -> None:
        self.bitten = False
        self._master = app.name + "_SPARK_MASTER"
        self._timer = threading.Timer(START_SECONDS, self._bite)
        self._timer.daemon = True

    def _bite(self) -> None:
        self.bitten = True
        with contextlib.suppress(ValueError):
            ray.kill(ray.get_actor(self._master))
        gateway = SparkContext._gateway
        if gateway is not None and getattr(gateway, "proc", None) is not None:
            gateway.proc.kill()

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


def _first_line(error: BaseException) -> str:
    said = str(getattr(error, "cause", None) or error)  # Ray wraps what an actor raised
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
