"""Heartbeats: what each of them says. Sans-IO.

A field is sent when it is not what was sent last (KIP-848): absent means "as before". After a heartbeat that failed
nobody knows what the coordinator has heard, so that the next one says everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from actors.client.group.consumer_protocol.assignments import IdPartitions, Received
from actors.client.group.consumer_protocol.config import MemberConfig
from actors.client.group.consumer_protocol.standing import JOIN_EPOCH
from actors.client.group.consumer_protocol.wishes import Wish
from actors.client.group.outbox import Route
from actors.wire.messages import ConsumerGroupHeartbeatRequest

_UNSAID: Final = -1
_BY_EXPRESSION_FROM: Final = 1
"""The first version that carries a regular expression."""


class Kind(Enum):
    """The kinds of requests that a member sends to its coordinator."""

    BEAT = "ConsumerGroupHeartbeat"
    BEAT_BY_EXPRESSION = "ConsumerGroupHeartbeat with a regular expression"
    LEAVE = "ConsumerGroupHeartbeat that leaves"
    LOOK = "ConsumerGroupDescribe, to see who has this static member's place"


BEATS: Final = (Kind.BEAT, Kind.BEAT_BY_EXPRESSION)
ROUTES: Final = {
    Kind.BEAT: Route(),
    Kind.BEAT_BY_EXPRESSION: Route(min_version=_BY_EXPRESSION_FROM),
    Kind.LEAVE: Route(),
    Kind.LOOK: Route(),
}


@dataclass(slots=True)
class _Said:
    """The last that the coordinator was told; None: nothing of it."""

    timeout: bool = False
    names: frozenset[str] | None = None
    expression: str | None = None
    assignor: str | None = None
    owned: Received | None = None


class Beats:
    """Makes heartbeats, and remembers what they said."""

    def __init__(self, config: MemberConfig) -> None:
        self._config = config
        self._said = _Said()
        self._has_expression = config.group_instance_id is not None
        """True if the coordinator may have a regular expression of this member, or of the static one before it.

        A member that leaves for a while keeps it there, and so does one whose leave is lost.
        """
        self.forget()

    def forget(self) -> None:
        """The next heartbeat says everything."""
        self._said = _Said(expression="" if self._has_expression else None)

    def join(self, member_id: str, wish: Wish, owned: Received) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat of a member that is not in the group yet: it says everything."""
        self.forget()
        request = self.beat(member_id, JOIN_EPOCH, wish, owned)
        request.rack_id = self._config.client_rack
        return request

    def beat(
        self, member_id: str, epoch: int, wish: Wish, owned: Received, coming: IdPartitions = frozenset()
    ) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat with what the coordinator has not been told yet.

        `coming` are partitions that the member is taking over, and may own by the time that this is read: where it says
        what is owned, it says them, too. So a later heartbeat never names more than an earlier one of the same epoch.
        """
        said, config = self._said, self._config
        request = self._plain(member_id, epoch)
        if not said.timeout:
            request.rebalance_timeout_ms = config.max_poll_interval_ms
            request.process = config.process
        if wish.names != said.names:
            request.subscribed_topic_names = sorted(wish.names)
        if wish.expression != said.expression:
            request.subscribed_topic_regex = wish.expression or ""
        if config.group_remote_assignor != said.assignor:
            request.server_assignor = config.group_remote_assignor
        if owned != said.owned:
            request.topic_partitions = _by_topic(owned.partitions | coming)
        self._has_expression = self._has_expression or wish.expression is not None
        self._said = _Said(True, wish.names, wish.expression, config.group_remote_assignor, owned)
        return request

    def leave(self, member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
        """The last heartbeat: nothing is subscribed to or owned any more."""
        said = self._said
        request = self._plain(member_id, epoch)
        if said.names:
            request.subscribed_topic_names = []
        if said.expression:
            request.subscribed_topic_regex = ""
        if said.owned is not None and said.owned.partitions:
            request.topic_partitions = []
        self.forget()
        return request

    def _plain(self, member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._config.group_id,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=self._config.group_instance_id,
            rebalance_timeout_ms=_UNSAID,
        )


def _by_topic(partitions: IdPartitions) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    found: dict[bytes, list[int]] = {}
    for topic_id, n in sorted(partitions):
        found.setdefault(topic_id, []).append(n)
    made = ConsumerGroupHeartbeatRequest.TopicPartitions
    return [made(topic_id=topic_id, partitions=numbers) for topic_id, numbers in found.items()]
