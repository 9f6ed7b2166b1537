"""How long a group of a hundred takes to form: from the first join until all hold one generation's assignment.

Raw members on connections made beforehand; each joins in two steps, syncs, and then beats every 10 ms; one that is
told to rejoin (27) does at once. The initial rebalance delay of 200 ms is part of the protocol and subtracted.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import struct
import time

from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import (
    ApiMessage,
    HeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    response_class,
)
from benchmarks.common import Row, note, print_rows, temporary_folder
from tests.compat import peers
from tests.compat.peers import UnavailableError
from tests.compat.raw import serving_coordinator

MEMBERS = 100
INITIAL_DELAY_MS = 200
HEARTBEAT_S = 0.01
ROUNDS = 5
LIMIT_S = 60.0
CONFIG = {"group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS)}


class Member:
    """One connection that joins, syncs and beats."""

    def __init__(self, group: str, number: int) -> None:
        self.group = group
        self.name = f"member-{number}"
        self.id = ""
        self.generation = -1
        self.holds = -1  # the generation whose assignment it has
        self.formed = asyncio.Event()
        self._next_id = 0

    async def connect(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))

    async def _call(self, request: ApiMessage, version: int) -> ApiMessage:
        self._next_id += 1
        self._writer.write(encode_request(request, version, self._next_id, self.name))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        frame = await self._reader.readexactly(size)
        correlation_id, answer = decode_response(response_class(request.api_key), version, frame)
        assert correlation_id == self._next_id
        return answer

    async def run(self, done: asyncio.Event) -> None:
        while not done.is_set():
            if self.holds == -1 and await self._join():
                await asyncio.sleep(0)
            await self._beat()

    async def _join(self) -> bool:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\0\0\0\0\0")
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        joined = await self._call(request, 5)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = self.id = joined.member_id
            joined = await self._call(request, 5)
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
        assert synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS, f"sync answered {synced.error_code}"
        return False

    async def _beat(self) -> None:
        if self.holds == -1:
            return
        await asyncio.sleep(HEARTBEAT_S)
        beat = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.id)
        answer = await self._call(beat, 3)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.holds = -1
        else:
            assert answer.error_code == 0, f"heartbeat answered {answer.error_code}"

    def close(self) -> None:
        self._writer.close()


async def _form(address: str, group: str) -> float:
    members = [Member(group, n) for n in range(MEMBERS)]
    await asyncio.gather(*(m.connect(address) for m in members))
    done = asyncio.Event()
    started = time.monotonic()
    tasks = [asyncio.create_task(m.run(done)) for m in members]
    try:
        while len({m.holds for m in members}) != 1 or members[0].holds == -1:
            for task in tasks:
                if task.done():
                    task.result()
            assert time.monotonic() - started < LIMIT_S, "the group does not form"
            await asyncio.sleep(0.002)
        return time.monotonic() - started - INITIAL_DELAY_MS / 1000
    finally:
        done.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for member in members:
            member.close()


def formation_s(servers: str) -> list[float]:
    """Seconds of each round, sorted, the initial delay subtracted."""
    took = []
    for number in range(ROUNDS):
        group = f"formation-{number}"
        took.append(asyncio.run(_form(serving_coordinator(servers, group), group)))
    return sorted(took)


def run() -> list[Row]:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        note(f"a group of {MEMBERS} forms")
        with peers.coterie(folder, config=CONFIG) as cluster:
            ours = formation_s(cluster.bootstrap_servers)
        theirs: list[float] = []
        with contextlib.suppress(UnavailableError), peers.apache_kafka(folder, CONFIG) as kafka:
            theirs = formation_s(kafka.bootstrap_servers)
    median = statistics.median(ours)
    peer = statistics.median(theirs) if theirs else None
    return [
        Row(
            f"formation of a group of {MEMBERS}, initial delay subtracted (median of {ROUNDS}, slowest)",
            f"{median:.2f} s, {ours[-1]:.2f} s",
            "" if peer is None else f"{peer:.2f} s, {theirs[-1]:.2f} s (Apache Kafka)",
            None if peer is None else median / peer,
            "< 0.5 s",
            median < 0.5,
        )
    ]


if __name__ == "__main__":
    print_rows(run())
