"""The work for the host: regular expressions of groups, until it has asked for them."""

from __future__ import annotations

from typing import Final

from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.messages import Resolution, ResolutionsRequest, ResolutionsResponse
from actors.coordinator.consumer.operations import Draft
from actors.coordinator.errors import Error
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.turn import Now, Token

LIMIT_MS: Final = 60_000
"""The time after which a silent resolution is given up, and another one may begin."""


class Resolutions:
    """Those of a shard's groups. A group has one at a time."""

    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime
        self._waiting: dict[str, Resolution] = {}
        self._asked: Token | None = None

    def begin(self, group: ConsumerGroup, draft: Draft, token: Token) -> None:
        """Have all expressions of a group resolved, unless they are."""
        now_ms = draft.latest.monotonic_ms
        if now_ms < group.resolving_until_ms:
            return
        group.resolving_until_ms = now_ms + LIMIT_MS
        regexes = frozenset(draft.state.regexes)
        self._waiting[group.group_id] = Resolution(group.group_id, regexes, draft.topics, draft.now.wall_ms, token)
        self._tell()

    def handle(self, token: Token, request: ResolutionsRequest, now: Now) -> None:
        """Answered when there is something to resolve."""
        self._runtime.park(token, request)
        self._asked = token
        self._tell()

    def forget(self) -> None:
        """Drop all, for the shard is unloaded. It answers what is parked itself."""
        self._waiting, self._asked = {}, None

    def _tell(self) -> None:
        if self._asked is None or not self._waiting or self._asked not in self._runtime.unanswered:
            return
        found, self._waiting = tuple(self._waiting.values()), {}
        asked, self._asked = self._asked, None
        self._runtime.answer(asked, ResolutionsResponse(Error.NONE, found))
