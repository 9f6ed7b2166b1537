"""One embedded Ray, a cluster of three brokers and one Spark session for the folder. Nothing is left at the end."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import ray
from ray._private.utils import write_ray_address

import spark_bridge
from actors.client import Admin
from actors.cluster import WARM, Cluster
from actors.runtime import ray_runtime
from spark_bridge.spark_config import UI
from tests.compat.apache_kafka import spark_connector_settings
from tests.compat.named_peers import start as start_peer
from tests.compat.peers import UnavailableError
from tests.spark.support import FAST, FAST_SPARK, JOB_SERVER, SMALL, assert_gone, jvms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The first test starts Ray, a cluster and Spark, too; that alone has taken two minutes on a busy machine.
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="package")
def embedded_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Ray in this process; every process it has started is gone afterwards."""
    token = tmp_path_factory.mktemp("ray") / "ray-token"
    with job_server() as options:
        ray_runtime.start_embedded(token, warm=WARM, num_cpus=6, object_store_memory=200 << 20, **options)
        if folder := options.get("folder"):
            # As `ray start` does: the job server asks this file which of the machine's Rays is its own.
            write_ray_address(ray.get_runtime_context().gcs_address, str(folder))
        yield
        family = psutil.Process().children(recursive=True)
        ray_runtime.end()
        assert_gone(family)


@contextlib.contextmanager
def job_server() -> Iterator[dict[str, Any]]:
    """The arguments with which ray.init serves `ray job submit`, if that is installed."""
    if not JOB_SERVER.is_dir():
        yield {}
        return
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="ray-") as folder,
    ):  # a short path: it has Unix sockets
        patch.setenv("PYTHONPATH", str(JOB_SERVER), prepend=os.pathsep)  # for the processes that Ray starts
        patch.setattr(sys, "path", [*sys.path, str(JOB_SERVER)])  # and for this one, which checks that all is there
        before = set(sys.modules)
        yield {"include_dashboard": True, "dashboard_host": "127.0.0.1", "folder": Path(folder)}
        for name in set(sys.modules) - before:
            if name.startswith("ray.dashboard.") or _is_below(sys.modules[name], JOB_SERVER):
                del sys.modules[name]  # else the next Ray of this process finds all there, and its agents find nothing


def _is_below(module: ModuleType, folder: Path) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(f"{folder}{os.sep}")


@pytest.fixture(scope="package")
def cluster(embedded_ray: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers."""
    config = FAST | {"log.retention.ms": "-1", "coterie.metrics.ray": "true"}
    with Cluster.start(3, name="spark", data_dir=tmp_path_factory.mktemp("data"), config=config) as cluster:
        yield cluster


@pytest.fixture
def servers(cluster: Cluster) -> str:
    return str(cluster.bootstrap_servers)


@pytest.fixture(params=["coterie", "kfake", "kafka"])
def each_servers(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """Our own brokers, and others'."""
    with contextlib.ExitStack() as stack:
        if request.param == "coterie":
            yield cluster.bootstrap_servers
            return
        try:
            peer = stack.enter_context(start_peer(request.param, tmp_path))
        except UnavailableError as reason:
            pytest.skip(f"{request.param} cannot run here: {reason}")
        yield peer.bootstrap_servers


@pytest.fixture
def admin(servers: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=servers) as admin:
        yield admin


@pytest.fixture(scope="package")
def spark(cluster: Cluster) -> Iterator[SparkSession]:
    """Two executors of one core on the Ray of the cluster; its processes are gone when it has stopped.

    All options beyond the defaults are on; other sessions of the tests have the defaults. Spark's own connector to
    Kafka is there where it can be had.
    """
    before = jvms()
    configs = {**FAST_SPARK, UI: "true"}
    with contextlib.suppress(UnavailableError):
        configs |= spark_connector_settings()
    with spark_bridge.session("tests", 2, 1, SMALL, configs, encrypted=True) as spark:
        yield spark
        family = [jvm for jvm in jvms() if jvm not in before]
    assert_gone(family)


@pytest.fixture
def name() -> str:
    """A topic or group nobody else of this run uses."""
    return f"s{next(_numbers)}"


@pytest.fixture
def topic_name(name: str) -> str:
    """A topic's name nobody else of this run uses."""
    return f"{name}-topic"


@pytest.fixture(scope="package")
def without_java(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every program of this PATH but java."""
    folder = tmp_path_factory.mktemp("programs")
    for each in os.environ["PATH"].split(os.pathsep):
        for program in Path(each).iterdir() if Path(each).is_dir() else ():
            link = folder / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    assert shutil.which("java", path=str(folder)) is None
    return folder
