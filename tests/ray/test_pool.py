"""Consumer pools: every partition owned once, nothing lost when members die, hang, fail, come and go."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from actors.client import Admin, Producer
from actors.cluster import Cluster
from actors.links.group_status import GroupStatus
from actors.links.views import GetGroupHistory, RebalanceView
from actors.members.autoscale import Autoscale
from actors.members.pool import ConsumerPool, PoolError
from actors.members.pools.members import PoolMembers
from actors.members.pools.supervision import Patience
from tests.ray.handlers import (
    Batched,
    Click,
    Copier,
    Forking,
    Gated,
    Locking,
    Ordered,
    Poisoned,
    Recorder,
    Stuck,
    begun,
    handled,
)
from tests.ray.support import assert_gone, committed, consumer, patient, produce, read_all, topic, wait_until

PARTITIONS = 6


@pytest.fixture
def servers(shared: Cluster) -> str:
    return shared.bootstrap_servers


@pytest.fixture
def feed(servers: str, name: str) -> Iterator[Callable[[int], set[bytes]]]:
    """Produce so many new values to the topic `name`; returns all there are by now."""
    topic(servers, name, PARTITIONS)
    values: set[bytes] = set()

    def more(count: int) -> set[bytes]:
        new = {b"v%05d" % i for i in range(len(values), len(values) + count)}
        produce(servers, name, sorted(new))
        values.update(new)
        return set(values)

    return more


def owned(pool: ConsumerPool) -> list[tuple[str, int]]:
    return sorted(partition for status in pool.status() for partition in status.assignment)


def all_owned_once(pool: ConsumerPool, name: str, size: int) -> bool:
    members = pool.status()
    return (
        len(members) == size
        and all(member.assignment for member in members)
        and owned(pool) == [(name, i) for i in range(PARTITIONS)]
    )


def over(servers: str, name: str, folder: Path, handler: type[Recorder], bad: bytes, **settings: Any) -> ConsumerPool:
    """A pool of one over a topic of one partition with the values good, `bad`, after."""
    topic(servers, name, 1)
    produce(servers, name, [b"good", bad, b"after"])
    given = {"handler_args": (str(folder),), **settings}
    return ConsumerPool(name, name, handler, 1, bootstrap_servers=servers, **given)


def members_of(servers: str, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": servers})
    return len(patient(lambda: admin.describe_consumer_groups([group])[group].result(60)).members)


def test_a_pool_divides_the_partitions_handles_everything_and_leaves_the_group_empty_at_once(
    servers: str, name: str, feed: Callable[[int], set[bytes]], tmp_path: Path
) -> None:
    feed(100)
    with ConsumerPool(name, name, Recorder, 3, bootstrap_servers=servers, handler_args=(str(tmp_path),)) as pool:
        assert pool.wait(lambda: all_owned_once(pool, name, 3), 150), pool.status()
        values = feed(500)
        assert pool.wait(lambda: pool.handled() >= len(values), 150), pool.status()
        counts = pool.call("count")  # each member's own state
        assert sum(counts) == len(values)
        assert len([count for count in counts if count]) >= 2
        family = [psutil.Process(member.pid) for member in pool.status()]
        assert len({process.pid for process in family}) == 3
    assert members_of(servers, name) == 0
    assert_gone(family)
    assert sorted(handled(tmp_path)) == sorted(values), "each once: nobody died"
    with contextlib.closing(consumer(servers, name)) as reader:
        assert sum(committed(reader, name, PARTITIONS)) == len(values)


def test_processes_that_a_handler_forks_end_when_it_ends_them(servers: str, name: str, tmp_path: Path) -> None:
    """They ignored SIGTERM, as the member does, and the handler waited for its processes for ever."""
    topic(servers, name, 1)
    produce(servers, name, [b"1", b"2"])
    with ConsumerPool(name, name, Forking, 1, bootstrap_servers=servers, handler_args=(str(tmp_path),)) as pool:
        assert pool.wait(lambda: pool.handled() == 2, 150), pool.status()
        assert pool.call("codes") == [[-signal.SIGTERM] * 2]
        family = [psutil.Process(member.pid) for member in pool.status()]
        assert family[0].children(recursive=True) == []
    assert handled(tmp_path) == [b"1", b"2"]
    assert_gone(family)


def test_a_killed_actor_is_replaced_and_no_record_is_lost(
    servers: str, name: str, feed: Callable[[int], set[bytes]], tmp_path: Path
) -> None:
    values = feed(300)
    with ConsumerPool(name, name, Recorder, 2, bootstrap_servers=servers, handler_args=(str(tmp_path), 0.002)) as pool:
        assert pool.wait(lambda: all_owned_once(pool, name, 2) and pool.handled() > 20, 150), pool.status()
        victim = pool.status()[0]
        stop = threading.Event()

        def keep_feeding() -> None:
            while not stop.wait(0.1):  # or the pool is behind for as long as this took
                values.update(feed(50))

        feeder = threading.Thread(target=keep_feeding)
        feeder.start()

        def replaced() -> bool:
            slot = pool.status()[0]
            return slot.pid != victim.pid and slot.restarts == 1 and all_owned_once(pool, name, 2)

        try:
            begun = time.monotonic()
            os.kill(victim.pid, signal.SIGKILL)
            assert pool.wait(replaced, 150), pool.status()
            print(f"replaced after {time.monotonic() - begun:.2f} s")  # noqa: T201
        finally:
            stop.set()
            feeder.join(60)
        assert pool.wait(lambda: set(handled(tmp_path)) == values, 150), len(values - set(handled(tmp_path)))
    assert len(handled(tmp_path)) >= len(values)


def test_members_come_and_go_when_a_pool_is_resized(
    servers: str, name: str, feed: Callable[[int], set[bytes]], tmp_path: Path
) -> None:
    values = feed(100)
    with ConsumerPool(name, name, Recorder, 1, bootstrap_servers=servers, handler_args=(str(tmp_path),)) as pool:
        assert pool.wait(lambda: all_owned_once(pool, name, 1), 150), pool.status()
        pool.resize(3)
        assert pool.wait(lambda: all_owned_once(pool, name, 3), 150), pool.status()
        members = [psutil.Process(member.pid) for member in pool.status()]
        values |= feed(100)
        pool.resize(1)
        assert len(pool.status()) == 1
        assert_gone(members[1:])
        assert pool.wait(lambda: all_owned_once(pool, name, 1), 150), pool.status()
        values |= feed(100)
        assert pool.wait(lambda: set(handled(tmp_path)) == values, 150)
        pool.resize(2)
        assert [member.slot for member in pool.status()] == [0, 1], "places that are free are taken again"
    with pytest.raises(PoolError, match="stopped"):
        pool.resize(2)


def test_a_pool_follows_its_load_up_and_back_with_one_rebalance_for_each_change(
    shared: Cluster, name: str, tmp_path: Path
) -> None:
    """The handler's gate makes the load: twenty times what the one member has had before."""
    servers = shared.bootstrap_servers
    topic(servers, name, 4)
    policy = Autoscale(max_size=3, target_lag=40, stabilization_s=5, interval_s=0.5)
    two_windows_s = 2 * policy.stabilization_s
    settings = {"bootstrap_servers": servers, "handler_args": (str(tmp_path),), "heartbeat_interval_ms": 500}
    values = [b"v%04d" % number for number in range(420)]
    with ConsumerPool(name, name, Gated, autoscale=policy, **settings) as pool:
        produce(servers, name, values[:20])
        assert pool.wait(lambda: pool.handled() == 20, 150), pool.status()
        assert len(pool.status()) == 1
        pool.call("shut")
        produce(servers, name, values[20:])
        assert pool.wait(lambda: pool.size_changes()[-1].after > 1, two_windows_s), pool.status()
        assert pool.wait(lambda: len(pool.status()) == members_of(servers, name), 150), pool.size_changes()
        pool.call("open")
        assert pool.wait(lambda: pool.handled() == len(values), 150), pool.status()
        assert pool.wait(lambda: pool.size_changes()[-1].after == 1, two_windows_s), pool.size_changes()
        assert pool.wait(lambda: len(pool.status()) == 1 and len(owned(pool)) == 4, 150), pool.status()
        largest = max(change.after for change in pool.size_changes())
        assert pool.call("given_up") == [4 - math.ceil(4 / largest)], "only what others got, and nothing when they went"
        assert [member.restarts for member in pool.status()] == [0]
        reasons = rebalances(shared, name)
        assert expelled(shared, name) == []
    assert sorted(handled(tmp_path)) == values, "each once"
    with contextlib.closing(consumer(servers, name)) as reader:
        assert sum(committed(reader, name, 4)) == len(values), "no lag is left"
    changes = pool.size_changes()
    assert (changes[0].before, changes[0].after) == (0, 1)
    assert "a lag of" in changes[1].reason
    assert len(reasons) == len(changes), (reasons, changes)


