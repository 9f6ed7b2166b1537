"""Ray drains a node of three: the members of a pool that are there go elsewhere before it ends."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.programs.test_nodes import in_a_process, three_nodes
from tests.ray.handlers import Recorder, handled
from tests.ray.support import produce, topic, wait_until
from tests.support.ray_variables import NO_TOKENS

pytestmark = pytest.mark.timeout(400)  # three Ray nodes are slow to start on a busy machine

PARTITIONS = 6


def drain(address: str, node_id: str) -> None:
    """Say, as Ray's autoscaler does, that a node is about to be taken away."""
    ray = Path(sys.executable).parent / "ray"
    node = ["--address", address, "--node-id", node_id, "--deadline-remaining-seconds", "300"]
    why = ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "the cloud wants it back"]
    subprocess.run([str(ray), "drain-node", *node, *why], check=True, capture_output=True, timeout=120)


def scenario(folder: str) -> dict[str, Any]:
    """Runs in a process of its own, for it needs a Ray of three nodes."""
    from actors.cluster import Cluster

    config = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
    with three_nodes() as nodes:
        here = {"ray_address": nodes.address, "host": "127.0.0.1", "data_dir": f"{folder}/data"}
        with Cluster.start(1, name="drained", config=config, **here) as cluster:
            found = of_a_program(nodes.address, cluster.bootstrap_servers, Path(folder, "program"))
            found["deployed"] = deployed(nodes.address, cluster.bootstrap_servers, Path(folder, "deployed"))
    return found


def of_a_program(address: str, servers: str, folder: Path) -> dict[str, Any]:
    """A node with members of a program's pool is drained."""
    import ray

    from actors.members.pool import ConsumerPool
    from actors.runtime.ray_nodes import draining_nodes

    folder.mkdir()
    name = topic(servers, "program", PARTITIONS)
    values = [b"v%05d" % i for i in range(600)]
    with ConsumerPool(name, name, Recorder, 3, bootstrap_servers=servers, handler_args=(str(folder), 0.002)) as pool:

        def settled() -> bool:
            members = pool.status()
            owned = sorted(partition for member in members for partition in member.assignment)
            running = all(member.state == "Running" and member.generation_id >= 0 for member in members)
            together = len({member.generation_id for member in members}) == 1
            # In the first of two cooperative rebalances the one member there was still holds all that it has to give.
            even = all(len(member.assignment) == PARTITIONS // len(members) for member in members)
            return running and together and even and owned == [(name, number) for number in range(PARTITIONS)]

        assert pool.wait(settled, 150), pool.status()
        before = pool.status()
        head = ray.get_runtime_context().get_node_id()
        victim = next(member.node_id for member in before if member.node_id != head)
        produce(servers, name, values[:300])
        assert pool.wait(lambda: pool.handled() > 20, 150)
        told_before = draining_nodes()
        # As soon as nobody is left there, Ray ends the node and tells no more of it: it is watched from before.
        with ThreadPoolExecutor() as beside:
            asked = beside.submit(wait_until, draining_nodes, what="the drain, as Ray tells it")
            drain(address, victim)
            told = asked.result()
        elsewhere = pool.wait(lambda: settled() and all(m.node_id != victim for m in pool.status()), 150)
        assert elsewhere, (pool.status(), pool.logs())
        produce(servers, name, values[300:])
        assert pool.wait(lambda: pool.handled() >= len(values) and settled(), 150), pool.status()
        after = pool.status()
        notes = [line.text for line in pool.logs() if line.level == "POOL"]
    return {
        "told": [told_before, list(told)],
        "victim": victim,
        "before": [[m.node_id, m.pid, m.generation_id] for m in before],
        "after": [[m.node_id, m.pid, m.generation_id] for m in after],
        "restarts": [m.restarts for m in after],
        "lost_and_repeated": lost_and_repeated(values, folder),
        "notes": notes,
    }


def deployed(address: str, servers: str, folder: Path) -> dict[str, Any]:
    """The node of a deployed pool's supervisor is drained."""
    from actors.members.pool import ConsumerPool

    folder.mkdir()
    name = topic(servers, "deployed", PARTITIONS)
    values = [b"v%05d" % i for i in range(300)]
    given: dict[str, Any] = {"bootstrap_servers": servers, "handler_args": (str(folder), 0.002)}
    pool = ConsumerPool.deploy(name, name, name, Recorder, 2, **given)

    def settled(found: Any) -> bool:
        # A member that stops between the two cooperative rebalances has no generation to commit under.
        return len(found.members) == 2 and all(len(member.assignment) == PARTITIONS // 2 for member in found.members)

    assert pool.wait(settled, 150), pool.describe()
    victim = pool.describe().supervisor_node_id
    assert victim is not None
    produce(servers, name, values)
    assert pool.wait(lambda found: found.handled > 20, 150), pool.describe()
    drain(address, victim)

    def elsewhere(found: Any) -> bool:
        nodes = [found.supervisor_node_id, *(member.node_id for member in found.members)]
        return len(nodes) == 3 and all(node not in (None, "", victim) for node in nodes)

    assert pool.wait(elsewhere, 150), pool.describe()
    wait_until(lambda: set(handled(folder)) == set(values), what="all records")
    found = lost_and_repeated(values, folder)
    pool.stop()
    return {"lost_and_repeated": found}


def lost_and_repeated(values: list[bytes], folder: Path) -> list[int]:
    found = handled(folder)
    return [len(set(values) - set(found)), len(found) - len(set(found))]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return in_a_process("scenario", tmp_path_factory.mktemp("drained"), __name__, NO_TOKENS)


def test_members_leave_the_node_and_nothing_is_lost_or_repeated(found: dict[str, Any]) -> None:
    assert found["lost_and_repeated"] == [0, 0], found
    assert all(node != found["victim"] for node, _, _ in found["after"])
    assert any(f"leaves node {found['victim'][:12]}, which is drained" in note for note in found["notes"]), found


def test_those_elsewhere_stay_and_nothing_is_rebalanced(found: dict[str, Any]) -> None:
    for before, after, restarts in zip(found["before"], found["after"], found["restarts"], strict=True):
        moved = before[0] == found["victim"]
        assert (after[1] != before[1], restarts) == (moved, int(moved)), found
        assert after[2] == before[2], "static members come back into the same generation"


def test_ray_tells_which_node_it_is(found: dict[str, Any]) -> None:
    """By a private call: with another Ray this test says that it has gone."""
    assert found["told"] == [{}, [found["victim"]]]


def test_a_supervisor_goes_elsewhere_and_its_members_commit_before(found: dict[str, Any]) -> None:
    assert found["deployed"]["lost_and_repeated"] == [0, 0], found
