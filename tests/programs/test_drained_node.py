"""Ray drains a node of three: the members of a pool that are there go elsewhere before it ends, and leaders, too."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.programs.test_nodes import in_a_process, three_nodes
from tests.ray.handlers import Recorder, handled
from tests.ray.support import committed, consumer, full_status, patient, produce, read_all, topic, wait_until
from tests.ray.traffic import Committer, Writer
from tests.support.ray_variables import NO_TOKENS

pytestmark = pytest.mark.timeout(400)  # three Ray nodes are slow to start on a busy machine

CONFIG = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
PARTITIONS = 6
GROUPS = ("g0", "g1", "g2")
LED = ("led", "__consumer_offsets")
"""The topics with two replicas."""


def drain(address: str, node_id: str) -> None:
    """Say, as Ray's autoscaler does, that a node is about to be taken away."""
    ray = Path(sys.executable).parent / "ray"
    node = ["--address", address, "--node-id", node_id, "--deadline-remaining-seconds", "300"]
    why = ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "the cloud wants it back"]
    subprocess.run([str(ray), "drain-node", *node, *why], check=True, capture_output=True, timeout=120)


def scenario(folder: str) -> dict[str, Any]:
    """Runs in a process of its own, for it needs a Ray of three nodes."""
    from actors.cluster import Cluster

    with three_nodes() as nodes:
        here = {"ray_address": nodes.address, "host": "127.0.0.1", "data_dir": f"{folder}/data"}
        # One broker is on the head, the other one on a node that is drained.
        with Cluster.start(2, name="drained", config=CONFIG, **here) as cluster:
            with at_work(cluster) as work:
                found = of_a_program(nodes.address, cluster, Path(folder, "program"))
                work.node_ends(nodes, found["victim"])
            found["work"] = work.what_is_left()
    return found


class AtWork:
    """A producer, and groups that commit, while a node is drained and ends."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self.writer = Writer(servers, LED[0])
        self.groups = [Committer(consumer(servers, group), LED[0]) for group in GROUPS]

    def goes_on(self) -> None:
        """Wait until new records of the producer and a new commit of each group have been acknowledged."""
        now, acknowledged = time.monotonic(), len(self.writer.acknowledged)
        wait_until(lambda: len(self.writer.acknowledged) > acknowledged + 100, what="the producer")
        wait_until(lambda: all(each.times and each.times[-1] > now for each in self.groups), what="every group")

    def node_ends(self, nodes: Any, node_id: str) -> None:
        """The cloud takes the node back."""
        nodes.remove_node(next(node for node in nodes.worker_nodes if node.node_id == node_id), allow_graceful=False)
        self.goes_on()

    def what_is_left(self) -> dict[str, int]:
        found = [
            patient(lambda group=group: committed(consumer(self._servers, group), LED[0], 1))[0] for group in GROUPS
        ]
        stored = read_all(self._servers, LED[0], len(self.writer.acknowledged))
        return {
            "failed": self.writer.failed,
            "records_lost": len(self.writer.acknowledged - stored),
            "commits_lost": sum(at < each.last for at, each in zip(found, self.groups, strict=True)),
        }


@contextlib.contextmanager
def at_work(cluster: Any) -> Iterator[AtWork]:
    servers = cluster.bootstrap_servers
    topic(servers, LED[0], 4, factor=2)
    work = AtWork(servers)
    with work.writer, contextlib.ExitStack() as stack:
        for each in work.groups:
            stack.enter_context(each)
        work.goes_on()
        wait_until(lambda: {broker for _, broker in led(servers)} == {0, 1}, what="leaders on both brokers")
        yield work


def led(servers: str) -> list[tuple[str, int]]:
    """Each partition with two replicas, and its leader; empty as long as not all are in sync."""
    topics = patient(lambda: AdminClient({"bootstrap.servers": servers}).list_topics(timeout=10)).topics
    found = [(f"{name}-{index}", part) for name in LED for index, part in topics[name].partitions.items()]
    return [(name, part.leader) for name, part in found] if all(len(part.isrs) == 2 for _, part in found) else []


def leaders_leave(cluster: Any, node_id: str, since: float) -> dict[str, Any]:
    """The broker on a drained node leads nothing any more that the other one can lead, and the node is still there."""
    import ray

    servers = cluster.bootstrap_servers
    (broker,) = (each for each in full_status(cluster)["brokers"] if each["node_id"] == node_id)
    wait_until(lambda: {leader for _, leader in led(servers)} == {1 - broker["id"]}, what="leaders on the other broker")
    took_s = time.monotonic() - since
    (shown,) = (each for each in full_status(cluster)["brokers"] if each["node_id"] == node_id)
    alive = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    return {"took_s": took_s, "alive": node_id in alive, "until_ms": shown["drained_until_ms"]}


@contextlib.contextmanager
def half_full(nodes: Iterable[str]) -> Iterator[Callable[[], None]]:
    """Half of the one CPU of each of these nodes is taken, until what it yields is called."""
    import ray
    from ray.util import placement_group, remove_placement_group

    here = [{"ray.io/node-id": node} for node in nodes]
    group = placement_group([{"CPU": 0.5} for _ in here], bundle_label_selector=here)
    ray.get(group.ready(), timeout=150)
    with contextlib.ExitStack() as stack:
        stack.callback(remove_placement_group, group)
        yield stack.close


def even(pool: Any, topic_name: str) -> bool:
    """True if all members run in one generation, and each has its share."""
    members = pool.status()
    owned = sorted(partition for member in members for partition in member.assignment)
    running = all(member.state == "Running" and member.generation_id >= 0 for member in members)
    together = len({member.generation_id for member in members}) == 1
    # In the first of two cooperative rebalances the only member still holds the partitions that it has to give up.
    shared = all(len(member.assignment) == PARTITIONS // len(members) for member in members)
    return running and together and shared and owned == [(topic_name, number) for number in range(PARTITIONS)]


def of_a_program(address: str, cluster: Any, folder: Path) -> dict[str, Any]:
    """A node with members of a program's pool, and with a broker, is drained."""
    import ray

    from actors.members.pool import ConsumerPool
    from actors.runtime.ray_nodes import draining_nodes

    folder.mkdir()
    servers = cluster.bootstrap_servers
    name = topic(servers, "program", PARTITIONS)
    values = [b"v%05d" % i for i in range(600)]
    head = ray.get_runtime_context().get_node_id()
    (victim,) = {broker["node_id"] for broker in full_status(cluster)["brokers"]} - {head}
    others = {node["NodeID"] for node in ray.nodes() if node["Alive"]} - {victim}
    given: dict[str, Any] = {"bootstrap_servers": servers, "handler_args": (str(folder), 0.002)}
    given["ray_actor_options"] = {"num_cpus": 0.5}
    given["session_timeout_ms"] = 150_000  # a member that Ray is slow to start elsewhere comes back within it
    with half_full(others) as emptied, ConsumerPool(name, name, Recorder, 3, **given) as pool:
        # Each of the others has room for one member: so one at least is on the victim.
        assert pool.wait(lambda: even(pool, name), 150), pool.status()
        emptied()
        before = pool.status()
        produce(servers, name, values[:300])
        assert pool.wait(lambda: pool.handled() > 20, 150)
        told_before = draining_nodes()
        # Ray ends a drained node that has no actors left, and then tells nothing of it: so the watch begins before.
        with ThreadPoolExecutor() as beside:
            asked = beside.submit(wait_until, draining_nodes, what="the drain, as Ray tells it")
            drain(address, victim)
            drained_at, told = time.monotonic(), asked.result()
            leaders = leaders_leave(cluster, victim, drained_at)
        elsewhere = pool.wait(lambda: even(pool, name) and all(m.node_id != victim for m in pool.status()), 150)
        assert elsewhere, (pool.status(), pool.logs())
        produce(servers, name, values[300:])
        assert pool.wait(lambda: pool.handled() >= len(values) and even(pool, name), 150), pool.status()
        after = pool.status()
        notes = [line.text for line in pool.logs() if line.level == "POOL"]
    return {
        "told": [told_before, list(told)],
        "leaders": leaders,
        "victim": victim,
        "before": [[m.node_id, m.pid, m.generation_id] for m in before],
        "after": [[m.node_id, m.pid, m.generation_id] for m in after],
        "restarts": [m.restarts for m in after],
        "lost_and_repeated": lost_and_repeated(values, folder),
        "notes": notes,
    }


