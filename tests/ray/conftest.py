"""One embedded Ray for the folder, and clusters on it under names of their own. Nothing may be left at the end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from actors.cluster import WARM, Cluster
from actors.runtime import ray_runtime
from tests.ray.support import FAST, assert_gone

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def embedded_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Ray in this process; every process it has started is gone afterwards."""
    token = tmp_path_factory.mktemp("ray") / "ray-token"
    ray_runtime.start_embedded(token, warm=WARM, num_cpus=4, object_store_memory=80 << 20)
    yield
    family = psutil.Process().children(recursive=True)
    ray_runtime.end()
    assert_gone(family)


@pytest.fixture(scope="package")
def start(embedded_ray: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Cluster]:
    """Start a cluster under a name nobody else has."""

    def start(brokers: int = 1, data_dir: Path | None = None, controllers: int = 1, **config: str) -> Cluster:
        number = next(_numbers)
        settings = FAST | {name.replace("_", "."): value for name, value in config.items()}
        folder = data_dir or tmp_path_factory.mktemp(f"c{number}")
        name = f"test-{number}"
        return Cluster.start(brokers, name=name, data_dir=folder, config=settings, controllers=controllers)

    return start


@pytest.fixture(scope="package")
def shared(start: Callable[..., Cluster]) -> Iterator[Cluster]:
    """Three brokers that the tests which kill nobody's broker share. Their Monitor does all that a Monitor can do."""
    seen = {"coterie_console_port": "0", "coterie_metrics_port": "0", "coterie_metrics_ray": "true"}
    with start(brokers=3, **seen) as cluster:
        yield cluster


@pytest.fixture
def name() -> str:
    """A topic or group nobody else of this run uses."""
    return f"n{next(_numbers)}"
