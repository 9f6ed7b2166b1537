"""The figures of other people's monitors about a cluster of ours are those that the cluster gives an Admin of ours.

All run side by side against one cluster, which has a group that is behind, one whose members are gone, and one whose
shard sleeps. A program that this machine does not have is skipped, and where there is none, no cluster is started.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from actors.client import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from placement.hashing import partition_for_group
from tests.compat.exporters import PROGRAMS, Partition, Program, Shown
from tests.compat.own_clients import make_topic
from tests.compat.peers import Peer, coterie, free_ports
from tests.compat.processes import end_process, spawn
from tests.compat.support import wait_until

ORDERS = "orders"
BEHIND, EMPTY, ASLEEP = "behind", "empty", "asleep"
COMMITTED = {BEHIND: {0: 4, 1: 20, 2: 25}, EMPTY: {0: 10, 2: 0}, ASLEEP: {1: 7}}
PER_PARTITION = {0: 10, 1: 20, 2: 30}


@dataclass(frozen=True)
class World:
    """A cluster, and where each program that runs listens."""

    cluster: Peer
    addresses: dict[str, str]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = {program.name: path for program in PROGRAMS if (path := program.path())}
    if not found:
        pytest.skip(f"none of {', '.join(sorted({p.names[0] for p in PROGRAMS}))} is on PATH")
    folder = tmp_path_factory.mktemp("exporters")
    config = {"coterie.shard.idle.ms": "500", "coterie.log.format": "json"}
    with ExitStack() as stack:
        cluster = stack.enter_context(coterie(folder, brokers=1, config=config)).peer()
        stack.enter_context(_groups(cluster))
        addresses = {}
        for program, port in zip(PROGRAMS, free_ports(len(PROGRAMS)), strict=True):
            if program.name in found:
                stack.enter_context(_running(program, found[program.name], cluster, port, folder / str(port)))
                addresses[program.name] = f"http://127.0.0.1:{port}"
        yield World(cluster, addresses)


@contextmanager
def _running(program: Program, path: str, cluster: Peer, port: int, folder: Path) -> Iterator[None]:
    folder.mkdir()
    with (folder / "log").open("wb") as log:
        process = spawn(program.command(path, cluster.bootstrap_servers, port, folder), log, folder)
        if process.stdout is not None:  # or it would wait when the pipe is full
            threading.Thread(target=process.stdout.read, daemon=True).start()
        try:
            yield
        finally:
            end_process(process)


@contextmanager
def _groups(cluster: Peer) -> Iterator[None]:
    """Records, and the three groups; until the block ends the first has a member."""
    servers = cluster.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        for tp in make_topic(cluster, ORDERS, len(PER_PARTITION)):
            for number in range(PER_PARTITION[tp.partition]):
                producer.send(ORDERS, b"%d" % number, partition=tp.partition)
    for group in (EMPTY, ASLEEP):
        with Consumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False) as reader:
            reader.assign([TopicPartition(ORDERS, number) for number in COMMITTED[group]])
            reader.commit(_offsets(group))
    with Consumer(ORDERS, group_id=BEHIND, bootstrap_servers=servers, enable_auto_commit=False) as member:
        wait_until(lambda: member.poll(timeout_ms=200) is not None and len(member.assignment()) == 3, what="a member")
        member.commit(_offsets(BEHIND))
        wait_until(lambda: {EMPTY, ASLEEP} & _asleep(cluster), what="a shard that sleeps")
        yield


def _offsets(group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition(ORDERS, number): OffsetAndMetadata(at) for number, at in COMMITTED[group].items()}


def _asleep(cluster: Peer) -> set[str]:
    """The groups whose partition has gone to sleep, as the broker's log says."""
    assert cluster.data_dir is not None
    lines = map(json.loads, (cluster.data_dir / "logs" / "broker-0.log").read_text().splitlines())
    slept = {line["partition"] for line in lines if "the partition sleeps" in line["msg"]}
    return {group for group in COMMITTED if partition_for_group(group, 50) in slept}


def _at(admin: Admin, partitions: list[TopicPartition], where: str) -> dict[Partition, int]:
    found = admin.list_offsets(dict.fromkeys(partitions, where))
    return {(tp.topic, tp.partition): at.offset for tp, at in found.items() if at}


def _truth(cluster: Peer) -> Shown:
    """The figures that the cluster gives an Admin of ours."""
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        described = admin.describe_consumer_groups(list(COMMITTED))
        topic = admin.describe_topics([ORDERS])[0]
        partitions = [TopicPartition(ORDERS, each.partition) for each in topic.partitions]
        ends, starts = (_at(admin, partitions, where) for where in ("latest", "earliest"))
        lag = {
            (group, tp.topic, tp.partition): ends[tp.topic, tp.partition] - at.offset
            for group in COMMITTED
            for tp, at in admin.list_consumer_group_offsets(group).items()
        }
        replicas = [dirs.replicas for each in admin.describe_log_dirs().values() for dirs in each]
        size = sum(found.size_bytes for each in replicas for tp, found in each.items() if tp.topic == ORDERS)
    return Shown(
        lag=lag,
        ends=ends,
        starts=starts,
        members={each.group_id: len(each.members) for each in described},
        states={each.group_id: each.state for each in described},
        sizes={ORDERS: size},
        brokers=1,
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_monitor_of_others_shows_what_the_cluster_says(world: World, program: Program) -> None:
    if program.name not in world.addresses:
        pytest.skip(f"{program.names[0]} is not on PATH")
    wanted = _truth(world.cluster)
    assert wanted.lag == {
        (group, ORDERS, number): PER_PARTITION[number] - at
        for group, offsets in COMMITTED.items()
        for number, at in offsets.items()
    }
    assert wanted.members == {BEHIND: 1, EMPTY: 0, ASLEEP: 0}

    def agrees() -> bool:
        try:
            return not _differences(program.look(world.addresses[program.name]), wanted)
        except OSError:
            return False

    try:
        wait_until(agrees)
    except AssertionError:
        shown = program.look(world.addresses[program.name])
        raise AssertionError(f"{program.name} shows {_differences(shown, wanted)} (shown, ours)") from None


def _differences(shown: Shown, wanted: Shown) -> dict[str, tuple[object, object]]:
    """The program's figures of our topic and our groups that differ from those wanted."""
    found: dict[str, tuple[object, object]] = {
        "lag": ({key: lag for key, lag in shown.lag.items() if key[0] in COMMITTED}, wanted.lag),
        "ends": (_of_orders(shown.ends), wanted.ends),
        "starts": (_of_orders(shown.starts), wanted.starts),
        "members": (shown.members, wanted.members),
        "states": (shown.states, wanted.states),
        "sizes": (shown.sizes and {ORDERS: shown.sizes.get(ORDERS, -1)}, wanted.sizes),
        "brokers": (shown.brokers, wanted.brokers),
    }
    return {what: pair for what, pair in found.items() if pair[0] is not None and pair[0] != pair[1]}


def _of_orders(offsets: dict[Partition, int] | None) -> dict[Partition, int] | None:
    return offsets and {key: at for key, at in offsets.items() if key[0] == ORDERS}
