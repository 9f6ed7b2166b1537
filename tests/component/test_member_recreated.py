"""A pool's member, in each order of work, whose topic is deleted and created again while records of it are in hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.client import Admin, Producer, TopicPartition
from actors.client.admin.types import NewTopic
from actors.members.pools.handler_member import MemberLoop, MemberSpec
from tests.support.consuming import T0, wait_for
from tests.support.recreating_broker import RecreatingBroker, recreating
from tests.support.three_brokers import world

__all__ = ["recreating"]

DEADLINE_S = 60
OLD = [b"old %d" % n for n in range(100)]
NEW = [b"new %d" % n for n in range(150)]
LAST = b"last"  # comes when the new topic has been begun: one who reads by name may have committed its end before
ORDERS: dict[str, dict[str, Any]] = {
    "one by one": {},
    "side by side": {"concurrency": 6},
    "batches": {"batch_format": "records", "max_batch_records": 10},
    "batches of Arrow": {"batch_format": "pyarrow", "max_batch_records": 10},
    "batches side by side": {"batch_format": "records", "max_batch_records": 10, "concurrency": 2},
    "batches that wait": {"batch_format": "records", "max_batch_records": 10, "batch_max_ms": 20},
    "batches of Arrow that wait": {"batch_format": "pyarrow", "max_batch_records": 10, "batch_max_ms": 20},
}
POLLS_ON = [each for each, spec in ORDERS.items() if "concurrency" in spec or "batch_max_ms" in spec]


class Handles:
    """Has the topic made anew in its first record, which ends after any poll of the member has met the new one."""

    def __init__(self, recreate: Callable[[], None], polls_on: bool) -> None:
        self.handled: list[bytes] = []
        self._recreate = recreate
        self._met = threading.Event()
        self._lock = threading.Lock()
        self._polls_on = polls_on
        self._begun = False

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self._met.set()

    def __call__(self, given: Any) -> None:
        with self._lock:
            first, self._begun = not self._begun, True
        if first:
            self._recreate()
        if self._polls_on:
            assert self._met.wait(DEADLINE_S), "the member never heard of the new topic"
        with self._lock:
            self.handled += _values(given)

    def all_new(self) -> bool:
        return set(NEW).issubset(self.handled)


class HandlesOnLoop(Handles):
    async def __call__(self, given: Any) -> None:  # type: ignore[override]
        super().__call__(given)


def _values(given: Any) -> list[bytes]:
    if isinstance(given, list):
        return [record.value for record in given]
    return [given.value] if hasattr(given, "value") else given.column("value").to_pylist()


@pytest.mark.parametrize(
    ("order", "handler"), [*((each, Handles) for each in ORDERS), *((each, HandlesOnLoop) for each in POLLS_ON)]
)
def test_a_partition_that_was_full_when_its_topic_was_made_anew_stayed_paused_for_ever(
    recreating: RecreatingBroker, order: str, handler: type[Handles]
) -> None:
    """The member stayed in its group, had the partition, said nothing, and handled nothing."""
    recreating.append("t", 0, *OLD)
    recreating.committed[T0] = 0
    handles = handler(lambda: recreating.recreate("t", *NEW), order in POLLS_ON)
    options = {
        "metadata_max_age_ms": 50,
        "fetch_max_wait_ms": 50,
        "retry_backoff_ms": 20,
        "auto_commit_interval_ms": 20,
    }
    spec = MemberSpec(("t",), "g", recreating.bootstrap_servers, options=options, **ORDERS[order])
    loop = MemberLoop(spec, handles)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        wait_for(handles.all_new)
        recreating.append("t", 0, LAST)
        wait_for(lambda: LAST in handles.handled and recreating.stored("t") == len(NEW) + 1)
    finally:
        loop.stop()
        thread.join(DEADLINE_S)
    assert loop.report().error is None
    assert recreating.stored("t") == len(NEW) + 1


class Holds:
    """Keeps its records in hand until it is let go."""

    def __init__(self, let_go: threading.Event, handled: list[bytes]) -> None:
        self.begun, self.gave_up = threading.Event(), threading.Event()
        self._let_go = let_go
        self._handled = handled

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self.gave_up.set()

    def __call__(self, given: Any) -> None:
        self.begun.set()
        assert self._let_go.wait(DEADLINE_S)
        self._handled.extend(_values(given))


def _fill(servers: str, values: list[bytes]) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number, value in enumerate(values):
            producer.send("t", value=value, partition=number % 4)


def _two_members(servers: str, order: dict[str, Any]) -> None:
    handled: list[bytes] = []
    let_go = threading.Event()
    holds = [Holds(let_go, handled) for _ in range(2)]
    options = {"metadata_max_age_ms": 50, "heartbeat_interval_ms": 50, "group_expected_members": 2}
    spec = MemberSpec(("t",), "g", servers, options=options, revoke_wait_ms=50, **order)
    loops = [MemberLoop(spec, each) for each in holds]
    threads = [threading.Thread(target=loop.run) for loop in loops]
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("t", 4, 1)])
        _fill(servers, OLD)
        for thread in threads:
            thread.start()
        try:
            wait_for(lambda: all(each.begun.is_set() for each in holds))
            admin.delete_topics(["t"])
            admin.create_topics([NewTopic("t", 4, 1)])
            _fill(servers, NEW)
            wait_for(lambda: all(each.gave_up.is_set() for each in holds))
            let_go.set()
            wait_for(lambda: set(NEW).issubset(handled))
        finally:
            let_go.set()
            for loop in loops:
                loop.stop()
            for thread in threads:
                thread.join(DEADLINE_S)
    assert [loop.report().error for loop in loops] == [None, None]


@pytest.mark.parametrize("order", ["side by side", "batches that wait"])
async def test_a_group_whose_topic_was_made_anew_while_its_members_were_full_stood_still(
    tmp_path: Path, order: str
) -> None:
    async with world(tmp_path, brokers=1, offsets_topic_replication_factor="1") as w:
        await asyncio.to_thread(_two_members, f"127.0.0.1:{w.servers[0].port}", ORDERS[order])
