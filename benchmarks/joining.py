"""Raw members in one thread that join groups, and how long it takes until every group has formed.

Each member joins in two steps, syncs, and then beats; one that is told to rejoin does at once.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Sequence
from typing import Any

from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import (
    ApiMessage,
    HeartbeatRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    response_class,
)
from tests.compat.raw import RETRIABLE_JOIN, find_coordinator, join_request

INITIAL_DELAY_MS = 200
"""The clusters' `group.initial.rebalance.delay.ms`; it is part of the protocol, and subtracted."""
CONFIG = {"group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS)}
BEATS_PER_S = 5_000
"""Of all members together: more would measure the client."""
TIMEOUT_MS = 60_000
RETRY_S = 0.02


class Member:
    """One connection that joins, syncs and beats."""

    def __init__(self, group: str, number: int) -> None:
        self.group = group
        self.name = f"member-{number}"
        self.id = ""
        self.generation = -1
        self.port = 0
        self.holds = -1  # the generation whose assignment it has
        self._next_id = 0

    async def connect(self, address: str) -> None:
        """Connect to the coordinator, "host:port"."""
        host, _, port = address.rpartition(":")
        self.port = int(port)
        self._reader, self._writer = await asyncio.open_connection(host, self.port)

    async def run(self, servers: str, beat_s: float, done: asyncio.Event) -> None:
        """Join and beat until told that it is done; no request is left unanswered."""
        while not done.is_set():
            if self.holds != -1:
                await asyncio.sleep(beat_s)
                await self._beat()
            elif not await self._join():
                await asyncio.sleep(RETRY_S)
                self.close()
                await self.connect(await asyncio.to_thread(find_coordinator, servers, self.group))

    async def leave(self) -> None:
        """Leave the group, and close."""
        await self._call(LeaveGroupRequest(group_id=self.group, member_id=self.id), 0)
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def _call(self, request: ApiMessage, version: int) -> Any:
        self._next_id += 1
        self._writer.write(encode_request(request, version, self._next_id, self.name))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        frame = await self._reader.readexactly(size)
        correlation_id, answer = decode_response(response_class(request.api_key), version, frame)
        assert correlation_id == self._next_id
        return answer

    async def _join(self) -> bool:
        """False if the coordinator cannot answer yet, or is another."""
        joined = await self._call(join_request(self.group, self.id, TIMEOUT_MS, TIMEOUT_MS), 5)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = joined.member_id
            joined = await self._call(join_request(self.group, self.id, TIMEOUT_MS, TIMEOUT_MS), 5)
        if joined.error_code in RETRIABLE_JOIN:
            return False
        assert joined.error_code == 0, f"join answered {joined.error_code}"
        self.id, self.generation = joined.member_id, joined.generation_id
        assignments = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=m.member_id, assignment=m.member_id.encode())
            for m in joined.members
        ]
        sync = SyncGroupRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.id, assignments=assignments
        )
        synced = await self._call(sync, 3)
        if synced.error_code == 0:
            assert synced.assignment == self.id.encode()
            self.holds = self.generation
            return True
        if synced.error_code in RETRIABLE_JOIN:
            return False
        assert synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS, f"sync answered {synced.error_code}"
        return True

    async def _beat(self) -> None:
        beat = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.id)
        answer = await self._call(beat, 3)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.holds = -1
        else:
            assert answer.error_code == 0, f"heartbeat answered {answer.error_code}"


async def form(servers: str, names: Sequence[str], size: int, limit_s: float = 180.0) -> tuple[float, list[Member]]:
    """Have groups of `size` form, and stop beating; seconds from the first question to the last assignment."""
    members = [Member(group, n) for group in names for n in range(size)]
    began = time.monotonic()
    addresses = await asyncio.gather(*(asyncio.to_thread(find_coordinator, servers, name, limit_s) for name in names))
    at = dict(zip(names, addresses, strict=True))
    await asyncio.gather(*(member.connect(at[member.group]) for member in members))
    done, beat_s = asyncio.Event(), len(members) / BEATS_PER_S
    tasks = [asyncio.create_task(member.run(servers, beat_s, done)) for member in members]
    try:
        while not _formed(members):
            for task in tasks:
                if task.done():
                    task.result()
            assert time.monotonic() - began < limit_s, "the groups do not form"
            await asyncio.sleep(0.005)
        took = time.monotonic() - began
        done.set()
        await asyncio.gather(*tasks)
        return took, members
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _formed(members: Sequence[Member]) -> bool:
    held: dict[str, set[int]] = {}
    for member in members:
        held.setdefault(member.group, set()).add(member.holds)
    return all(len(generations) == 1 and -1 not in generations for generations in held.values())
