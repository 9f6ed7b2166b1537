"""Programs that deploy a pool, or look at one, each in a process of its own: `python -m tests.ray.deploying ...`."""

from __future__ import annotations

import sys
import threading
from typing import Any

from actors.cluster import Cluster
from actors.members.pool import ConsumerPool
from tests.ray.handlers import Witnessed


def deploy(data_dir: str, name: str, folder: str, size: str) -> None:
    """Deploy a pool, say so, and stay."""
    cluster = Cluster.connect(data_dir=data_dir)
    settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "handler_args": (folder, 0.002)}
    ConsumerPool.deploy(name, name, name, Witnessed, int(size), **settings)
    print("deployed", flush=True)  # noqa: T201
    threading.Event().wait()


def look(data_dir: str, name: str) -> None:
    """Say how a pool is once its members have partitions, and how many there are."""
    with Cluster.connect(data_dir=data_dir) as cluster:
        pool = ConsumerPool.attach(name, bootstrap_servers=cluster.bootstrap_servers)
        assert pool.wait(lambda found: bool(found.members) and all(m.assignment for m in found.members), 150)
        found = pool.describe()
        print(found.state, found.version, found.size, len(found.members), flush=True)  # noqa: T201


if __name__ == "__main__":
    {"deploy": deploy, "look": look}[sys.argv[1]](*sys.argv[2:])