def deployed(folder: str) -> list[int]:
    """The node of a deployed pool's supervisor is drained; what was lost and repeated. In a process of its own, too."""
    from actors.cluster import Cluster

    with three_nodes() as nodes:
        here = {"ray_address": nodes.address, "host": "127.0.0.1", "data_dir": f"{folder}/data"}
        with Cluster.start(1, name="drained", config=CONFIG, **here) as cluster:  # its broker is on the head
            return of_a_supervisor(nodes.address, cluster.bootstrap_servers, Path(folder, "handled"))


def of_a_supervisor(address: str, servers: str, folder: Path) -> list[int]:
    from actors.members.pool import ConsumerPool

    folder.mkdir()
    name = topic(servers, "deployed", PARTITIONS)
    values = [b"v%05d" % i for i in range(3000)]  # they last longer than it takes to drain the node
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
    return found


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
        assert after[2] == before[2], ("static members come back into the same generation", found["notes"])


@pytest.mark.conformance("N-A-12")
def test_ray_tells_which_node_it_is(found: dict[str, Any]) -> None:
    """By a private call: with another Ray this test says that it has gone."""
    assert found["told"] == [{}, [found["victim"]]]


def test_a_supervisor_goes_elsewhere_and_its_members_commit_before(tmp_path: Path) -> None:
    assert in_a_process("deployed", tmp_path, __name__, NO_TOKENS) == [0, 0]


@pytest.mark.conformance("N-A-13")
def test_leaders_are_elsewhere_before_the_node_ends_and_a_status_shows_the_drain(found: dict[str, Any]) -> None:
    assert found["leaders"]["alive"], found
    assert found["leaders"]["until_ms"] > 0, found


@pytest.mark.conformance("N-D-06")
def test_a_producer_and_groups_lose_nothing_by_the_drain_and_the_end_of_the_node(found: dict[str, Any]) -> None:
    assert found["work"] == {"failed": 0, "records_lost": 0, "commits_lost": 0}, found
