"""The faults of a cluster by its parent's order."""

from __future__ import annotations

import asyncio
from typing import Any

from actors.links.operations import ListShards
from actors.one_process.answers import Answers
from actors.one_process.asking import NOT_YET, ask, pause, until
from actors.one_process.clock import MovableTime, move
from actors.one_process.hosting import Cluster
from actors.one_process.orders import (
    CreateTopic,
    Delay,
    Expel,
    KillCoordinator,
    LeaveAlone,
    LoseLeader,
    Message,
    MoveClock,
    OrderError,
    Refuse,
)
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    ApiMessage,
    CreateTopicsRequest,
    DescribeGroupsRequest,
    LeaveGroupRequest,
)
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC, PartitionInfo

_ANSWER_SECONDS = 5.0
_NEXT_LEADER_SECONDS = 30.0
_NO_GROUP = "Dead"
_CREATE_VERSION, _DESCRIBE_VERSION, _LEAVE_VERSION = 5, 5, 5


class Faults:
    """Carries out orders, one after the other."""

    def __init__(self, cluster: Cluster, answers: Answers, time: MovableTime) -> None:
        self._cluster = cluster
        self._controller = cluster.controller
        self._answers = answers
        self._time = time

    async def carry_out(self, order: Message) -> str:
        """The answer for the order's sender. Raises OrderError, OSError, TimeoutError."""
        match order:
            case CreateTopic():
                await self._create(order)
            case KillCoordinator(group):
                await self._kill_coordinator(group)
            case Expel(group, member):
                return await self._expel(group, member)
            case LoseLeader(topic, partition):
                return str(await self._lose_leader(topic, partition))
            case Delay(api, seconds, times):
                self._answers.delay(api, seconds, times)
            case Refuse(api, error, times):
                self._answers.refuse(api, error, times)
            case LeaveAlone():
                self._answers.leave_alone()
                return str(self._answers.met)
            case MoveClock(seconds):
                await move(self._time, seconds)
            case _:
                raise OrderError(f"{order} is no order")
        return ""

    async def _create(self, order: CreateTopic) -> None:
        wanted = CreateTopicsRequest.CreatableTopic(
            name=order.name,
            num_partitions=order.partitions,
            replication_factor=order.replicas,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
                for name, value in order.settings.items()
            ],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=int(_ANSWER_SECONDS * 1000))
        (made,) = (await self._ask(next(iter(self._cluster.brokers)), request, _CREATE_VERSION)).topics
        if made.error_code:
            name = ErrorCode(made.error_code).name
            raise OrderError(f"topic {order.name} could not be created: {name}: {made.error_message}")

    async def _ask(self, broker_id: int, message: ApiMessage, version: int) -> Any:
        broker = self._controller.metadata.brokers[broker_id]
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await ask(broker.host, broker.port, message, version)

    def _coordinator(self, group: str) -> tuple[int, int]:
        """The partition of a group, and the broker that leads it. Raises OrderError."""
        topic = self._controller.metadata.topics.get(OFFSETS_TOPIC)
        if topic is None:
            raise OrderError(f"nobody coordinates {group} yet: no group has been used")
        index = partition_for_group(group, len(topic.partitions))
        return index, topic.partitions[index].leader

    async def _kill_coordinator(self, group: str) -> None:
        await self._shard_of(group)  # it is said if there is none: what follows would start one
        if (await self._described(group)).group_state == _NO_GROUP:
            raise OrderError(f"nobody coordinates {group}: there is no such group")
        self._cluster.tasks.kill(await self._shard_of(group))

    async def _described(self, group: str) -> Any:
        """A group, as DescribeGroups has it, once its coordinator serves. Raises OrderError."""
        async with asyncio.timeout(_ANSWER_SECONDS):
            while True:
                _, leader = self._coordinator(group)
                asked = DescribeGroupsRequest(groups=[group])
                (found,) = (await self._ask(leader, asked, _DESCRIBE_VERSION)).groups
                if not found.error_code:
                    return found
                if found.error_code not in NOT_YET:
                    raise OrderError(f"{group} is not described: {ErrorCode(found.error_code).name}")
                await pause()

    async def _shard_of(self, group: str) -> int:
        """The pid of the task that coordinates a group. Raises OrderError."""
        index, leader = self._coordinator(group)
        session = self._controller.brokers.get(leader)
        if session is None:
            raise OrderError(f"broker {leader}, which coordinates {group}, is not there now")
        shards = (await session.calls.ask(ListShards(), _ANSWER_SECONDS)).shards
        pid = next((shard.pid for shard in shards if shard.partition == index), None)
        if pid is None:
            raise OrderError(f"nobody coordinates {group} now: it is not in use")
        return pid

    async def _expel(self, group: str, wanted: str) -> str:
        members = (await self._described(group)).members
        names = [(m.member_id, m.group_instance_id, m.client_id) for m in members]
        found = [m.member_id for m, of in zip(members, names, strict=True) if wanted in of]
        if len(found) != 1:
            raise OrderError(f"{len(found)} members of {group} are called {wanted!r}; its members are {names}")
        _, leader = self._coordinator(group)
        leaving = LeaveGroupRequest.MemberIdentity(member_id=found[0], reason="expelled by a test")
        answer = await self._ask(leader, LeaveGroupRequest(group_id=group, members=[leaving]), _LEAVE_VERSION)
        code = answer.error_code or answer.members[0].error_code
        if code:
            raise OrderError(f"{wanted} could not be expelled from {group}: {ErrorCode(code).name}")
        return str(found[0])

    async def _lose_leader(self, topic: str, index: int) -> int:
        before = self._partition(topic, index)
        if before.leader not in self._cluster.brokers:
            raise OrderError(f"nobody leads partition {index} of {topic} now")
        epoch = self._controller.metadata.brokers[before.leader].epoch
        self._controller.forget_starts(before.leader)  # it does not die by itself
        self._cluster.brokers[before.leader].kill()
        async with asyncio.timeout(_NEXT_LEADER_SECONDS):
            await until(lambda: self._leader(topic, index) not in (None, (before.leader, epoch)))
            await until(self._controller.ready)
        return self._partition(topic, index).leader

    def _leader(self, topic: str, index: int) -> tuple[int, int] | None:
        """The id and the epoch of the broker that leads; None if none does."""
        broker = self._controller.metadata.brokers.get(self._partition(topic, index).leader)
        return (broker.id, broker.epoch) if broker is not None and broker.alive else None

    def _partition(self, topic: str, index: int) -> PartitionInfo:
        found = self._controller.metadata.partition(topic, index)
        if found is None:
            raise OrderError(f"there is no partition {index} of a topic {topic}")
        return found
