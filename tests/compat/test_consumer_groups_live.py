"""Consumer groups (KIP-848) of three brokers: members and coordinators that die, restarts, and changes of protocol."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from actors.client import Admin
from actors.client.admin.types import ConfigResource
from actors.wire.config_resources import ConfigResourceType
from placement.hashing import partition_for_group
from tests.compat import peers
from tests.compat.conftest import Running
from tests.compat.consumer_members import described, member
from tests.compat.driving import all_closed
from tests.compat.group_clients import CLASSIC, CONSUMER, GROUP_CLIENTS, GroupClient
from tests.compat.group_life import Life, committed_meanwhile, numbers
from tests.compat.peers import Coterie
from tests.compat.raw import Raw, create_topics, serving_coordinator
from tests.compat.remote import Remote
from tests.compat.support import PATIENT, wait_until
from tests.compat.test_group_protocols import ALL, PARTITIONS, produce

SHORT_MS = "4000"
"""The session of groups that are to lose a member soon. By default a member outlasts any pause of the machine."""
HALF = PARTITIONS // 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coterie]:
    config = PATIENT | {"group.consumer.min.session.timeout.ms": SHORT_MS}
    with peers.coterie(tmp_path_factory.mktemp("consumers"), config=config) as running:
        yield running


def _broker_of(cluster: Coterie, group: str) -> int:
    port = int(serving_coordinator(cluster.bootstrap_servers, group).rpartition(":")[2])
    return next(process.pid for process in cluster.family() if _listens_on(process, port))


def _listens_on(process: psutil.Process, port: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(c.laddr and c.laddr.port == port and c.status == "LISTEN" for c in process.net_connections())
    return False


def _listen(servers: str) -> bool:
    """True if each of these brokers accepts connections."""
    with contextlib.suppress(ConnectionError), contextlib.ExitStack() as connections:
        for address in servers.split(","):
            connections.enter_context(Raw(address))
        return True
    return False


def _shard_of(cluster: Coterie, group: str) -> int:
    home = partition_for_group(group, 50)
    shards = [shard for broker in cluster.status()["brokers"] for shard in broker["shards"]]
    return next(int(shard["pid"]) for shard in shards if shard["partition"] == home)


@pytest.mark.parametrize("victim", [_broker_of, _shard_of], ids=["broker", "shard"])
def test_a_group_goes_on_when_its_coordinator_is_killed(
    cluster: Coterie, name: str, victim: Callable[[Coterie, str], int]
) -> None:
    """No member joins anew: the epochs of the group and of its members stay the same."""
    servers = cluster.bootstrap_servers
    create_topics(servers, {name: PARTITIONS})
    with member(servers, name) as one, member(servers, name) as two:
        wait_until(lambda: len(one.owned()) == len(two.owned()) == HALF, what="a share for each")
        produce(servers, name, 60)  # only now, so that each has something to commit
        wait_until(lambda: len({*one.seen(), *two.seen()}) == 60, what="all records")
        one.commit()
        two.commit()
        wait_until(lambda: described(servers, name).group_state == "Stable")
        before = described(servers, name)
        os.kill(victim(cluster, name), signal.SIGKILL)
        wanted = dict.fromkeys(range(PARTITIONS), 10)
        wait_until(lambda: committed_meanwhile(servers, name) == wanted, what="what was committed")
        with member(servers, name) as third:
            wait_until(lambda: len(third.owned()) == 2, what="a share for a third")
            wait_until(lambda: one.owned() | two.owned() | third.owned() == ALL)
            after = described(servers, name)
        assert {each.member_id for each in before.members} < {each.member_id for each in after.members}
        assert after.group_epoch == before.group_epoch + 1
    wait_until(lambda: _listen(servers), what="the broker that was killed")


@pytest.fixture(params=GROUP_CLIENTS)
def client(request: pytest.FixtureRequest, remotes: Running[Remote]) -> GroupClient:
    return GROUP_CLIENTS[request.param](remotes)


def _killed(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


@pytest.mark.conformance("K-I-13", "K-E-01", "K-E-04", "K-E-32", "K-B-46")
def test_a_group_of_each_client_lives_through_changes_of_members_protocol_and_coordinator(
    cluster: Coterie, client: GroupClient, name: str, tmp_path: Path
) -> None:
    """It is upgraded, grows, has a static member that restarts and dies, shrinks, and is downgraded."""
    servers = cluster.bootstrap_servers
    life = Life(servers, client, name)
    with all_closed(life.members):
        life.join(CLASSIC)
        life.join(CLASSIC)
        life.expect_shares()
        life.expect_records()
        _upgrade(life, lambda: _killed(_shard_of(cluster, name)))
        _restart_and_kill_a_static_member(life, client, cluster, name, tmp_path)
        life.expect_records()
        life.leave()
        life.expect_shares()
        _downgrade(life, lambda: _killed(_shard_of(cluster, name)))
        life.expect_records()
        assert life.read() == life.produced(), "no record is read twice"


def _upgrade(life: Life, meanwhile: Callable[[], None]) -> None:
    """Exchange two classic members one by one, while something happens."""
    for happens in (meanwhile, lambda: None):
        life.leave()
        life.join(CONSUMER)
        happens()
        life.expect_shares()
    life.expect_type(CONSUMER)
    life.expect_commits()


def _restart_and_kill_a_static_member(
    life: Life, client: GroupClient, cluster: Coterie, name: str, folder: Path
) -> None:
    """The third member restarts in a process of its own; later that is killed, and the coordinator's broker with it."""
    servers = cluster.bootstrap_servers
    with client.static_process(servers, name, "third", folder) as successor:
        third = client.join_static(servers, name, "third")
        life.expect_shares(third)
        life.expect_type(CONSUMER)
        epoch, before = life.described().group_epoch, life.static_member("third")
        third.close()
        successor.join()
        wait_until(lambda: life.static_member("third").member_id != before.member_id, what="the successor")
        assert numbers(life.static_member("third").assignment) == numbers(before.assignment)
        assert life.described().group_epoch == epoch, "nobody else hears of it"
        _shorten_sessions(servers, name)
        successor.kill()
        _killed(_broker_of(cluster, name))
        life.expect_shares()


def _shorten_sessions(servers: str, group: str) -> None:
    """Every session that begins from now on; a coordinator that takes over begins them all."""
    with Admin(bootstrap_servers=servers) as admin:
        resource = ConfigResource(ConfigResourceType.GROUP, group)
        admin.incremental_alter_configs({resource: {"consumer.session.timeout.ms": SHORT_MS}})


def _downgrade(life: Life, meanwhile: Callable[[], None]) -> None:
    """Exchange the last member for a classic one, while something happens."""
    life.join(CLASSIC)
    life.expect_shares()
    meanwhile()
    life.leave()
    life.expect_shares()
    life.expect_type(CLASSIC)
    life.expect_commits()
