"""The time for which this broker may act as a leader, and its answers to other leaders that ask to be confirmed.

The controller confirms a broker by each answer to a heartbeat. So that traffic goes on while the controller restarts,
the brokers that could be elected instead may confirm it, too: while they have no controller either, nobody can make
them leaders. A confirmation counts from when it was asked for, on this broker's own monotonic clock. So a process that
was stopped for a while has no lease when it goes on.

A broker that no controller has confirmed for `coterie.broker.isolated.ms` serves nothing any more, not even what nobody
else could lead: by then it may have been replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.broker.context import BrokerContext
from actors.broker.replication.links import FollowerLink
from actors.links.replication import Pong


class Lease:
    """This broker's confirmation as a leader. A confirmation counts for `broker.session.timeout.ms`."""

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
        self._alone_seconds = max(context.config.integer("coterie.broker.isolated.ms") / 1000, self._seconds)
        self._begun = self._monotonic()
        """Before that no controller knew this process. It counts until the first confirmation."""

    def holds(self, members: frozenset[int]) -> bool:
        """True if no other broker can have been made leader."""
        # Not the loop's time: that stands still while a turn lasts, and we may have been stopped in this one.
        now, confirmed_at = self._monotonic(), self._controller_confirmed_at()
        since = now - self._seconds
        if confirmed_at > since:
            return True
        if max(confirmed_at, self._begun) <= now - self._alone_seconds:
            return False
        return len(members) == 1 or self._confirmed_by_followers(members, since)

    def _confirmed_by_followers(self, members: frozenset[int], since: float) -> bool:
        for broker in members:
            if broker != self._context.broker_id:
                link = self._links.get(broker)
                if link is None or not link.ready or link.confirmed_at <= since:
                    return False
        return True

    def pong(self, sent: float) -> Pong:
        """The answer to a ping sent at `sent`: how new our metadata is, and whether we have a controller."""
        metadata = self._context.metadata
        since = self._context.loop.time() - self._seconds
        controller = self._context.controller.connected or self._controller_confirmed_at() > since
        return Pong(sent, (metadata.controller_epoch, metadata.version), controller)

    def ponged(self, link: FollowerLink, pong: Pong) -> None:
        """A follower has answered a ping. That confirms us, unless it has a controller or newer metadata."""
        ours = self._context.metadata
        if not pong.controller and pong.view <= (ours.controller_epoch, ours.version):
            link.confirmed_at = pong.sent
