"""A thousand requests of many members on many connections: their answers are those of some serial order.

A broker, its controller and the coordinator on one loop, over real sockets and files. The test searches
for an order of the requests that a model of the group explains (tests/support/serial_order.py, group_model.py).
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.coordinator.classic import membership
from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.groups.offsets import CommitWrite
from actors.coordinator.writer import Writer
from actors.wire import messages as m
from tests.support.group_model import (
    ID_REQUIRED,
    OK,
    REBALANCING,
    UNKNOWN_MEMBER,
    GroupModel,
    MembersModel,
    OffsetsModel,
    Request,
)
from tests.support.serial_order import UndecidedError, serial_order
from tests.support.three_brokers import Client, World, world

TOPIC, PARTITIONS = "t", 3
MEMBERS, OUTSIDERS, REQUESTS = 10, 4, 1_000
LONG_MS = 600_000
SETTINGS = {
    "offsets_topic_num_partitions": "1",
    "offsets_topic_replication_factor": "1",
    "coterie_shard_silence_ms": str(LONG_MS),
}
ATTEMPTS = 10
SEED = 7


class History:
    """Requests and their answers. Times are positions in one order of all sendings and answers."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.requests: list[Request] = []
        self.known: set[str] = set()
        self.order: list[int] | None = None
        self.most_open = 0
        self._clock = itertools.count()
        self._offsets = itertools.count(1)

    @property
    def full(self) -> bool:
        return len(self.requests) >= REQUESTS

    def next_offset(self) -> int:
        """None is committed twice, so that a fetch tells which commit it sees."""
        return next(self._offsets)

    async def ask(self, client: Client, request: Request) -> Any:
        message, version = _message(self.group, request)
        self.requests.append(request)
        request.invoked = next(self._clock)
        self.most_open = max(self.most_open, sum(not each.answered for each in self.requests[-100:]))
        answer = await client.ask(message, version)
        request.answered = next(self._clock)
        request.answer = _answer(request, answer)
        return answer


def _message(group: str, request: Request) -> tuple[m.ApiMessage, int]:
    place = {"group_id": group, "generation_id": request.generation, "member_id": request.member}
    match request.kind:
        case "join":
            offer = m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=request.metadata)
            times = {"session_timeout_ms": LONG_MS, "rebalance_timeout_ms": LONG_MS}
            who = {"group_id": group, "member_id": request.member, "protocol_type": "consumer"}
            return m.JoinGroupRequest(**who, **times, protocols=[offer]), 7
        case "sync":
            row = m.SyncGroupRequest.SyncGroupRequestAssignment
            shares = [row(member_id=member, assignment=share) for member, share in sorted(request.assignments)]
            return m.SyncGroupRequest(**place, assignments=shares), 4
        case "heartbeat":
            return m.HeartbeatRequest(**place), 3
        case "leave":
            leaving = m.LeaveGroupRequest.MemberIdentity(member_id=request.member)
            return m.LeaveGroupRequest(group_id=group, members=[leaving]), 4
        case "commit":
            commit = m.OffsetCommitRequest
            partition = commit.OffsetCommitRequestPartition(
                partition_index=request.partition, committed_offset=request.offset, committed_metadata=""
            )
            topic = commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
            del place["generation_id"]
            return commit(**place, generation_id_or_member_epoch=request.generation, topics=[topic]), 8
        case _:
            wanted = m.OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[*range(PARTITIONS)])
            return m.OffsetFetchRequest(group_id=group, topics=[wanted]), 7


def _answer(request: Request, answer: Any) -> Any:
    """As the model says it."""
    match request.kind:
        case "join" if answer.error_code == ID_REQUIRED:
            return (ID_REQUIRED, answer.member_id)
        case "join" if answer.error_code:
            return (answer.error_code,)
        case "join":
            members = frozenset((each.member_id, each.metadata) for each in answer.members)
            return (OK, answer.generation_id, answer.leader, answer.member_id, members)
        case "sync":
            return (answer.error_code, answer.assignment)
        case "heartbeat":
            return answer.error_code
        case "leave":
            return answer.error_code or answer.members[0].error_code
        case "commit":
            return answer.topics[0].partitions[0].error_code
        case _:
            found = {p.partition_index: p.committed_offset for topic in answer.topics for p in topic.partitions}
            return tuple(found[n] for n in range(PARTITIONS))


