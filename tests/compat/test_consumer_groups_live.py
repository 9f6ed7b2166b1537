"""Consumer groups (KIP-848) of three brokers, with librdkafka: members and coordinators that die, and restarts."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping

import confluent_kafka
import psutil
import pytest

from placement.hashing import partition_for_group
from tests.compat import peers
from tests.compat.consumer_members import described, member, member_process
from tests.compat.peers import Coterie
from tests.compat.raw import create_topics, serving_coordinator
from tests.compat.support import PATIENT, wait_until
from tests.compat.test_group_protocols import ALL, PARTITIONS, committed, produce

SESSION_S = 4
HALF = PARTITIONS // 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coterie]:
    config = PATIENT | {
        "group.consumer.min.session.timeout.ms": f"{SESSION_S}000",
        "group.consumer.session.timeout.ms": f"{SESSION_S}000",
    }
    with peers.coterie(tmp_path_factory.mktemp("consumers"), config=config) as running:
        yield running


def test_what_a_killed_member_had_goes_to_the_others_when_its_session_is_over(cluster: Coterie, name: str) -> None:
    servers = cluster.bootstrap_servers
    create_topics(servers, {name: PARTITIONS})
    with member(servers, name) as survivor:
        wait_until(lambda: survivor.owned() == ALL, what="all partitions")
        with member_process(servers, name) as process:
            wait_until(lambda: len(survivor.owned()) == HALF and described(servers, name).group_state == "Stable")
            process.kill()
            wait_until(lambda: survivor.owned() == ALL, what="everything back")
        assert len(described(servers, name).members) == 1


def test_a_static_member_that_is_restarted_moves_no_partition(cluster: Coterie, name: str) -> None:
    servers = cluster.bootstrap_servers
    create_topics(servers, {name: PARTITIONS})
    with member(servers, name, group_instance_id="a") as other:
        wait_until(lambda: other.owned() == ALL, what="all partitions")
        with member(servers, name, group_instance_id="b") as first:
            wait_until(lambda: len(other.owned()) == len(first.owned()) == HALF, what="a share for each")
            had, epoch = first.owned(), described(servers, name).group_epoch
        assert sorted(each.member_epoch for each in described(servers, name).members)[0] == -2
        with member(servers, name, group_instance_id="b") as second:
            wait_until(lambda: second.owned() == had, what="what it had")
            assert described(servers, name).group_epoch == epoch
            assert other.owned() == ALL - had


def _broker_of(cluster: Coterie, group: str) -> int:
    port = int(serving_coordinator(cluster.bootstrap_servers, group).rpartition(":")[2])
    return next(process.pid for process in cluster.family() if _listens_on(process, port))


def _listens_on(process: psutil.Process, port: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(c.laddr and c.laddr.port == port and c.status == "LISTEN" for c in process.net_connections())
    return False


def _shard_of(cluster: Coterie, group: str) -> int:
    home = partition_for_group(group, 50)
    shards = [shard for broker in cluster.status()["brokers"] for shard in broker["shards"]]
    return next(int(shard["pid"]) for shard in shards if shard["partition"] == home)


def _committed(servers: str, name: str) -> Mapping[int, int] | None:
    """What was committed; None where the coordinator has just gone."""
    try:
        return committed(servers, name)
    except confluent_kafka.KafkaException as error:
        if error.args[0].code() != confluent_kafka.KafkaError.NOT_COORDINATOR:
            raise
        return None


@pytest.mark.parametrize("victim", [_broker_of, _shard_of], ids=["broker", "shard"])
def test_a_group_goes_on_when_its_coordinator_is_killed(
    cluster: Coterie, name: str, victim: Callable[[Coterie, str], int]
) -> None:
    """Nobody joins anew: the epochs of the group and of its members are what they were."""
    servers = cluster.bootstrap_servers
    create_topics(servers, {name: PARTITIONS})
    produce(servers, name, 60)
    with member(servers, name) as one, member(servers, name) as two:
        wait_until(lambda: len(one.owned()) == len(two.owned()) == HALF, what="a share for each")
        wait_until(lambda: len({*one.seen(), *two.seen()}) == 60, what="all records")
        one.commit()
        two.commit()
        wait_until(lambda: described(servers, name).group_state == "Stable")
        before = described(servers, name)
        os.kill(victim(cluster, name), signal.SIGKILL)
        wait_until(lambda: _committed(servers, name) == dict.fromkeys(range(PARTITIONS), 10), what="what was committed")
        with member(servers, name) as third:
            wait_until(lambda: len(third.owned()) == 2, what="a share for a third")
            wait_until(lambda: one.owned() | two.owned() | third.owned() == ALL)
            after = described(servers, name)
        assert {each.member_id for each in before.members} < {each.member_id for each in after.members}
        assert after.group_epoch == before.group_epoch + 1