def test_idle_members_take_several_newcomers_up_in_one_rebalance(shared: Cluster, name: str, tmp_path: Path) -> None:
    """Without a wait for those that were announced, an idle member took the first one up alone now and then."""
    servers = shared.bootstrap_servers
    topic(servers, name, PARTITIONS)
    settings = {"bootstrap_servers": servers, "handler_args": (str(tmp_path),), "heartbeat_interval_ms": 50}
    with ConsumerPool(name, name, Recorder, 1, **settings) as pool:
        assert pool.wait(lambda: all_owned_once(pool, name, 1), 150), pool.status()
        for size in (3, 1, 4):
            pool.resize(size)
            assert pool.wait(lambda size=size: all_owned_once(pool, name, size), 150), pool.status()
        reasons = rebalances(shared, name)
        assert len(reasons) == len(pool.size_changes()) == 4
        assert "its pool shrank" in reasons
    assert rebalances(shared, name)[-1] == "its pool has stopped"


def status_of(cluster: Cluster, group: str) -> GroupStatus:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        (described,) = admin.describe_consumer_groups([group])
    status = cluster.group_status(group, described.coordinator.id)
    assert status is not None
    return status


def rebalances(cluster: Cluster, group: str) -> list[str]:
    """The reasons of a group's rebalances, without the second generation that each cooperative one needs."""
    reasons = [each.reason for each in status_of(cluster, group).rebalances]
    return [reason for reason in reasons if not reason.startswith("gave up partitions")]


