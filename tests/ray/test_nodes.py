"""Three Ray nodes in one machine: brokers are spread over them, and a shard process stands on its broker's node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.ray.support import ROOT, commit, consumer, topic, wait_until


def scenario(folder: str) -> dict[str, Any]:
    """Runs in a process of its own, for it needs a Ray of three nodes."""
    import ray
    from ray.cluster_utils import Cluster as Nodes

    from actors.cluster import Cluster

    quiet = {"include_dashboard": False, "object_store_memory": 80 << 20}
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 1, **quiet})
    for _ in range(2):
        nodes.add_node(num_cpus=1, object_store_memory=80 << 20)
    try:
        ray.init(address=nodes.address, logging_level="ERROR", log_to_driver=False)
        config = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "6"}
        with Cluster.start(
            3, name="nodes", ray_address=nodes.address, host="127.0.0.1", data_dir=folder, config=config
        ) as cluster:
            topic(cluster.bootstrap_servers, "t", 1)
            for i in range(9):
                client = consumer(cluster.bootstrap_servers, f"g{i}")
                commit(client, "t", 1)
                client.close()
            wait_until(lambda: len(cluster.shard_pids()) >= 3)
            found = cluster.status()
            found["driver_node"] = ray.get_runtime_context().get_node_id()
            found["shard_nodes"] = _nodes_of_shards()
        return found
    finally:
        ray.shutdown()
        nodes.shutdown()


def _nodes_of_shards() -> dict[int, str]:
    """Ray's own word on where each process ran."""
    from ray._private.state import actors

    return {
        actor["Pid"]: actor["Address"]["NodeID"]
        for actor in actors().values()
        if actor["ActorClassName"].endswith("OffsetsPartition")
    }


def test_brokers_are_spread_over_nodes_and_each_shard_is_where_its_broker_is(tmp_path: Path) -> None:
    code = f"import json; from tests.ray.test_nodes import scenario; print(json.dumps(scenario({str(tmp_path)!r})))"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment["RAY_AUTH_MODE"] = "disabled"
    environment["TMPDIR"] = tempfile.gettempdir()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    nodes = [broker["node_id"] for broker in found["brokers"]]
    assert len(set(nodes)) == 3
    assert found["controller_node_id"] == found["driver_node"], "beside its log"
    serving = 0
    for broker in found["brokers"]:
        for shard in broker["shards"]:
            assert found["shard_nodes"][str(shard["pid"])] == broker["node_id"]
            serving += shard["partition"] >= 0
    assert serving >= 3
