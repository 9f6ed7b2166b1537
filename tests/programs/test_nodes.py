"""Three Ray nodes in one machine: brokers are spread over them, and a shard process stands on its broker's node.

Two of the nodes are in one rack.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.ray.support import ROOT, commit, committed, consumer, full_status, patient, read_all, topic, wait_until
from tests.support.ray_variables import TOKEN, without_ray

pytestmark = pytest.mark.timeout(400)  # three Ray nodes are slow to start on a busy machine

RACK_LABELS: list[dict[str, str]] = [
    {"ray.io/availability-zone": "a"},
    {"ray.io/availability-zone": "c", "coterie.io/rack": "a"},
    {"ray.io/availability-zone": "b"},
]
ADDRESSES = ("127.0.0.2", "127.0.0.3")
"""Those of the nodes that are not the head: brokers are placed by them."""
_LIMIT_SECONDS = 350
"""A scenario takes forty; ten times as long on a machine that others fill."""
HARDWARE: list[dict[str, Any]] = [{}, {"num_gpus": 2}, {"resources": {"scanner": 2}}]
PLACES: dict[str, dict[str, Any]] = {
    "label": {"label_selector": {"ray.io/availability-zone": "c"}},
    "gpu": {"num_gpus": 1},
    "resource": {"resources": {"scanner": 1}},
}
"""Ray options by which a pool's members may ask for a node."""


@contextlib.contextmanager
def three_nodes() -> Iterator[Any]:
    """Three Ray nodes, and this process connected to them."""
    import ray

    from tests.support.lean_nodes import LeanNodes

    quiet = {"include_dashboard": False, "object_store_memory": 80 << 20}
    head, *others = RACK_LABELS
    nodes = LeanNodes(initialize_head=True, head_node_args={"num_cpus": 1, "labels": head, **quiet})
    for at, labels, hardware in zip(ADDRESSES, others, HARDWARE[1:], strict=True):
        nodes.add_node(node_ip_address=at, num_cpus=1, object_store_memory=80 << 20, labels=labels, **hardware)
    try:
        ray.init(address=nodes.address, logging_level="ERROR", log_to_driver=False)
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


def brokers_on(nodes: Any, folder: str) -> Any:
    """A cluster of three brokers on these Ray nodes."""
    from actors.cluster import Cluster

    config = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "6"}
    return Cluster.start(3, name="nodes", ray_address=nodes.address, host="127.0.0.1", data_dir=folder, config=config)


def scenario(folder: str) -> dict[str, Any]:
    """Runs in a process of its own, for it needs a Ray of three nodes."""
    import ray

    with three_nodes() as nodes:
        with brokers_on(nodes, folder) as cluster:
            topic(cluster.bootstrap_servers, "t", 1)
            topic(cluster.bootstrap_servers, "two-replicas", 12, factor=2)
            for i in range(9):
                client = consumer(cluster.bootstrap_servers, f"g{i}")
                commit(client, "t", 1)
                client.close()
            found = wait_until(lambda: _known_to_ray(full_status(cluster)), what="three serving shards that Ray knows")
            found["driver_node"] = ray.get_runtime_context().get_node_id()
            found["node_racks"] = _racks_of_nodes()
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
            found["rack_of"] = {node.id: node.rack for node in admin.describe_cluster().result(20).nodes}
            partitions = admin.list_topics("two-replicas", timeout=20).topics["two-replicas"].partitions
            found["replicas"] = [partition.replicas for partition in partitions.values()]
            found["places"] = {what: _placed(cluster, options) for what, options in PLACES.items()}
        return found


def _placed(cluster: Any, options: dict[str, Any]) -> list[tuple[str, str | None]]:
    """The zone of each member of a pool with these options, and the GPUs it was given."""
    import ray

    from actors.members.pool import ConsumerPool
    from tests.ray.handlers import Placed

    zones = {node["NodeID"]: node["Labels"]["ray.io/availability-zone"] for node in ray.nodes() if node["Alive"]}
    servers = cluster.bootstrap_servers
    with ConsumerPool(
        "two-replicas", "placed", Placed, 2, bootstrap_servers=servers, ray_actor_options=options
    ) as pool:
        assert pool.wait(lambda: all(member.assignment for member in pool.status()), 150), pool.status()
        gpus = pool.call("gpus")
        return [(zones[member.node_id], gpu) for member, gpu in zip(pool.status(), gpus, strict=True)]


def _racks_of_nodes() -> dict[str, str]:
    """The rack that a broker must have on each living Ray node, by node id."""
    import ray

    labels = {node["NodeID"]: node["Labels"] for node in ray.nodes() if node["Alive"]}
    return {node: of.get("coterie.io/rack") or of["ray.io/availability-zone"] for node, of in labels.items()}


def _known_to_ray(found: dict[str, Any]) -> dict[str, Any] | None:
    """A status of three shards that serve or more, once Ray's books have the processes of all, with their nodes."""
    found["shard_nodes"] = _nodes_of_shards()
    shards = [shard for broker in found["brokers"] for shard in broker["shards"]]
    known = all(shard["pid"] in found["shard_nodes"] for shard in shards)
    return found if known and sum(shard["partition"] >= 0 for shard in shards) >= 3 else None


def _nodes_of_shards() -> dict[int, str]:
    """Ray's own word on where each process ran."""
    from ray._private.state import actors

    return {
        actor["Pid"]: actor["Address"]["NodeID"]
        for actor in actors().values()
        if actor["ActorClassName"].endswith("OffsetsPartition")
    }


