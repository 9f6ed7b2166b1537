"""Questions of operators about groups, which shards answer: whom a group waits for, and its last rebalances."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from actors.broker.coordinators.link import ShardLink
from actors.links.group_status import GroupStatus
from actors.links.relay import PAYLOADS, Kind


class Describing:
    """The questions that have not been answered yet, by number."""

    def __init__(self, loop: asyncio.AbstractEventLoop, number: Callable[[], int]) -> None:
        self._loop = loop
        self._number = number
        self._asked: dict[int, asyncio.Future[GroupStatus | None]] = {}

    async def ask(self, link: ShardLink, group_id: str) -> GroupStatus | None:
        """A shard's status of a group; None if there is no such group. Never returns if the shard dies."""
        number = self._number()
        asked: asyncio.Future[GroupStatus | None] = self._loop.create_future()
        self._asked[number] = asked
        link.sent += 1
        link.protocol.send(Kind.DESCRIBE, 0, number, group_id.encode())
        try:
            return await asked
        finally:
            del self._asked[number]

    def described(self, link: ShardLink, _a: int, number: int, payload: bytes) -> None:
        """A shard has answered."""
        asked = self._asked.get(number)
        if asked is not None and not asked.done():
            asked.set_result(PAYLOADS.read(GroupStatus, payload) if payload else None)
