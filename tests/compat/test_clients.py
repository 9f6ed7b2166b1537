"""The everyday life of a topic and a group, with each of four real clients.

Create a topic, produce with and without idempotence in every compression, form a group of three by a join and a
leave, commit and resume. Admin operations and restarts have files of their own.
"""

from __future__ import annotations

import shutil

import pytest

from tests.compat.drivers import DRIVERS
from tests.compat.driving import Driver, Member, all_closed
from tests.compat.peers import Peer
from tests.compat.raw import await_topics
from tests.compat.support import ONE_PROCESS, against, numbered_records, wait_until

pytestmark = ONE_PROCESS

PARTITIONS = 12
COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"]

brokers = against("kafka", "coterie")
clients = pytest.mark.parametrize("driver", DRIVERS, ids=lambda d: d.name)


@pytest.fixture(autouse=True)
def _kcat_is_there(request: pytest.FixtureRequest) -> None:
    driver = request.node.callspec.params.get("driver") if hasattr(request.node, "callspec") else None
    if driver is not None and driver.name == "kcat" and not (shutil.which("kcat") or shutil.which("kafkacat")):
        pytest.skip("kcat is not installed")


@brokers
@clients
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_what_is_produced_is_consumed(
    kafka: Peer, driver: Driver, compression: str, idempotent: bool, name: str
) -> None:
    driver.create_topic(kafka.bootstrap_servers, name, 1)
    records = numbered_records(300)
    driver.produce(kafka.bootstrap_servers, name, records, compression=compression, idempotent=idempotent)
    assert driver.consume(kafka.bootstrap_servers, name, len(records)) == records


@brokers
@clients
def test_another_client_reads_what_one_wrote(kafka: Peer, driver: Driver, name: str) -> None:
    driver.create_topic(kafka.bootstrap_servers, name, 3)
    for index, compression in enumerate(COMPRESSIONS):
        part = numbered_records(40, start=40 * index)
        driver.produce(kafka.bootstrap_servers, name, part, compression=compression, idempotent=False)
    for reader in DRIVERS:
        if reader.name != "kcat" or shutil.which("kcat"):
            assert sorted(reader.consume(kafka.bootstrap_servers, name, 200)) == numbered_records(200), reader.name


@brokers
@clients
def test_a_topic_is_created_by_producing_to_it(kafka: Peer, driver: Driver, name: str) -> None:
    records = numbered_records(10)
    driver.produce(kafka.bootstrap_servers, name, records, compression="none", idempotent=False)
    await_topics(kafka.bootstrap_servers, {name: 1})
    assert driver.consume(kafka.bootstrap_servers, name, 10) == records


def _each_partition_has_one_owner(members: list[Member]) -> bool:
    owned = [member.owned() for member in members]
    return all(owned) and sum(map(len, owned)) == PARTITIONS and len(frozenset().union(*owned)) == PARTITIONS


def _wait_for_shares(members: list[Member], what: str) -> None:
    try:
        wait_until(lambda: _each_partition_has_one_owner(members), 60, what)
    except AssertionError as failure:
        raise AssertionError(f"{what}: {[sorted(m.owned()) for m in members]}") from failure


@brokers
@clients
def test_group_of_three_with_a_join_and_a_leave(kafka: Peer, driver: Driver, name: str) -> None:
    servers, topic, group = kafka.bootstrap_servers, name, f"group-{name}"
    driver.create_topic(servers, topic, PARTITIONS)
    members: list[Member] = []
    with all_closed(members):
        members += [driver.join(servers, group, topic) for _ in range(2)]
        _wait_for_shares(members, "two members share the partitions")
        members.append(driver.join(servers, group, topic))
        _wait_for_shares(members, "a third has joined")
        members.pop(0).close()
        _wait_for_shares(members, "the first has left")

        first = numbered_records(600)
        driver.produce(servers, topic, first, compression="none", idempotent=False)
        wait_until(lambda: sum(len(m.seen()) for m in members) >= len(first), what="all records")
        assert sorted(r for m in members for r in m.seen()) == first
        for member in members:
            member.commit()
    second = numbered_records(120, start=600)
    driver.produce(servers, topic, second, compression="none", idempotent=False)
    successor: list[Member] = [driver.join(servers, group, topic)]
    with all_closed(successor):
        wait_until(lambda: len(successor[0].seen()) >= len(second), what="the records after the commit")
        wait_until(lambda: successor[0].owned() == frozenset(range(PARTITIONS)), what="all partitions")
        assert sorted(successor[0].seen()) == second


@brokers
@clients
@pytest.mark.conformance("E-29")
def test_groups_split_a_topic_or_each_read_all_of_it(kafka: Peer, driver: Driver, name: str) -> None:
    servers, topic = kafka.bootstrap_servers, name
    driver.create_topic(servers, topic, PARTITIONS)
    records = numbered_records(240)
    driver.produce(servers, topic, records, compression="none", idempotent=False)
    shared: list[Member] = []
    alone: list[Member] = []
    with all_closed(shared), all_closed(alone):
        shared += [driver.join(servers, f"shared-{name}", topic) for _ in range(2)]
        alone.append(driver.join(servers, f"alone-{name}", topic))
        _wait_for_shares(shared, "two members of one group")
        _wait_for_shares(alone, "one member of another group")
        wait_until(lambda: len(alone[0].seen()) >= len(records), what="all records in the other group")
        assert sorted(alone[0].seen()) == records
        more = numbered_records(240, start=240)
        before = [len(m.seen()) for m in shared]
        driver.produce(servers, topic, more, compression="none", idempotent=False)
        fresh = lambda: [r for m, n in zip(shared, before, strict=True) for r in m.seen()[n:]]  # noqa: E731
        wait_until(lambda: len(set(fresh()) & set(more)) == len(more), what="new records, split between two")
        split = sorted(r for r in fresh() if r in set(more))
        assert split == more
        wait_until(lambda: len(alone[0].seen()) >= 480, what="the same records in the other group")
        assert sorted(alone[0].seen()) == records + more
