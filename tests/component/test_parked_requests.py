"""Requests for a shard that is being started: they wait, in order and within limits, instead of being refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.broker.coordinators.parking import Parking, Place
from actors.coordinator_kinds.groups import GROUPS
from actors.links.relay import Kind
from actors.wire import messages
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage
from placement.metadata import OFFSETS_TOPIC, PartitionInfo
from placement.records import PartitionRecord
from tests.support.runtime_helpers import until
from tests.support.shard_world import (
    GROUP,
    OTHER,
    Client,
    Commit,
    Fetch,
    Heartbeat,
    Join,
    Sync,
    commit,
    fetch_offsets,
    heartbeat,
    world,
)

LATE = ErrorCode.COORDINATOR_NOT_AVAILABLE
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def join(group: str = GROUP) -> ApiMessage:
    return Join(group_id=group, session_timeout_ms=10_000, protocol_type="consumer")


# --- the bookkeeping ---


def place(partition: int) -> Place:
    return Place(GROUPS, partition)


class Waiters:
    """Parked requests that note what they were told."""

    def __init__(self, wait_s: float = 5, max_requests: int = 9, max_bytes: int = 99) -> None:
        self.parking = Parking(wait_s, max_requests, max_bytes)
        self.told: list[tuple[int, ErrorCode]] = []

    def park(self, number: int, partition: int = 1, size: int = 10, now: float = 0.0) -> bool:
        return self.parking.park(place(partition), number, size, lambda code: self.told.append((number, code)), now)


def test_what_is_parked_goes_in_order_of_arrival_and_once() -> None:
    w = Waiters()
    assert all(w.park(number) for number in (5, 3, 4))
    w.park(9, partition=2)
    w.parking.settle(place(1), ErrorCode.NONE)
    w.parking.settle(place(1), ErrorCode.NONE)
    assert w.told == [(5, 0), (3, 0), (4, 0)]
    assert w.parking.places() == [place(2)]


def test_what_has_waited_for_long_enough_is_answered_the_rest_stays() -> None:
    w = Waiters(wait_s=5)
    w.park(1, now=0.0)
    w.park(2, now=1.0)
    w.parking.expire(place(1), 4.9, LATE)
    assert w.told == []
    w.parking.expire(place(1), 5.0, LATE)
    assert w.told == [(1, LATE)]
    assert len(w.parking) == 1


@pytest.mark.parametrize("limit", [{"max_requests": 2}, {"max_bytes": 29}, {"wait_s": 0}])
def test_beyond_its_limits_nothing_is_parked_until_there_is_room(limit: dict[str, Any]) -> None:
    w = Waiters(**limit)
    room = 0 if "wait_s" in limit else 2
    assert [w.park(number) for number in range(3)] == [True] * room + [False] * (3 - room)
    w.parking.forget(range(3))
    assert [w.park(number) for number in range(3)] == [True] * room + [False] * (3 - room)
    w.parking.settle(place(1), LATE)
    assert len(w.told) == room
    assert w.park(7) == bool(room)


# --- the hub ---


async def test_requests_for_a_shard_that_is_being_started_reach_it_in_order_and_once(tmp_path: Path) -> None:
    """Eight of eight first groups were told 14, which kafkajs takes for the end of its consumer."""
    async with world(tmp_path) as w:
        clients = [Client(w.coordinators, number) for number in (1, 2)]
        sent: list[bytes] = []
        for number, message, version in ((0, join(), 5), (1, commit(), 8), (0, fetch_offsets(), 7)):
            clients[number].send(message, version)
        w.coordinators.tick()
        assert [c.written for c in clients] == [b"", b""], "nobody is refused"
        shard = await w.shard()
        await shard.hear(Kind.BECOME)
        clients[1].send(fetch_offsets(), 7)  # while it loads: the same
        await shard.serve()
        await shard.hear(Kind.REQUEST, 4)
        clients[0].send(commit(), 8)  # and behind them what comes later
        await shard.hear(Kind.REQUEST, 5)
        w.coordinators.tick()
        shard.protocol.send(Kind.ACTIVE, 1)  # said twice
        await until(lambda: len(w.states("Active")) == 1)
        requests = shard.of(Kind.REQUEST)
        sent = [frame[:2] for _, _, frame in requests]
        assert [int.from_bytes(key, "big") for key in sent] == [11, 8, 9, 9, 8]
        assert [connection for connection, _, _ in requests] == [1, 2, 1, 2, 1]
        opened = [connection for connection, _, _ in shard.of(Kind.OPEN)]
        assert sorted(opened) == [1, 2]
        for _, slot, frame in requests:
            answer: dict[int, ApiMessage] = {
                11: messages.JoinGroupResponse(member_id="m"),
                8: messages.OffsetCommitResponse(),
                9: messages.OffsetFetchResponse(),
            }
            shard.answer(slot, frame, answer[int.from_bytes(frame[:2], "big")])
        await until(lambda: not w.hub.partitions.links[1].pending and all(not len(c.connection.slots) for c in clients))
        assert clients[0].answers((Join, 5), (Fetch, 7), (Commit, 8))[0].member_id == "m"


async def test_heartbeats_and_syncs_do_not_wait_for_a_shard(tmp_path: Path) -> None:
    """A heartbeat that waited would count for a session that is long over. Kafka, too, answers both while it loads."""
    async with world(tmp_path) as w:
        client = Client(w.coordinators)
        client.send(heartbeat(), 3)
        client.send(Sync(group_id=GROUP, generation_id=1, member_id="m"), 3)
        beat, sync = client.answers((Heartbeat, 3), (Sync, 3))
        assert (beat.error_code, sync.error_code) == (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


@pytest.mark.parametrize("loading", [False, True], ids=["no process", "loading"])
async def test_who_has_waited_for_too_long_is_told_why(tmp_path: Path, loading: bool) -> None:
    async with world(tmp_path, coterie_shard_wait_ms="300") as w:
        shard = await w.shard() if loading else None
        client, told, described = Client(w.coordinators), [], []
        client.send(join(), 5)
        w.hub.ask(1, messages.DescribeGroupsRequest(groups=[GROUP]), 5, described.append)
        w.hub.await_serving(1, told.append)
        if shard is not None:
            await shard.hear(Kind.BECOME)
        deadline = asyncio.get_running_loop().time() + 60
        while not (client.written and told and described) and asyncio.get_running_loop().time() < deadline:
            w.coordinators.tick()
            await asyncio.sleep(0.02)
        code = LOADING if loading else LATE
        assert client.answers((Join, 5))[0].error_code == code
        assert described[0].groups[0].error_code == code
        assert told == [code]
        assert not client.aborted


async def test_a_parked_request_whose_client_has_gone_is_dropped(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        gone, other = Client(w.coordinators, 1), Client(w.coordinators, 2)
        gone.send(commit(), 8)
        other.send(fetch_offsets(), 7)
        gone.go()
        shard = await w.serving(1)
        await shard.hear(Kind.REQUEST)
        other.send(fetch_offsets(), 7)
        await shard.hear(Kind.REQUEST, 2)
        assert [connection for connection, _, _ in shard.of(Kind.REQUEST)] == [2, 2]
        assert [connection for connection, _, _ in shard.of(Kind.OPEN)] == [2]


@pytest.mark.parametrize("how", ["moves away", "lease", "topic deleted"])
async def test_parked_requests_are_sent_on_when_this_broker_leads_no_longer(tmp_path: Path, how: str) -> None:
    async with world(tmp_path) as w:
        client, told = Client(w.coordinators), []
        client.send(join(), 5)
        w.hub.await_serving(1, told.append)
        if how == "moves away":
            w.lead(1, leader=1, epoch=6)
        elif how == "lease":
            shared = PartitionInfo(0, 5, (0, 1), (0, 1))
            w.context.metadata.apply(PartitionRecord(OFFSETS_TOPIC, 1, shared))
            w.replication.leading = False
            w.coordinators.tick()
        else:
            del w.context.metadata.topics[OFFSETS_TOPIC]
            w.hub.note_topics()
        code = LATE if how == "topic deleted" else ErrorCode.NOT_COORDINATOR
        assert client.answers((Join, 5))[0].error_code == code
        await until(lambda: told == [code])


async def test_parked_requests_outlive_the_process_that_was_to_serve_them(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        client = Client(w.coordinators)
        client.send(commit(), 8)
        first = await w.shard()
        await first.hear(Kind.BECOME)
        first.protocol.close()
        await until(lambda: not w.states("Loading"))
        w.lead(1, leader=0, epoch=6)  # and a new epoch does not lose them either
        second = await w.serving(1)
        await second.hear(Kind.REQUEST)
        assert first.of(Kind.REQUEST) == []
        assert client.written == b""


async def test_a_log_that_cannot_be_read_answers_those_who_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as w:
        w.write(1, 3)
        tries = w.break_log(monkeypatch, 1)
        early, late = Client(w.coordinators, 1), Client(w.coordinators, 2)
        early.send(join(), 5)
        shard = await w.shard()
        await shard.hear(Kind.RESIGN)
        assert early.answers((Join, 5))[0].error_code == LATE
        await w.spare_again(shard)
        late.send(join(), 5)
        assert late.answers((Join, 5))[0].error_code == LATE
        w.coordinators.tick()
        assert len(tries) == 2, "not in a circle"


async def test_beyond_the_limit_requests_are_answered_at_once(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_shard_wait_max_requests="2") as w:
        client, other = Client(w.coordinators, 1), Client(w.coordinators, 2)
        client.send(join(), 5)
        client.send(commit(), 8)
        other.send(join(OTHER), 5, OTHER)
        assert other.answers((Join, 5))[0].error_code == LATE
        assert client.written == b""


async def test_what_is_read_when_a_lookup_is_answered_does_not_overtake_what_waited_beside_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        client = Client(w.coordinators)
        w.hub.await_serving(1, lambda code: client.send(fetch_offsets(), 7))  # as if it stood behind the lookup
        client.send(commit(), 8)
        shard = await w.serving(1)
        await shard.hear(Kind.REQUEST, 2)
        keys = [int.from_bytes(frame[:2], "big") for _, _, frame in shard.of(Kind.REQUEST)]
        assert keys == [Commit.api_key, Fetch.api_key]