def expelled(cluster: Cluster, group: str) -> list[str]:
    """All members that were ever expelled from a group, once the Monitor knows all of its rebalances."""
    last = status_of(cluster, group).epoch - 1

    def known() -> tuple[RebalanceView, ...] | None:
        told = cluster.view(GetGroupHistory(group, 0, 1 << 60)).rebalances
        return told if any(each.epoch >= last for each in told) else None

    return [member for each in wait_until(known, what="all rebalances") or () for member in each.expelled]


def test_a_member_that_ray_has_no_room_for_waits_and_goes_first(servers: str, name: str, tmp_path: Path) -> None:
    topic(servers, name, 2)
    settings: dict[str, Any] = {"handler_args": (str(tmp_path),), "ray_actor_options": {"num_cpus": 3}}
    settings["patience"] = Patience(room_s=1.0)
    with ConsumerPool(name, name, Recorder, 2, bootstrap_servers=servers, **settings) as pool:
        assert pool.wait(lambda: len(owned(pool)) == 2 and any(member.error for member in pool.status()), 150)
        here, waiting = sorted(pool.status(), key=lambda member: member.state)
        assert (here.state, waiting.state) == ("Running", "Starting")
        assert waiting.error == "waits for Ray, which has no room for it yet: it needs num_cpus=3"
        pool.resize(1)
        (left,) = pool.status()
        assert (left.pid, left.generation_id) == (here.pid, here.generation_id), "and the group notices nothing"


