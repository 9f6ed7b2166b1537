"""One heartbeat in the name of a member, by the group protocol that it speaks. Used on the event loop.

The coordinator says which protocol that is: to a classic heartbeat of a member that speaks the other one it answers
that it does not know it.

In the consumer protocol (KIP-848) the answer may be an assignment, which the member then does not hear of. Nobody is
given what it still has to give up, and it says and asks for everything when it can speak again: its client does so
after a silence, and every half a minute, for it may have spoken all the time without being heard here. As the epoch may
be a new one, the next heartbeat carries that. A member that is given two new ones meanwhile is fenced when it is back,
and joins again: the coordinator takes a member's last epoch or the one before, and no heartbeat keeps a member in its
group without moving it on.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from actors.client.admin.brokers import Brokers
from actors.client.error_codes import error_for
from actors.client.errors import UnsupportedVersionError
from actors.client.records import Node
from actors.members.pools.handling.spec import MemberSpec
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)

_STATIC: Final = 3
"""The first version with the instance id (KIP-345)."""
_COUNTS: Final = (Code.NONE, Code.REBALANCE_IN_PROGRESS)


@dataclass(frozen=True, slots=True)
class Membership:
    """The ids under which a member stands in its group."""

    instance_id: str
    member_id: str
    generation_id: int
    """The generation of a classic group, or the member's epoch."""


class StandIn:
    """Sends heartbeats for members. Knows which of them speak the consumer protocol, and their epochs."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}

    async def send(self, brokers: Brokers, spec: MemberSpec, member: Membership) -> None:
        """Send one. Raises KafkaError if it does not count, and TimeoutError after as long as a session lasts."""
        limit_ms = spec.session_timeout_ms

        async def ask(node: Node) -> None:
            code = await self._beat(brokers, node, spec.group_id, member)
            if code not in _COUNTS:
                raise error_for(code, f"heartbeat of {member.instance_id}")

        async with asyncio.timeout(limit_ms / 1000):
            await brokers.at_coordinator(spec.group_id, ask, brokers.network.now_ms() + limit_ms)

    async def _beat(self, brokers: Brokers, node: Node, group_id: str, member: Membership) -> int:
        if member.member_id in self._epochs:
            return await self._by_the_consumer_protocol(brokers, node, group_id, member)
        code = int(Code.NONE)
        for generation_id in (member.generation_id, member.generation_id + 1):
            code = await _classic(brokers, node, group_id, replace(member, generation_id=generation_id))
            if code != Code.ILLEGAL_GENERATION:
                break
            # Its JoinGroup is answered, which it cannot read yet: the group has gone on with it, and without it cannot.
        if code == Code.UNKNOWN_MEMBER_ID:
            return await self._by_the_consumer_protocol(brokers, node, group_id, member)
        return code

    async def _by_the_consumer_protocol(self, brokers: Brokers, node: Node, group_id: str, member: Membership) -> int:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member.member_id,
            member_epoch=max(member.generation_id, self._epochs.get(member.member_id, 0)),
            instance_id=member.instance_id,
            rebalance_timeout_ms=-1,
        )
        try:
            response: ConsumerGroupHeartbeatResponse = await brokers.network.ask(node, request)
        except UnsupportedVersionError:  # an older Kafka
            return Code.UNKNOWN_MEMBER_ID
        if response.error_code == Code.NONE:
            self._epochs[member.member_id] = response.member_epoch
        elif response.error_code in (Code.UNSUPPORTED_VERSION, Code.GROUP_ID_NOT_FOUND):
            return Code.UNKNOWN_MEMBER_ID  # as the classic heartbeat had it
        return response.error_code


async def _classic(brokers: Brokers, node: Node, group_id: str, member: Membership) -> int:
    request = HeartbeatRequest(
        group_id=group_id,
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
    )
    response: HeartbeatResponse = await brokers.network.ask(node, request, min_version=_STATIC)
    return response.error_code
