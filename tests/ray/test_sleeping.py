"""An offsets partition that nobody needs gives its process back, and is woken by whoever does."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
import ray
from confluent_kafka.admin import AdminClient

from actors.cluster import Cluster
from placement.hashing import partition_for_group
from tests.ray.support import (
    assert_gone,
    commit,
    committed,
    consumer,
    full_status,
    patient,
    produce,
    topic,
    wait_until,
)


@pytest.fixture(scope="module")
def drowsy(start: Callable[..., Cluster]) -> Iterator[Cluster]:
    """A broker whose shards sleep after a second, and which keeps no spares."""
    with start(coterie_shard_idle_ms="1000", coterie_spare_shards="0") as cluster:
        yield cluster


def row(cluster: Cluster, group: str) -> dict[str, Any] | None:
    """The row of the group's partition in the status; None while it is being woken."""
    partition = partition_for_group(group, 50)
    rows = [s for broker in full_status(cluster)["brokers"] for s in broker["shards"] if s["partition"] == partition]
    assert len(rows) <= 1
    found: dict[str, Any] | None = rows[0] if rows else None
    return found


def in_state(cluster: Cluster, group: str, state: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        now = row(cluster, group)
        return now if now is not None and now["state"] == state else None

    seen = wait_until(found, what=f"{group} to be {state}")
    assert seen is not None
    return seen


def end_in_ray(pid: int) -> str | None:
    """Ray's cause of death for the actor with this process; None while Ray takes it for alive."""
    rows = [row for row in ray._private.state.actors().values() if row["Pid"] == pid]
    return str(rows[-1]["DeathCause"]) if rows and rows[-1]["State"] == "DEAD" else None


def test_a_group_without_members_needs_no_process_and_gets_one_when_it_is_asked_for(
    drowsy: Cluster, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """When such a process ended, Ray said that a worker had died, perhaps out of memory."""
    caplog.set_level(logging.INFO, "actors.runtime.ray_words")
    servers = drowsy.bootstrap_servers
    topic(servers, name, 3)
    with contextlib.closing(consumer(servers, name)) as client:
        commit(client, name, 5, 6, 7)
        process = psutil.Process(drowsy.shard_pids()[partition_for_group(name, 50)])
        asleep = in_state(drowsy, name, "Asleep")
        assert asleep["pid"] is None
        assert asleep["why"].startswith("since ")
        assert partition_for_group(name, 50) not in drowsy.shard_pids()
        assert_gone([process])  # half a minute later: it might have been needed elsewhere
        end = wait_until(lambda: end_in_ray(process.pid), what="Ray to know of its end")
        assert end is not None
        assert "INTENDED_USER_EXIT" in end

        admin = AdminClient({"bootstrap.servers": servers})
        listed = patient(lambda: admin.list_consumer_groups(request_timeout=30).result(30))
        assert name in {group.group_id for group in listed.valid}
        assert in_state(drowsy, name, "Asleep") == asleep, "to list it does not wake it"

        assert committed(client, name) == [5, 6, 7]
        assert in_state(drowsy, name, "Asleep")["why"] != asleep["why"]
        commit(client, name, 8, 9, 10)
        in_state(drowsy, name, "Asleep")
        assert committed(client, name) == [8, 9, 10]
    assert "died or was killed" not in caplog.text


def test_a_member_wakes_its_groups_partition_and_keeps_it_awake(drowsy: Cluster, name: str) -> None:
    servers = drowsy.bootstrap_servers
    topic(servers, name, 1)
    produce(servers, name, [b"first"])
    with contextlib.closing(consumer(servers, name)) as client:
        commit(client, name, 0)
    in_state(drowsy, name, "Asleep")
    # A heartbeat every two seconds leaves the shard idle in between: it is asked, and says who keeps it.
    member = consumer(servers, name, **{"heartbeat.interval.ms": 2000, "session.timeout.ms": 10000})
    with contextlib.closing(member):
        member.subscribe([name])
        message = wait_until(lambda: member.poll(0.5), what="a record")
        assert message is not None
        assert message.value() == b"first"

        def kept() -> bool:
            member.poll(0.05)
            now = row(drowsy, name)
            return now is not None and now["why"] == f"group {name} is Stable"

        wait_until(kept, what="the reason")
        commit(member, name, 1)
    in_state(drowsy, name, "Asleep")
    with contextlib.closing(consumer(servers, name)) as client:
        assert committed(client, name, 1) == [1]
