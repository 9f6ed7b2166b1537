"""A static member takes its place from who has it: a process that was killed and did not leave. Sans-IO.

In a classic group the newer of two members with one instance id has the place, and the older one is fenced (KIP-345).
A consumer group refuses the newer one (111) until the older one has left for a while, or its session has ended, which
takes 45 seconds by default. So the newer one asks who has the place, and leaves in that member's name; then it joins.
The older one, if it lives, is fenced by its next heartbeat.

Only a member that has never been in the group does so: the one that was fenced does not take its place back. One that
may not see who has its place asks again until the other one's session is over, most likely.
"""

from __future__ import annotations

import logging
from typing import Final

from actors.client.error_codes import error_for
from actors.client.errors import KafkaError
from actors.client.group.consumer_protocol.beats import Beats, Kind
from actors.client.group.consumer_protocol.config import MemberConfig
from actors.client.group.consumer_protocol.rhythm import SESSION_MS
from actors.client.group.consumer_protocol.standing import LEAVE_FOR_A_WHILE_EPOCH
from actors.client.group.outbox import Outbox
from actors.wire.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

log = logging.getLogger(__name__)

PATIENCE_MS: Final = SESSION_MS + 15_000
"""So long after the first refusal the place is asked for. No answer says how long a session lasts."""
_TRIES: Final = 10
"""So many members in a row may be in the way, before the refusal is final: each would have come meanwhile."""


class Takeover:
    """Looks who has the place, and leaves in its name."""

    def __init__(self, config: MemberConfig, outbox: Outbox, beats: Beats) -> None:
        self._config = config
        self._outbox = outbox
        self._beats = beats
        self._left = _TRIES if config.takes_over and config.group_instance_id is not None else 0
        self._until_ms: int | None = None
        self._trouble = ""

    def possible(self, now_ms: int) -> bool:
        """True if the place may be taken from another member."""
        return self._left > 0 and (self._until_ms is None or now_ms < self._until_ms)

    def over(self) -> None:
        """This member is in the group: from now on the place may be taken from it."""
        self._left = 0

    def look(self, now_ms: int) -> None:
        """Ask who has the place. No heartbeat is sent until it is free, or it is known that that cannot be."""
        if self._until_ms is None:
            self._until_ms = now_ms + PATIENCE_MS
        self._outbox.send(Kind.LOOK, ConsumerGroupDescribeRequest(group_ids=[self._config.group_id]), now_ms)

    def looked(self, response: ConsumerGroupDescribeResponse, now_ms: int) -> bool:
        """The answer. Returns whether somebody has the place, and is made to leave it."""
        mine = self._config.group_instance_id
        for group in response.groups:
            if group.error_code:
                what = f"describing group {self._config.group_id}"
                self.unseen(error_for(group.error_code, what, group.error_message))
        for member in (each for group in response.groups for each in group.members):
            if member.instance_id == mine:
                self._left -= 1
                self._outbox.send(Kind.LEAVE, self._beats.leave(member.member_id, LEAVE_FOR_A_WHILE_EPOCH), now_ms)
                return True
        return False

    def unseen(self, error: KafkaError) -> None:
        """Nobody says who has the place. It is logged, once for each reason in a row."""
        if (reason := str(error)) == self._trouble:
            return
        self._trouble = reason
        text = (
            "group %s: the member %s cannot see who has its place, and waits until that one's session is over: %s. It "
            "needs the right to DESCRIBE the group and the topics of all its members"
        )
        log.warning(text, self._config.group_id, self._config.group_instance_id, reason)
