"""Members of many groups in one thread: each beats, commits and waits for the answers, and does nothing else.

A client library for each would need more CPU than the cluster that is to be tested. These are a connection and a
coroutine each, and tell how late their own thread was.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from actors.client.errors import KafkaConnectionError, KafkaError
from actors.client.net.connection import Connection, connect
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    ApiMessage,
    FindCoordinatorRequest,
    HeartbeatRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from tests.compat.raw import join_request

SESSION_TIMEOUT_MS = 45_000  # as Kafka's consumers have it
_REBALANCE_TIMEOUT_MS = 300_000
_PATIENCE_MS = 600_000  # no request is given up
_RETRY_S = 0.2
_TICK_S = 0.1


@dataclass(frozen=True, slots=True)
class Answer:
    """A heartbeat or commit: when it was asked and answered, in monotonic seconds, and with which code."""

    group: str
    kind: str
    asked: float
    answered: float
    code: int

    @property
    def took(self) -> float:
        return self.answered - self.asked


@dataclass(slots=True)
class Told:
    """The events that members have seen. Lists only grow, and may be read from any thread."""

    answers: list[Answer] = field(default_factory=list)
    expelled: list[tuple[float, str]] = field(default_factory=list)
    """The time at which a member was answered UNKNOWN_MEMBER_ID, and its name."""
    closed: list[tuple[float, str]] = field(default_factory=list)
    """The time at which the connection of a joined member broke, its name, and the error."""
    stalls: list[tuple[float, float]] = field(default_factory=list)
    """The time at which the members' thread was late, and its delay in seconds."""


class Members:
    """`size` members in each of `groups`, in a thread. They commit to `topic`, each to a partition of its own."""

    def __init__(self, servers: str, groups: list[str], size: int, pause_s: float, topic: str | None) -> None:
        self.told = Told()
        self.pause_s = pause_s
        self.topic = topic
        self.servers = [(host, int(port)) for host, _, port in (each.rpartition(":") for each in servers.split(","))]
        self.members = [_Member(self, group, number) for group in groups for number in range(size)]
        self._stop = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="light-members", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End them. Raises the error that has ended them before."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._all())
        except BaseException as error:
            self._error = error
        finally:
            self._loop.close()

    async def _all(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._watch())]
            for number, member in enumerate(self.members):  # not all at one time
                running.append(tasks.create_task(member.live(self.pause_s * number / len(self.members))))
            await self._stop.wait()
            for task in running:
                task.cancel()

    async def _watch(self) -> None:
        due = time.monotonic()
        while True:
            due += _TICK_S
            await asyncio.sleep(due - time.monotonic())
            late = (now := time.monotonic()) - due
            if late > _TICK_S:
                self.told.stalls.append((now, late))
                due = now


class _Member:
    _KNOWN: ClassVar = {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}

    def __init__(self, members: Members, group: str, number: int) -> None:
        self._members, self._told = members, members.told
        self._group, self._number = group, number
        self._name = f"{group}-{number}"
        self._id = ""
        self._generation = -1
        self._asked = number
        self._offset = 0
        self._connection: Connection | None = None

    async def live(self, delay_s: float) -> None:
        """Join, beat and commit until cancelled; whatever breaks is done again."""
        await asyncio.sleep(delay_s)
        try:
            while True:
                with contextlib.suppress(KafkaError):
                    await self._find()
                    while await self._join():
                        while await self._turn():
                            pass
                await asyncio.sleep(_RETRY_S)
        finally:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _lost(self, error: KafkaError) -> None:
        if self._connection is not None and self._id:  # it has no other then, and takes it out before it closes it
            self._told.closed.append((time.monotonic(), f"{self._name}: {error}"))

    async def _open(self, host: str, port: int) -> Connection:
        return await connect(host, port, self._name, self._lost, _PATIENCE_MS)

    async def _find(self) -> None:
        self._close()
        self._asked += 1  # another broker each time: one may be dead
        broker = await self._open(*self._members.servers[self._asked % len(self._members.servers)])
        try:
            request = FindCoordinatorRequest(key=self._group, key_type=0)
            found = await broker.call(request, _PATIENCE_MS, max_version=2)
        finally:
            broker.close()
        if found.error_code:
            raise KafkaConnectionError
        self._connection = await self._open(found.host, found.port)

    async def _call(self, request: ApiMessage, max_version: int) -> Any:
        if self._connection is None:
            raise KafkaConnectionError
        return await self._connection.call(request, _PATIENCE_MS, max_version=max_version)

    async def _join(self) -> bool:
        """Join and sync. True if it is a member of a generation; else the coordinator is elsewhere, or loads."""
        while True:
            request = join_request(self._group, self._id, SESSION_TIMEOUT_MS, _REBALANCE_TIMEOUT_MS)
            joined = await self._call(request, 5)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._id = joined.member_id
            elif not self._stays(joined.error_code) or joined.error_code:
                return False
            elif await self._sync(joined):
                return True

    async def _sync(self, joined: Any) -> bool:
        self._id, self._generation = joined.member_id, joined.generation_id
        shares = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"a share")
            for member in joined.members
        ]
        request = SyncGroupRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._id, assignments=shares
        )
        synced = await self._call(request, 3)
        if not self._stays(synced.error_code):
            raise KafkaConnectionError
        return not synced.error_code

    def _stays(self, code: int) -> bool:
        """True if the coordinator that answered knows this member. Notes that it has been expelled."""
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._told.expelled.append((time.monotonic(), self._name))
            self._id = ""
        return code in self._KNOWN

    async def _turn(self) -> bool:
        """Beat, commit, and pause; False if it has to join again."""
        beat = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._id)
        codes = [(await self._ask("heartbeat", beat, 3)).error_code]
        if self._members.topic is not None:
            answer = await self._ask("commit", self._commit(self._members.topic), 8)
            codes.append(answer.topics[0].partitions[0].error_code)
        if not all(self._stays(code) for code in codes):
            raise KafkaConnectionError  # look for the coordinator again
        if any(codes):
            return False
        await asyncio.sleep(self._members.pause_s)
        return True

    def _commit(self, topic: str) -> OffsetCommitRequest:
        self._offset += 1
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=self._number, committed_offset=self._offset
        )
        return OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._id,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )

    async def _ask(self, kind: str, request: ApiMessage, max_version: int) -> Any:
        asked = time.monotonic()
        answer = await self._call(request, max_version)
        code = answer.error_code if kind == "heartbeat" else answer.topics[0].partitions[0].error_code
        self._told.answers.append(Answer(self._group, kind, asked, time.monotonic(), code))
        return answer