class Member:
    """One member: joins, syncs, does this and that, rejoins when it is told to, and leaves at the end."""

    def __init__(self, history: History, client: Client, chance: random.Random) -> None:
        self.history, self.client, self.chance = history, client, chance
        self.id = ""
        self.generation = -1
        self.metadata = b"first"
        self.stable = False

    async def ask(self, kind: str, **fields: Any) -> Any:
        fields = {"member": self.id, "generation": self.generation} | fields
        return await self.history.ask(self.client, Request(kind, **fields))

    async def live(self) -> None:
        while not self.history.full:
            if self.stable:
                await self.do_something()
            else:
                await self.join()
        if self.id:
            await self.ask("leave")

    async def join(self) -> None:
        answer = await self.ask("join", metadata=self.metadata)
        self.id = answer.member_id if answer.error_code in (OK, ID_REQUIRED) else ""
        if answer.error_code:
            return
        self.history.known.add(self.id)
        self.generation = answer.generation_id
        names = sorted(each.member_id for each in answer.members)
        shares = frozenset((name, f"{name} in {self.generation}".encode()) for name in names[:-1])  # the last has none
        synced = await self.ask("sync", assignments=shares)
        self.stable = synced.error_code == OK
        self._heard(synced.error_code)

    def _heard(self, error: int) -> None:
        if error:
            self.stable = False
        if error == UNKNOWN_MEMBER:
            self.id = ""

    async def do_something(self) -> None:
        match self.chance.choices(
            ["beat", "commit", "stale", "fetch", "again", "change", "leave"], [9, 9, 3, 5, 1, 1, 1]
        )[0]:
            case "beat":
                self._heard((await self.ask("heartbeat")).error_code)
            case "commit":
                await self.commit(self.generation)
            case "stale":
                older = self.generation - 1
                await self.ask("heartbeat", generation=older)
                await self.commit(older)
            case "fetch":
                await self.ask("fetch")
            case "again":
                self.stable = False
            case "change":
                self.metadata, self.stable = self.chance.choice([b"first", b"second"]), False
            case "leave":
                await self.ask("leave")
                self.id, self.generation, self.stable = "", -1, False

    async def commit(self, generation: int) -> None:
        partition = self.chance.randrange(PARTITIONS)
        offset = self.history.next_offset()
        answer = await self.ask("commit", generation=generation, partition=partition, offset=offset)
        if generation == self.generation:
            self._heard(answer.topics[0].partitions[0].error_code)


async def look_on(history: History, client: Client, chance: random.Random) -> None:
    """Somebody outside the group: reads its offsets, commits where it may not, and sometimes takes a member away."""
    while not history.full:
        match chance.choices(["fetch", "commit", "beat", "kick"], [12, 2, 2, 1])[0]:
            case "fetch":
                await history.ask(client, Request("fetch"))
            case "commit":
                offset = history.next_offset()
                await history.ask(client, Request("commit", partition=chance.randrange(PARTITIONS), offset=offset))
            case "beat":
                await history.ask(client, Request("heartbeat", member="a stranger", generation=1))
            case "kick" if history.known:
                await history.ask(client, Request("leave", member=chance.choice(sorted(history.known))))


async def lived(w: World, seed: int) -> History:
    """A history of so many requests; the group exists before it begins."""
    chance = random.Random(seed)
    history = History(f"g{seed}")
    clients = [await w.client(0) for _ in range(MEMBERS + OUTSIDERS)]
    members = [Member(history, client, random.Random(chance.random())) for client in clients[:MEMBERS]]
    await members[0].join()  # gets an id, of a group that is made for it
    outsiders = [look_on(history, client, random.Random(chance.random())) for client in clients[MEMBERS:]]
    await asyncio.gather(*(member.live() for member in members), *outsiders)
    for client in clients:
        client.close()
    return history


