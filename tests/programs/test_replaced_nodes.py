"""The Ray node with the controller and the broker is lost, and another one comes with its label and its disk.

It has another address. A node that comes at the same address is in test_nodes.py.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from tests.programs.test_nodes import in_a_process
from tests.ray.support import full_status, produce, read_all, topic, wait_until

pytestmark = pytest.mark.timeout(400)  # three Ray nodes are slow to start on a busy machine

SMALL: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20}
LABEL = {"coterie.io/node": "disk-a"}
NAME = "replaced"


def start(folder: str) -> list[str]:
    """Start a cluster whose controller is where this runs, and return the notes of the start."""
    from actors.cluster import Cluster

    config = {"coterie.monitor": "false", "broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
    cluster = Cluster.start(1, name=NAME, data_dir=folder, config=config, insecure=True)
    cluster.disconnect()
    return list(cluster.notes)


def scenario(folder: str) -> dict[str, Any]:
    """Runs in a process of its own, for it needs a Ray of two nodes."""
    import ray

    from actors.cluster import Cluster
    from placement.nodes import beside
    from tests.support.lean_nodes import LeanNodes

    nodes = LeanNodes(initialize_head=True, head_node_args={"include_dashboard": False, **SMALL})
    try:
        lost = nodes.add_node(node_ip_address="127.0.0.2", labels=LABEL, **SMALL)
        ray.init(address=nodes.address, logging_level="ERROR", log_to_driver=False)
        there = ray.remote(num_cpus=0)(start).options(**beside(lost.node_id))
        notes = ray.get(there.remote(folder))
        with Cluster.connect(name=NAME) as cluster:
            before = _places(cluster)
            topic(cluster.bootstrap_servers, "t", 1)
            produce(cluster.bootstrap_servers, "t", [b"%d" % i for i in range(40)])
        nodes.remove_node(lost, allow_graceful=True)  # Ray is told: it would take it 15 s to see
        found = nodes.add_node(node_ip_address="127.0.0.3", labels=LABEL, **SMALL)
        after = wait_until(_serving, what="the controller and the broker")
        with Cluster.connect(name=NAME) as cluster:
            records = len(read_all(cluster.bootstrap_servers, "t", 40))
        Cluster.end(name=NAME)
    finally:
        ray.shutdown()
        nodes.shutdown()
    return {
        "notes": notes,
        "before": before,
        "after": after,
        "records": records,
        "nodes": [lost.node_id, found.node_id],
    }


def _places(cluster: Any) -> dict[str, Any]:
    found = full_status(cluster)
    nodes = [found["controller_node_id"], *(broker["node_id"] for broker in found["brokers"])]
    return {"nodes": nodes, "hosts": [broker["host"] for broker in found["brokers"]]}


def _serving() -> dict[str, Any] | None:
    """The cluster's nodes and hosts, once it serves again. Ray and the controller may not know yet of a lost node."""
    import ray

    from actors.cluster import Cluster, ClusterError

    with contextlib.suppress(ClusterError, ray.exceptions.RayError), Cluster.connect(name=NAME) as cluster:
        brokers = cluster.status()["brokers"]
        return _places(cluster) if brokers and brokers[0]["pid"] else None
    return None


@pytest.mark.conformance("N-A-03", "N-A-07")
def test_the_controller_and_its_broker_start_again_on_the_next_node_with_their_disk(tmp_path: Path) -> None:
    """The controller was gone for good: Ray gives an actor up that has the id of a node that is lost."""
    found = in_a_process("scenario", tmp_path, __name__)
    first, second = found["nodes"]
    assert found["before"] == {"nodes": [first, first], "hosts": ["127.0.0.2"]}, "nothing on the head"
    assert found["after"] == {"nodes": [second, second], "hosts": ["127.0.0.3"]}
    assert found["records"] == 40
    (line,) = [each for each in found["notes"] if "its state in memory" in each]
    assert "RAY_gcs_storage_path" in line
