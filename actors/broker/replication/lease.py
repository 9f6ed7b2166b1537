"""For how long this broker may act as a leader, and what it tells other leaders who ask the same.

The controller confirms a broker with each heartbeat it answers. So that traffic survives the controller's restart,
those who could be elected instead may do it, too: a follower that sees no controller either has nobody to make it
leader. What counts is when the question was sent, on our own monotonic clock: a process that was stopped and
continued has asked nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.broker.context import BrokerContext
from actors.broker.replication.links import FollowerLink
from actors.links.replication import Pong


class Lease:
    """The time, `broker.session.timeout.ms`, for which a confirmation counts."""

    def __init__(
        self,
        context: BrokerContext,
        links: Mapping[int, FollowerLink],
        controller_confirmed_at: Callable[[], float],
    ) -> None:
        self._context = context
        self._links = links
        self._controller_confirmed_at = controller_confirmed_at
        self._monotonic = context.environment.clock.monotonic
        self._seconds = context.config.integer("broker.session.timeout.ms") / 1000

    def holds(self, members: frozenset[int]) -> bool:
        """Whether nobody else can have been made leader: `members`, ourselves among them, are all that could be."""
        if len(members) == 1:
            return True
        # Not the loop's time: that stands still while a turn lasts, and we may have been stopped in this one.
        since = self._monotonic() - self._seconds
        return self._controller_confirmed_at() > since or self._confirmed_by_followers(members, since)

    def _confirmed_by_followers(self, members: frozenset[int], since: float) -> bool:
        for broker in members:
            if broker != self._context.broker_id:
                link = self._links.get(broker)
                if link is None or not link.ready or link.confirmed_at <= since:
                    return False
        return True

    def pong(self, sent: float) -> Pong:
        """What a leader whose ping was sent then learns: how new our news are, and whether there is a controller."""
        metadata = self._context.metadata
        since = self._context.loop.time() - self._seconds
        controller = self._context.controller.connected or self._controller_confirmed_at() > since
        return Pong(sent, (metadata.controller_epoch, metadata.version), controller)

    def ponged(self, link: FollowerLink, pong: Pong) -> None:
        """A follower has answered a ping: it confirms us unless it has a controller, or newer news than we."""
        ours = self._context.metadata
        if not pong.controller and pong.view <= (ours.controller_epoch, ours.version):
            link.confirmed_at = pong.sent