async def served(w: World) -> None:
    """Until the group's coordinator serves."""
    await w.create(TOPIC, 1, PARTITIONS)
    client = await w.client(0)

    async def code(message: m.ApiMessage, version: int) -> int:
        answer = await client.ask(message, version)
        return int(answer.error_code if hasattr(answer, "error_code") else answer.groups[0].error_code)

    loop = asyncio.get_running_loop()
    deadline = loop.time() + 60
    lookup, describe = m.FindCoordinatorRequest(key="g", key_type=0), m.DescribeGroupsRequest(groups=["g"])
    while await code(lookup, 2) or await code(describe, 0):
        assert loop.time() < deadline, "no coordinator"
        await asyncio.sleep(0.01)
    client.close()


async def decided(w: World, seed: int) -> History:
    """A history with the order that explains it. One that is undecided is no answer: another one is lived."""
    for attempt in range(ATTEMPTS):
        history = await lived(w, 1_000 * attempt + seed)
        try:
            history.order = ordered(history.requests)
        except UndecidedError:
            continue
        return history
    raise UndecidedError(f"none of {ATTEMPTS} histories could be decided")


def ordered(requests: list[Request]) -> list[int] | None:
    """A serial order of all requests. Its two halves are looked at first: what one of them forbids is soon found."""
    halves: list[GroupModel] = [MembersModel(requests), OffsetsModel(requests, PARTITIONS)]
    if any(serial_order(model.requests, model) is None for model in halves):
        return None
    return serial_order(requests, GroupModel(requests, PARTITIONS))


@asynccontextmanager
async def coordinator(path: Path) -> AsyncIterator[World]:
    async with world(path, 1, **SETTINGS) as w:
        await served(w)
        yield w


WILD = [("join", 0), ("join", 79), ("sync", 0), ("sync", 27), ("heartbeat", 27), ("commit", 0)]
"""Answers that a history has to have: only then was there something to put in order."""


async def test_a_thousand_requests_at_once_are_answered_as_in_some_serial_order(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as w:
        answers: Counter[tuple[str, int]] = Counter()
        most_open = 0
        for attempt in range(ATTEMPTS):  # collisions are chance: another history follows a tame one
            history = await decided(w, SEED + attempt)
            assert history.order is not None, "no serial order gives these answers"
            assert sorted(history.order) == list(range(len(history.requests)))
            answers.update((each.kind, each.code) for each in history.requests)
            most_open = max(most_open, history.most_open)
            if all(answers[each] >= 5 for each in WILD) and most_open >= MEMBERS:
                return
        raise AssertionError(f"too tame: {answers}, {most_open} open at once")


# --- bugs that it finds -----------------------------------------------------------------------------------------------


def loses_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tenth commit is acknowledged and not written."""
    whole, count = Writer.submit, itertools.count(1)

    def submit(self: Writer, write: Any, *others: Any) -> None:
        if isinstance(write, CommitWrite) and next(count) % 10 == 0:
            *_, now = others
            write.committed(now)
        else:
            whole(self, write, *others)

    monkeypatch.setattr(Writer, "submit", submit)


def takes_an_older_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member's commit of the generation before is taken."""
    whole = ClassicGroup.check_commit

    def check(self: ClassicGroup, request: Any, timers: Any, now: Any) -> int:
        if request.generation_id == self.generation_id - 1:
            request = request._replace(generation_id=self.generation_id)
        return whole(self, request, timers, now)

    monkeypatch.setattr(ClassicGroup, "check_commit", check)


def tells_nobody_of_a_rebalance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats are answered 0 while the others join."""
    whole = membership.HeartbeatResponse

    def answer(error: int) -> Any:
        return whole(OK if error == REBALANCING and next(count) % 2 else error)

    count = itertools.count()
    monkeypatch.setattr(membership, "HeartbeatResponse", answer)


@pytest.mark.parametrize("bug", [loses_a_commit, takes_an_older_generation, tells_nobody_of_a_rebalance])
async def test_no_serial_order_explains_a_coordinator_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: Any
) -> None:
    async with coordinator(tmp_path) as w:
        bug(monkeypatch)
        for attempt in range(ATTEMPTS):  # a history in which the bug did no harm is followed by another
            if (await decided(w, SEED + attempt)).order is None:
                return
        raise AssertionError(f"{ATTEMPTS} histories have a serial order")
