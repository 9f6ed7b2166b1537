"""The Ray node of a broker is lost for good: another one takes the broker's place, with an empty directory.

All acknowledged records are there afterwards, on every replica. The nodes share one machine, and so one disk: the
former directory is still there, and must not be used.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.programs.test_nodes import ADDRESSES, in_a_process, three_nodes
from tests.ray.support import committed, consumer, full_status, patient, read_all, topic, wait_until

pytestmark = pytest.mark.timeout(400)  # three Ray nodes are slow to start on a busy machine

NAME = "lost"
FACTORS = {"t": 3, "two": 2, "__consumer_offsets": 3}


def by_itself(folder: str) -> dict[str, Any]:
    """Runs in a process of its own. Nobody types anything."""
    return _scenario(folder, after_ms=12_000)


def by_command(folder: str) -> dict[str, Any]:
    """The same with the command."""
    return _scenario(folder, after_ms=-1)


def _scenario(folder: str, after_ms: int) -> dict[str, Any]:
    from actors.cluster import Cluster
    from tests.ray.traffic import Committer, Writer

    config = {
        "coterie.monitor": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "3",
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "500",
        "coterie.broker.isolated.ms": "10000",
        "coterie.broker.replace.after.ms": str(after_ms),
    }
    with three_nodes() as nodes, contextlib.ExitStack() as stack:
        cluster = stack.enter_context(
            Cluster.start(
                3, name=NAME, ray_address=nodes.address, port=0, data_dir=folder, config=config, insecure=True
            )
        )
        servers = cluster.bootstrap_servers
        topic(servers, "t", 3, factor=3, min_insync_replicas="2")
        topic(servers, "two", 3, factor=2)
        committer = stack.enter_context(Committer(consumer(servers, "g"), "t"))
        writers = [stack.enter_context(Writer(servers, name)) for name in ("t", "two")]
        wait_until(lambda: committer.last > 20 and all(len(each.acknowledged) > 100 for each in writers))
        wait_until(lambda: _whole(cluster, **FACTORS), what="all replicas in sync")
        before = {broker["id"]: broker for broker in full_status(cluster)["brokers"]}
        victim = next(node for node in nodes.worker_nodes if node.node_ip_address == ADDRESSES[0])
        (lost,) = [each for each, broker in before.items() if broker["node_id"] == victim.node_id]
        nodes.remove_node(victim, allow_graceful=True)  # Ray is told: it would take it a minute to see
        said = ""
        if after_ms < 0:
            wait_until(lambda: not _broker(cluster, lost)["alive"], what="its death")
            said = _replaced(nodes, lost)
        found = wait_until(lambda: _another(cluster, lost, before[lost]), what="the replacement")
        wait_until(lambda: _whole(cluster, **FACTORS), what="all replicas in sync again")
        now = committer.last
        wait_until(lambda: committer.last > now + 5, what="commits afterwards")
        for each in (committer, *writers):
            each.end()
        stored = {name: read_all(cluster.bootstrap_servers, name, len(w.acknowledged)) for name, w in _named(writers)}
        at = patient(lambda: committed(consumer(cluster.bootstrap_servers, "g"), "t", 1))[0]
        folders = sorted(each.name for each in Path(folder).glob(f"broker-{lost}*"))
        return {
            "lost": lost,
            "hosts": [before[lost]["host"], found["host"]],
            "failed": [each.failed for each in writers],
            "records_lost": [len(w.acknowledged - stored[name]) for name, w in _named(writers)],
            "commits_lost": at < committer.last,
            "folders": folders,
            "said": said,
        }


def _named(writers: list[Any]) -> list[tuple[str, Any]]:
    return list(zip(("t", "two"), writers, strict=True))


def _broker(cluster: Any, broker_id: int) -> dict[str, Any]:
    (found,) = [each for each in full_status(cluster)["brokers"] if each["id"] == broker_id]
    return dict(found)


def _another(cluster: Any, broker_id: int, before: dict[str, Any]) -> dict[str, Any] | None:
    found = _broker(cluster, broker_id)
    return found if found["alive"] and found["epoch"] > before["epoch"] else None


def _replaced(nodes: Any, broker_id: int) -> str:
    """The output of `coterie brokers replace`."""
    from click.testing import CliRunner

    from actors.cli.brokers import brokers

    flags = ["--ray-address", nodes.address, "--name", NAME, "--node-is-off", "--yes"]
    return CliRunner().invoke(brokers, ["replace", str(broker_id), *flags]).output


def _whole(cluster: Any, **factors: int) -> bool:
    """True if every replica of these topics is in sync, by the answer of any broker."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    found = patient(lambda: admin.list_topics(timeout=10)).topics
    parts = [(part, factor) for name, factor in factors.items() for part in found[name].partitions.values()]
    return all(len(part.isrs) == len(part.replicas) == factor for part, factor in parts)


def _assert_replaced(found: dict[str, Any]) -> None:
    lost = found["lost"]
    assert (found["records_lost"], found["commits_lost"], found["failed"]) == ([0, 0], False, [0, 0]), found
    before, after = found["hosts"]
    assert before == ADDRESSES[0]
    assert after == ADDRESSES[1], "not on the head"
    own, aside = found["folders"]
    assert own == f"broker-{lost}"
    assert aside.endswith(".replaced"), "the former directory is kept, and not used"


@pytest.mark.conformance("N-A-14", "N-D-01")
def test_a_broker_whose_node_is_lost_for_good_is_replaced_by_itself_and_nothing_is_lost(tmp_path: Path) -> None:
    _assert_replaced(in_a_process("by_itself", tmp_path, __name__))


@pytest.mark.conformance("N-A-14")
def test_a_broker_whose_node_is_off_is_replaced_by_the_command_at_once(tmp_path: Path) -> None:
    found = in_a_process("by_command", tmp_path, __name__)
    _assert_replaced(found)
    assert f"replaced {found['lost']} at=127.0.0.3:" in found["said"]
