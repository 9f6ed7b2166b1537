"""A static member takes its place from who has it: a process that was killed and did not leave. Sans-IO.

In a classic group the newer of two members with one instance id has the place, and the older one is fenced (KIP-345).
A consumer group refuses the newer one (111) until the older one has left for a while, or its session has ended, which
takes 45 seconds by default. So the newer one asks who has the place, and leaves in that member's name; then it joins.
The older one, if it lives, is fenced by its next heartbeat.

Only a member that has never been in the group does so: the one that was fenced does not take its place back.
"""

from __future__ import annotations

from typing import Final

from actors.client.group.consumer_protocol.beats import Beats, Kind
from actors.client.group.consumer_protocol.config import MemberConfig
from actors.client.group.consumer_protocol.standing import LEAVE_FOR_A_WHILE_EPOCH
from actors.client.group.outbox import Outbox
from actors.wire.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

_TRIES: Final = 10
"""So many members in a row may be in the way, before the refusal is final: each would have come meanwhile."""


class Takeover:
    """Looks who has the place, and leaves in its name."""

    def __init__(self, config: MemberConfig, outbox: Outbox, beats: Beats) -> None:
        self._config = config
        self._outbox = outbox
        self._beats = beats
        self._left = _TRIES if config.takes_over and config.group_instance_id is not None else 0

    @property
    def possible(self) -> bool:
        """Whether the place may be taken from another member."""
        return self._left > 0

    def over(self) -> None:
        """This member is in the group: from now on the place may be taken from it."""
        self._left = 0

    def look(self, now_ms: int) -> None:
        """Ask who has the place. No heartbeat is sent until it is free, or it is known that that cannot be."""
        self._left -= 1
        self._outbox.send(Kind.LOOK, ConsumerGroupDescribeRequest(group_ids=[self._config.group_id]), now_ms)

    def looked(self, response: ConsumerGroupDescribeResponse, now_ms: int) -> bool:
        """The answer. Returns whether somebody has the place, and is made to leave it."""
        mine = self._config.group_instance_id
        for member in (each for group in response.groups for each in group.members):
            if member.instance_id == mine:
                self._outbox.send(Kind.LEAVE, self._beats.leave(member.member_id, LEAVE_FOR_A_WHILE_EPOCH), now_ms)
                return True
        return False