@pytest.mark.parametrize(
    "settings", [{"session_timeout_ms": 180_000}, {"group_protocol": "consumer"}], ids=["classic", "consumer"]
)
def test_a_pool_made_again_under_its_prefix_takes_its_partitions_over_at_once(
    servers: str,
    name: str,
    feed: Callable[[int], set[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
) -> None:
    """Under new instance ids it had to wait until the old members' sessions had ended.

    Those last longer than any wait here: 180 seconds, or the 45 of the consumer protocol.
    """
    values = feed(100)

    def pool() -> ConsumerPool:
        return ConsumerPool(
            name,
            name,
            Recorder,
            2,
            bootstrap_servers=servers,
            handler_args=(str(tmp_path),),
            instance_prefix=name,
            **settings,
        )

    with monkeypatch.context() as patch:
        patch.setattr(PoolMembers, "remove_members", lambda *_: None)  # a killed program tells nobody
        with pool() as first:
            assert first.wait(lambda: all_owned_once(first, name, 2) and first.handled() >= 100, 60), first.status()
    assert members_of(servers, name) == 2, "their sessions have not ended"
    with pool() as second:
        assert second.wait(lambda: all_owned_once(second, name, 2), 40), second.status()
        assert members_of(servers, name) == 2
        values |= feed(100)
        assert second.wait(lambda: set(handled(tmp_path)) == values, 60)


def test_a_record_that_cannot_be_handled_stops_its_member_and_says_which(
    servers: str, name: str, tmp_path: Path
) -> None:
    with over(servers, name, tmp_path, Poisoned, b"poison", max_retries=1, retry_backoff_ms=10) as pool:
        with pytest.raises(PoolError, match=rf"{name}-0 offset 1: ValueError: this one is bad"):
            pool.wait(lambda: False, 60)
        assert pool.status()[0].state in ("Failing", "Failed")
    assert handled(tmp_path) == [b"good"]
    with contextlib.closing(consumer(servers, name)) as reader:
        assert committed(reader, name, 1) == [1], "the bad one is the first to come again"


def test_with_a_dead_letter_topic_the_others_go_on(servers: str, name: str, tmp_path: Path) -> None:
    dead = topic(servers, f"{name}-dead", 1)
    settings = {"max_retries": 1, "retry_backoff_ms": 10, "dead_letter_topic": dead, "create_topic": True}
    with over(servers, name, tmp_path, Poisoned, b"poison", **settings) as pool:
        assert pool.wait(lambda: pool.handled() == 3, 150), "who waits for three records waits for none that comes"
        (member,) = pool.status()
        assert (member.handled, member.dead_letters) == (2, 1)
    assert handled(tmp_path) == [b"good", b"after"]
    assert read_all(servers, dead, 1) == {b"poison"}
    with contextlib.closing(consumer(servers, name)) as reader:
        assert committed(reader, name, 1) == [3]


def test_a_group_whose_id_no_instance_id_may_have_has_members(servers: str, name: str, tmp_path: Path) -> None:
    """They failed four times, with a complaint about group_instance_id."""
    topic(servers, name, 1)
    produce(servers, name, [b"good"])
    group, arguments = f"{name}/eu:1", (str(tmp_path),)
    with ConsumerPool(name, group, Recorder, 2, bootstrap_servers=servers, handler_args=arguments) as pool:
        assert pool.wait(lambda: pool.handled() == 1, 150), pool.status()
    assert handled(tmp_path) == [b"good"]


def test_a_handler_that_hangs_beyond_max_poll_interval_is_replaced(servers: str, name: str, tmp_path: Path) -> None:
    settings = {"max_poll_interval_ms": 2000, "session_timeout_ms": 6000, "heartbeat_interval_ms": 500}
    with over(servers, name, tmp_path, Stuck, b"trap", **settings) as pool:
        assert pool.wait(lambda: set(handled(tmp_path)) == {b"good", b"trap", b"after"}, 150), pool.status()
        assert pool.status()[0].restarts >= 1


def test_a_handler_that_keeps_the_interpreters_lock_is_done_once_and_ended_by_max_poll_interval_alone(
    servers: str, name: str, tmp_path: Path
) -> None:
    """After its session it was expelled, and its record begun again, for ever. Then it was killed, and "has died"."""
    once, ever = tmp_path / "once", tmp_path / "ever"
    once.mkdir()
    ever.mkdir()
    settings = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 2000}
    with (
        over(servers, name, once, Locking, b"trap", handler_args=(str(once), 8), **settings) as one,
        over(servers, f"{name}-ever", ever, Locking, b"trap", max_poll_interval_ms=11_000, **settings) as other,
    ):
        assert one.wait(lambda: b"after" in handled(once), 60), one.status()
        assert handled(once) == begun(once) == [b"good", b"trap", b"after"]
        (member,) = one.status()
        assert (member.restarts, member.generation_id) == (0, 1)
        assert other.wait(lambda: b"after" in handled(ever), 60), other.status()
        assert begun(ever).count(b"trap") == 2
        said = "\n".join(line.text for line in other.logs())
        assert "is killed by its pool" in said
        assert "max_poll_interval_ms=11000" in said
        assert "has died" not in said


def test_an_async_handler_copies_records_side_by_side_and_a_sigterm_ends_its_member_without_repeats(
    servers: str, name: str, tmp_path: Path
) -> None:
    topic(servers, name, 2)
    copies = topic(servers, f"{name}-copies", 1)
    numbers = [b"%d" % i for i in range(400)]
    produce(servers, name, [b'{"number": %s}' % number for number in numbers[:200]])
    settings = {"handler_args": (str(tmp_path), copies), "concurrency": 8, "value_deserializer": Click}
    with ConsumerPool(name, name, Copier, 1, bootstrap_servers=servers, **settings) as pool:
        assert pool.wait(lambda: pool.handled() >= 20, 150), pool.status()
        (most,) = pool.call("most_in_hand")
        assert 1 < most <= 8
        victim = pool.status()[0].pid
        os.kill(victim, signal.SIGTERM)
        produce(servers, name, [b'{"number": %s}' % number for number in numbers[200:]])
        assert pool.wait(lambda: pool.handled() >= 400, 150), pool.status()
        assert pool.status()[0].restarts == 1
    assert sorted(handled(tmp_path)) == sorted(numbers), "each once: the member finished what it had in hand"
    assert (tmp_path / f"{victim}.teardown").exists()
    assert read_all(servers, copies, 1) == set(numbers)


def test_a_batch_is_handed_over_when_it_is_full_or_has_waited_and_again_when_it_has_failed(
    servers: str, name: str
) -> None:
    topic(servers, name, 1)
    produce(servers, name, [b"%d" % number for number in range(200)])
    settings = {"batch_format": "records", "max_batch_records": 50, "batch_max_ms": 3000, "retry_backoff_ms": 10}
    with ConsumerPool(name, name, Batched, 1, bootstrap_servers=servers, **settings) as pool:
        assert pool.wait(lambda: pool.handled() == 200, 150), pool.status()
        assert pool.call("seen") == [([50] * 4, [1, 2, 1, 1, 1])]
        produce(servers, name, [b"%d" % number for number in range(10)])
        assert pool.wait(lambda: pool.handled() == 210, 150), pool.status()
        ((sizes, _),) = pool.call("seen")
        assert sum(sizes[4:]) == 10


def test_records_of_a_key_keep_their_order_beside_those_of_others(servers: str, name: str) -> None:
    topic(servers, name, 2)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(600):
            producer.send(name, key=b"k%d" % (number % 12), value=b"%d" % number)
    with ConsumerPool(name, name, Ordered, 1, bootstrap_servers=servers, concurrency=8) as pool:
        assert pool.wait(lambda: pool.handled() == 600, 150), pool.status()
        ((done, most),) = pool.call("seen")
    assert 1 < most <= 8
    for key in {key for key, _ in done}:
        numbers = [number for each, number in done if each == key]
        assert numbers == sorted(numbers), key
    assert sorted(number for _, number in done) == list(range(600)), "each once"


def test_a_pool_that_makes_no_sense_is_refused(servers: str) -> None:
    with pytest.raises(PoolError, match="size"):
        ConsumerPool("t", "g", print, 0, bootstrap_servers=servers)
    with pytest.raises(PoolError, match="batch_format"):
        ConsumerPool("t", "g", print, 1, bootstrap_servers=servers, batch_format="csv")  # type: ignore[arg-type]
    with pytest.raises(PoolError, match="max_batch_records"):
        ConsumerPool("t", "g", print, 1, bootstrap_servers=servers, max_batch_records=0)
    with pytest.raises(PoolError, match="instance_prefix"):
        ConsumerPool("t", "g", print, 1, bootstrap_servers=servers, instance_prefix="x" * 231)
