"""`session`: a SparkSession on RayDP, with everything set that PySpark on Ray needs, and stopped cleanly.

spark_config has its settings, ray_nodes the choice of its executors' nodes, launch the start and end of its JVMs. Ray
and Spark are imported only when a session is made, so that `import spark_bridge` is cheap.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import platform
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.runtime.environment import REAL, Chance, Clock, Environment
from spark_bridge import encryption
from spark_bridge.java import Java, JavaError, find_java, java_environment
from spark_bridge.spark_config import (
    UI,
    Application,
    SessionError,
    SparkMissingError,
    application,
    spark_configs,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SessionError", "SparkMissingError", "session"]

_one_at_a_time: Final = threading.Lock()  # RayDP keeps its application in a global


@contextlib.contextmanager
def session(
    app_name: str,
    num_executors: int = 2,
    executor_cores: int = 1,
    executor_memory: str | int = "1g",
    configs: Mapping[str, Any] | None = None,
    ray_address: str | None = None,
    encrypted: bool | str = False,
    environment: Environment = REAL,
) -> Iterator[SparkSession]:
    """A SparkSession whose executors are actors on Ray, beside the brokers of Coterie's clusters there.

    It uses the Ray that this process is connected to; else the one at `ray_address` or RAY_ADDRESS; else an embedded
    one, which ends with the session. `executor_memory` is written as in Spark ("512m", "2g"); `configs` are Spark's
    settings and are not changed. With `encrypted`, Spark's own connections are authenticated and encrypted, by a secret
    that is made for the session; where Ray has several nodes, by that in a file of this path on each of them, made with
    `python -m spark_bridge.encryption FILE`. A process has one session at a time. While it starts, which takes 10 to 25
    seconds, file descriptors 1 and 2 point to a log file, which errors and the setting `spark.coterie.driver.log` name.

    Raises SessionError, in one line, for arguments that cannot work, too few resources, the wrong Java or a start that
    fails; and SparkMissingError, which is one, where PySpark or RayDP is not installed.
    """
    app = application(app_name, num_executors, executor_cores, executor_memory, configs)
    check_installed()
    if not _one_at_a_time.acquire(blocking=False):
        raise SessionError("this process has a Spark session on RayDP already: leave its `with` block first")
    try:
        java = _java()
        _refuse_running_session()
        with _ray(app, java, ray_address, environment.chance) as owned:
            with _secret_file(encrypted) as file:
                yield from _run(app, java, owned, file, environment.clock)
    finally:
        _one_at_a_time.release()


def check_installed(find: Callable[[str], object] = importlib.util.find_spec) -> None:
    """Raise SparkMissingError if PySpark or RayDP is not there: where RayDP serves no such Python, neither is."""
    missing = [name for name in ("pyspark", "raydp") if find(name) is None]
    if missing:
        raise SparkMissingError(
            f"Spark on Ray needs {' and '.join(missing)}, which is installed with Coterie on Python 3.11, the newest "
            f"that RayDP serves; this is {platform.python_version()}. A SparkSession of your own does without: "
            "pip install pyspark"
        )


def _run(app: Application, java: Java, owned: bool, secret_file: str | None, clock: Clock) -> Iterator[SparkSession]:
    from actors.runtime.ray_runtime import process_environment
    from spark_bridge import launch, ray_nodes

    ray_nodes.refuse_taken_namespace()
    expect_unclosed_sockets()
    with launch.interrupts_restored(), ray_nodes.placed(app, clock) as group:
        java_env = {} if owned else ray_nodes.java_env_of_nodes(sys.executable)
        log = _log_file(app)
        try:
            own = encryption.encrypting(secret_file) if secret_file is not None else ({}, "")
            with process_environment(_environment(java, app)):
                spark = launch.start(app, spark_configs(app, log, java_env, *own), group, java_env, log, clock)
            yield spark
        finally:
            in_order = launch.stop()
            ray_nodes.wait_until_gone(app, in_order, clock)
        with contextlib.suppress(OSError):
            os.unlink(log)  # it stays where there was an error to look for


def expect_unclosed_sockets() -> None:
    """Silence Python's warnings of sockets that PySpark leaves open: one to this machine for each `collect()`."""
    ends = r"laddr=\('127\.0\.0\.1', \d+\), raddr=\('127\.0\.0\.1', \d+\)"
    warnings.filterwarnings("ignore", f"unclosed <socket.socket .*{ends}", ResourceWarning, "socket")