def removal(folder: str) -> dict[str, Any]:
    """A Ray node with a broker is taken away under load, and another one comes under its address."""
    import ray

    from tests.ray.test_failover import Committer, Writer, longest_gap, whole

    with three_nodes() as nodes:
        with brokers_on(nodes, folder) as cluster:
            servers = cluster.bootstrap_servers
            topic(servers, "t", 3, factor=3, min_insync_replicas="2")
            with contextlib.ExitStack() as stack:
                committers = [stack.enter_context(Committer(consumer(servers, f"g{i}"), "t")) for i in range(6)]
                wait_until(lambda: all(c.last > 0 for c in committers), what="six shards")
                writer = stack.enter_context(Writer(servers, "t"))
                wait_until(lambda: whole(cluster, "t", "__consumer_offsets"), what="all replicas in sync")
                wait_until(lambda: len(writer.acknowledged) > 100 and all(c.last > 20 for c in committers))
                victim = next(node for node in nodes.worker_nodes if _has_broker(cluster, node.node_id))
                gone_at = time.monotonic()
                nodes.remove_node(victim, allow_graceful=False)
                wait_until(lambda: all(c.times[-1] > gone_at + 3 for c in committers), what="every group's commits")
                gap = max(longest_gap(c.times, gone_at) for c in committers)
                quiet = {"num_cpus": 1, "object_store_memory": 80 << 20}
                nodes.add_node(node_ip_address=victim.node_ip_address, labels={"coterie.io/rack": "d"}, **quiet)
                wait_until(lambda: whole(cluster, "t", "__consumer_offsets"), what="the broker's return")
            found = [patient(lambda i=i: committed(consumer(servers, f"g{i}"), "t", 1))[0] for i in range(6)]
            stored = read_all(servers, "t", len(writer.acknowledged))
            racks = _racks_of_nodes()
            return {
                "gap_s": gap,
                "failed": writer.failed,
                "records_lost": len(writer.acknowledged - stored),
                "commits_lost": sum(at < each.last for at, each in zip(found, committers, strict=True)),
                "racks": [(broker["rack"], racks[broker["node_id"]]) for broker in full_status(cluster)["brokers"]],
                "ray": ray.__version__,
            }


def _has_broker(cluster: Any, node_id: str) -> bool:
    return any(broker["node_id"] == node_id for broker in full_status(cluster)["brokers"])


def in_a_process(
    function: str, folder: Path, module: str = __name__, tokens: Mapping[str, str] = TOKEN
) -> dict[str, Any]:
    """Run a function of a module, as those above, in a process of its own, and return what it returns.

    One that takes too long ends itself, and says where each of its threads was.
    """
    limit = f"import faulthandler; faulthandler.dump_traceback_later({_LIMIT_SECONDS}, exit=True)"
    call = f"import json; from {module} import {function} as f; print(json.dumps(f({str(folder)!r})))"
    environment = without_ray() | tokens
    environment["TMPDIR"] = tempfile.gettempdir()
    environment["PYTHONPATH"] = str(ROOT)  # Ray's workers import the handlers of the tests
    environment["RAY_raylet_start_wait_time_s"] = "60"  # Ray's ten are not enough for a busy machine
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{limit}; {call}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECONDS + 10,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.conformance("N-A-07")
def test_a_ray_node_that_is_taken_away_loses_nothing_and_its_broker_comes_back_with_the_next(tmp_path: Path) -> None:
    found = in_a_process("removal", tmp_path)
    assert (found["failed"], found["records_lost"], found["commits_lost"]) == (0, 0, 0), found
    assert found["gap_s"] < 40
    assert all(rack == of_node for rack, of_node in found["racks"]), found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return in_a_process("scenario", tmp_path_factory.mktemp("nodes"))


def test_brokers_are_spread_over_nodes_and_each_shard_is_where_its_broker_is(found: dict[str, Any]) -> None:
    nodes = [broker["node_id"] for broker in found["brokers"]]
    assert len(set(nodes)) == 3
    assert found["controller_node_id"] == found["driver_node"], "beside its log"
    serving = 0
    for broker in found["brokers"]:
        for shard in broker["shards"]:
            assert found["shard_nodes"][str(shard["pid"])] == broker["node_id"]
            serving += shard["partition"] >= 0
    assert serving >= 3


def test_brokers_have_the_racks_of_their_nodes_and_two_replicas_stand_in_two_racks(found: dict[str, Any]) -> None:
    rack_of = {broker["id"]: broker["rack"] for broker in found["brokers"]}
    assert rack_of == {broker["id"]: found["node_racks"][broker["node_id"]] for broker in found["brokers"]}
    assert sorted(rack_of.values()) == ["a", "a", "b"]
    assert {int(broker): rack for broker, rack in found["rack_of"].items()} == rack_of, "as Metadata says"
    assert all(len({rack_of[broker] for broker in replicas}) == 2 for replicas in found["replicas"])


def test_members_of_a_pool_are_where_their_label_gpu_or_resource_is(found: dict[str, Any]) -> None:
    zones = {what: [zone for zone, _ in members] for what, members in found["places"].items()}
    assert zones == {"label": ["c", "c"], "gpu": ["c", "c"], "resource": ["b", "b"]}
    assert sorted(gpu for _, gpu in found["places"]["gpu"]) == ["0", "1"], "each has one of its own"
