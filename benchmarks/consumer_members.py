"""Raw members of a consumer group (KIP-848) in one thread, and who of them owns which partition when.

A member owns what an answer assigns to it, from the moment it is read, and gives up what is missing in a later one; as
a client whose callbacks take no time it says so at once. Else it beats when it was told to.
"""

from __future__ import annotations

import asyncio
import base64
import struct
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

VERSION = 1
REBALANCE_TIMEOUT_MS = 60_000
_REST_S = 1.5
"""Longer than the assignment interval is by default."""
RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}

Place: TypeAlias = tuple[bytes, int]
"""A topic's id and a partition."""


class Owners:
    """The owners of partitions in one group, and how long partitions had no owner after they had one."""

    def __init__(self) -> None:
        self._of: dict[Place, str] = {}
        self._free_since: dict[Place, float] = {}
        self.longest_gap_s = 0.0

    def __len__(self) -> int:
        return len(self._of)

    def take(self, place: Place, member_id: str) -> None:
        """The member was assigned it. Raises AssertionError if another owns it."""
        owner = self._of.setdefault(place, member_id)
        assert owner == member_id, f"{place} was given to {member_id} while {owner} had it"
        if (since := self._free_since.pop(place, None)) is not None:
            self.longest_gap_s = max(self.longest_gap_s, time.monotonic() - since)

    def give_up(self, place: Place) -> None:
        """Its owner has read that it is not its own any more."""
        del self._of[place]
        self._free_since[place] = time.monotonic()

    def forget_gaps(self) -> None:
        """Measure anew."""
        self.longest_gap_s = 0.0


class ConsumerMember:
    """One connection to the coordinator of a group. `asked(epoch)` hears of each answer's member epoch."""

    def __init__(self, group: str, topic: str, owners: Owners) -> None:
        self.group = group
        self.id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.epoch = 0
        self.owned: frozenset[Place] = frozenset()
        self._topic = topic
        self._owners = owners
        self._interval_s = 1.0
        self._next_id = 0
        self._task: asyncio.Task[None] | None = None

    async def join(self, address: str) -> None:
        """Connect to the coordinator, "host:port", and join; the member beats from then on."""
        host, _, port = address.rpartition(":")
        self.port = int(port)
        self._reader, self._writer = await asyncio.open_connection(host, self.port)
        assert await self._beat(self._joining()), f"{address} is not the coordinator of {self.group}"
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Beat no more; the group is not told. Raises what ended the beating before."""
        if self._task is not None:
            self._task.cancel()
            done = (await asyncio.gather(self._task, return_exceptions=True))[0]
            if isinstance(done, Exception):
                raise done
        self._writer.close()

    def check(self) -> None:
        """Raises what ended the beating."""
        if self._task is not None and self._task.done():
            self._task.result()

    def request(self) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat that changes nothing."""
        return ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.id, member_epoch=self.epoch)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            assert await self._beat(self.request()), f"{self.id} was sent away"

    def _joining(self) -> ConsumerGroupHeartbeatRequest:
        request = self.request()
        request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
        request.subscribed_topic_names = [self._topic]
        request.topic_partitions = []
        return request

    async def _beat(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Beat, and say at once what that changed. False if the coordinator is not ready."""
        while True:
            answer = await self._call(request)
            if answer.error_code in RETRIABLE:
                return False
            assert answer.error_code == 0, f"heartbeat answered {answer.error_code}: {answer.error_message}"
            self.epoch, self._interval_s = answer.member_epoch, answer.heartbeat_interval_ms / 1000
            if answer.assignment is None or not self._changes(answer.assignment):
                return True
            request = self.request()
            request.topic_partitions = _rows(self.owned)

    def _changes(self, assignment: ConsumerGroupHeartbeatResponse.Assignment) -> bool:
        assigned = frozenset((row.topic_id, p) for row in assignment.topic_partitions for p in row.partitions)
        for place in self.owned - assigned:
            self._owners.give_up(place)
        for place in assigned - self.owned:
            self._owners.take(place, self.id)
        changed, self.owned = assigned != self.owned, assigned
        return changed

    async def _call(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        self._next_id += 1
        self._writer.write(encode_request(request, VERSION, self._next_id, "member"))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        frame = await self._reader.readexactly(size)
        correlation_id, answer = decode_response(ConsumerGroupHeartbeatResponse, VERSION, frame)
        assert correlation_id == self._next_id
        return answer


def _rows(places: frozenset[Place]) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(places):
        by_topic.setdefault(topic_id, []).append(partition)
    return [
        ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=found)
        for topic_id, found in by_topic.items()
    ]


def even(members: Sequence[ConsumerMember]) -> bool:
    """True if shares differ by one at most, and nobody is behind."""
    held = sorted(len(each.owned) for each in members)
    return held[-1] - held[0] <= 1 and len({each.epoch for each in members}) == 1


async def settled(members: Sequence[ConsumerMember], owners: Owners, partitions: int) -> float:
    """Seconds until all of so many partitions are evenly owned."""
    return await until(members, lambda: len(owners) == partitions and even(members))


async def at_rest(members: Sequence[ConsumerMember], owners: Owners, partitions: int) -> None:
    """The same, and no target is owed: what changed within the assignment interval has a target when it is over."""
    epoch = -1
    while epoch != members[0].epoch:
        await settled(members, owners, partitions)
        epoch = members[0].epoch
        await asyncio.sleep(_REST_S)


async def until(members: Sequence[ConsumerMember], reached: Callable[[], bool], limit_s: float = 120.0) -> float:
    """Seconds until this is reached. Raises what ended a member, and AssertionError after `limit_s`."""
    began = time.monotonic()
    while not reached():
        for member in members:
            member.check()
        assert time.monotonic() - began < limit_s, f"not reached: {[len(m.owned) for m in members][:20]}"
        await asyncio.sleep(0.002)
    return time.monotonic() - began