@contextlib.contextmanager
def _secret_file(encrypted: bool | str) -> Iterator[str | None]:
    """Within the block there is a file with the secret of Spark's connections; None if they are not to be encrypted."""
    from spark_bridge import ray_nodes

    if not encrypted:
        yield None
    elif encrypted is not True:
        ray_nodes.check_secret_file(str(encrypted))
        yield str(encrypted)
    elif ray_nodes.is_single():
        with tempfile.TemporaryDirectory(prefix="coterie-spark-") as folder:
            encryption.write_secret(Path(folder) / "secret")
            yield f"{folder}/secret"
    else:
        raise SessionError(
            "encrypted=True is for a Ray of one node, as the secret of Spark's connections does not go through Ray: "
            "make a file with `python -m spark_bridge.encryption FILE`, copy it to each node, and give its path"
        )


def _environment(java: Java, app: Application) -> dict[str, str]:
    # PySpark asks for the interpreter by name otherwise, and gets the first python3 on PATH.
    pythons = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {**java_environment(java), **pythons, **_pages(app)}


def _pages(app: Application) -> dict[str, str]:
    """The variable that places the driver's pages, if any: Spark has no setting for it. All else has its address."""
    wanted = app.configs.get(UI, "false") == "true" and "SPARK_LOCAL_IP" not in os.environ
    return {"SPARK_LOCAL_IP": "127.0.0.1"} if wanted else {}


def _refuse_running_session() -> None:
    from spark_bridge import launch

    launch.refuse_running_session()


def _java() -> Java:
    try:
        return find_java()
    except JavaError as error:
        raise SessionError(str(error)) from error


@contextlib.contextmanager
def _ray(app: Application, java: Java, ray_address: str | None, chance: Chance) -> Iterator[bool]:
    """Within the block, this process is connected to a Ray. Yields whether the session has started it."""
    import ray

    from actors.runtime import ray_runtime

    if ray.is_initialized():
        _check_address(ray.get_runtime_context().gcs_address, ray_address)
        yield False
        return
    address = ray_address or os.environ.get("RAY_ADDRESS")  # `ray job submit` sets it
    if address is not None and "://" in address:
        raise SessionError(
            f"ray_address={address!r} is not host:port: Spark's driver must run on a node of the Ray cluster, so run "
            "the script there and give the cluster's host:port, or hand the script to `ray job submit`"
        )
    # RayDP's actors have fixed names: every application needs a namespace of its own.
    namespace = f"spark-{app.name}-{chance.randbytes(4).hex()}"
    with tempfile.TemporaryDirectory(prefix="coterie-spark-") as folder:
        try:
            if address is None:
                # Executors of a Ray that is there for them alone may be more than the machine has cores.
                cpus = max(os.cpu_count() or 1, math.ceil(app.num_executors * app.executor_cpus))
                ray_runtime.start_embedded(
                    Path(folder) / "ray-token",
                    java_environment(java),
                    namespace=namespace,
                    num_cpus=cpus,
                )
            else:
                ray_runtime.connect(address, namespace=namespace)
        except ray_runtime.ClusterError as error:
            raise SessionError(str(error)) from error
        try:
            yield address is None
        finally:
            ray_runtime.end()


def _check_address(connected: str, wanted: str | None) -> None:
    """Raise SessionError if the Ray that is connected has another port. Addresses may differ: a machine has several."""
    if wanted is not None and connected.rpartition(":")[2] != wanted.rpartition(":")[2]:
        raise SessionError(
            f"ray_address={wanted!r}, but this process is connected to the Ray at {connected}: leave ray_address out, "
            "or call ray.shutdown() first"
        )


def _log_file(app: Application) -> str:
    name = "".join(c if c.isalnum() else "-" for c in app.name)
    handle, path = tempfile.mkstemp(prefix=f"coterie-spark-{name}-", suffix=".log")
    os.close(handle)
    return path
