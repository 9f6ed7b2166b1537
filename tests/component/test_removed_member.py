"""A member that its coordinator has removed for silence: its connection stays, and is of no more use to it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from test_group_serial_order import SETTINGS, TOPIC, served

from actors.wire import messages as m
from tests.support.three_brokers import Client, World, world

GROUP = "g"
SESSION_MS = 500
PATIENT_MS = 600_000
KINDS = ["heartbeat", "sync", "commit", "join", "leave"]


class Member:
    """A member on one connection, and the raw requests it can send."""

    def __init__(self, client: Client, session_ms: int) -> None:
        self.client, self.session_ms = client, session_ms
        self.id, self.generation = "", -1

    async def ask(self, kind: str) -> int:
        """Send a request of this kind; the error that concerns this member."""
        answer = await self.client.ask(*self._request(kind))
        if kind == "join":
            self.id = answer.member_id or self.id
            self.generation = max(self.generation, answer.generation_id)
        if kind == "commit":
            return int(answer.topics[0].partitions[0].error_code)
        if kind == "leave":
            assert answer.error_code == 0
            return int(answer.members[0].error_code)
        return int(answer.error_code)

    def _request(self, kind: str) -> tuple[m.ApiMessage, int]:
        place: dict[str, Any] = {"group_id": GROUP, "member_id": self.id}
        match kind:
            case "join":
                offer = m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"meta")
                times = {"session_timeout_ms": self.session_ms, "rebalance_timeout_ms": PATIENT_MS}
                return m.JoinGroupRequest(**place, **times, protocol_type="consumer", protocols=[offer]), 7
            case "sync":
                return m.SyncGroupRequest(**place, generation_id=self.generation), 4
            case "heartbeat":
                return m.HeartbeatRequest(**place, generation_id=self.generation), 3
            case "leave":
                me = m.LeaveGroupRequest.MemberIdentity(member_id=self.id)
                return m.LeaveGroupRequest(group_id=GROUP, members=[me]), 4
            case _:
                row = m.OffsetCommitRequest.OffsetCommitRequestPartition(
                    partition_index=0, committed_offset=5, committed_metadata=""
                )
                topic = m.OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[row])
                place["generation_id_or_member_epoch"] = self.generation
                return m.OffsetCommitRequest(**place, topics=[topic]), 8

    async def join(self) -> None:
        while error := await self.ask("join"):
            assert error in (25, 79), error
            self.id = "" if error == 25 else self.id  # the id it was given has expired: a slow machine
        await self.ask("sync")

    async def join_with(self, newcomer: Member) -> None:
        """Until a member that has a place already is in one generation with the newcomer."""
        joining = asyncio.ensure_future(newcomer.join())
        while not joining.done():
            if await self.ask("heartbeat") == 27:
                await self.join()
            await asyncio.sleep(0.01)
        await joining


async def without(w: World, member_id: str) -> None:
    """Until the group has no such member."""
    client = await w.client(0)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 60
    while True:
        (group,) = (await client.ask(m.DescribeGroupsRequest(groups=[GROUP]), 5)).groups
        if member_id not in {each.member_id for each in group.members}:
            client.close()
            return
        assert loop.time() < deadline, f"{member_id} is still in the group"
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("others", [0, 1], ids=["the last one", "one of two"])
async def test_the_next_request_of_a_member_removed_for_silence_gets_25(tmp_path: Path, others: int, kind: str) -> None:
    async with world(tmp_path, 1, **SETTINGS, group_min_session_timeout_ms="100") as w:
        await served(w)
        silent = Member(await w.client(0), SESSION_MS)
        if others:
            stays = Member(await w.client(0), PATIENT_MS)
            await stays.join()
            await stays.join_with(silent)
        else:
            await silent.join()
        removed, generation = silent.id, silent.generation
        await without(w, removed)
        for each in [kind, *KINDS]:
            silent.id, silent.generation = removed, generation
            assert await silent.ask(each) == 25, f"{each}, on the connection it had all the time"
