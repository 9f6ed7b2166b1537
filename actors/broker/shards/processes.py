"""The shard processes of a broker: spares, partitions that need a process, and processes that are silent too long.

A process that connects to the broker's Unix socket is a spare until it is told to BECOME a partition. No Ray here: the
controller is asked for more spares.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from actors.broker.shards.link import ShardLink
from actors.links.relay import Kind, RelayProtocol
from actors.runtime.environment import Kernel
from actors.runtime.liveness import Pings
from actors.settings import BrokerConfig

log = logging.getLogger(__name__)

_SURPLUS_SECONDS = 30.0


class Processes:
    """The connected processes, and the partitions that wait for one.

    `assign` gives a partition to a spare. It returns False if the partition needs none any more.
    """

    def __init__(
        self,
        config: BrokerConfig,
        kernel: Kernel,
        want_spares: Callable[[int], None],
        assign: Callable[[ShardLink, int], bool],
    ) -> None:
        self._kernel = kernel
        self._want_spares = want_spares
        self._assign = assign
        self._spare_target = config.integer("coterie.spare.shards")
        self._pings: Pings[ShardLink] = Pings(config.integer("coterie.shard.silence.ms") / 1000, kernel.look)
        self.links: dict[RelayProtocol, ShardLink] = {}
        self.spares: list[ShardLink] = []
        self._waiting: deque[int] = deque()
        self._surplus_since = 0.0
        self.closed = False

    # --- processes ---

    def connect(self, protocol: RelayProtocol) -> None:
        """A process has connected. It has not said HELLO yet."""
        self.links[protocol] = ShardLink(protocol)

    def heard(self, protocol: RelayProtocol) -> None:
        """A process has sent a message, which counts as a sign of life."""
        self._pings.heard(self.links[protocol])

    def add_spare(self, link: ShardLink) -> None:
        """A process is free."""
        self.spares.append(link)
        self.match()

    def lose(self, protocol: RelayProtocol) -> ShardLink:
        """A process has closed its connection, or died. Returns its link."""
        link = self.links.pop(protocol)
        self._pings.heard(link)
        if link in self.spares:
            self.spares.remove(link)
        return link

    def close(self) -> None:
        """Close the connections to all processes."""
        self.closed = True
        for protocol in list(self.links):
            protocol.close()

    # --- who wants one ---

    def is_wanted(self, partition: int) -> bool:
        """Whether a partition waits for a process."""
        return partition in self._waiting

    def want(self, partition: int, *, urgent: bool) -> None:
        """Have a partition wait for a process, before all others if `urgent`."""
        if partition in self._waiting:
            if urgent and self._waiting[0] != partition:
                self._waiting.remove(partition)
                self._waiting.appendleft(partition)
        elif urgent:
            self._waiting.appendleft(partition)
        else:
            self._waiting.append(partition)
        self.match()

    def match(self) -> None:
        """Give spares to the partitions that wait, and ask for as many as are missing."""
        while self._waiting and self.spares:
            link = self.spares.pop(0)
            if not self._assign(link, self._waiting.popleft()):
                self.spares.append(link)
        missing = len(self._waiting) + self._spare_target - len(self.spares)
        if missing > 0 and not self.closed:
            self._want_spares(missing)

    # --- once in a while ---

    def ping(self, now: float) -> None:
        """Ping all processes, and end one that has been silent for too long."""
        asked, dead = self._pings.tick(now, [(link, link.pid, link.active) for link in self.links.values()])
        for link in asked:
            link.protocol.send(Kind.PING)
        if dead is not None:
            log.warning("offsets partition %d: shard pid %d silent, killed", dead.partition, dead.pid)
            dead.protocol.close()
            self._kernel.kill(dead.pid)

    def end_surplus(self, now: float) -> None:
        """End the spares beyond the target, once there have been too many for 30 s.

        They came from a broker that died, or have given up their partition, and may be needed again soon.
        """
        surplus = len(self.spares) - self._spare_target
        if surplus <= 0 or self._waiting:
            self._surplus_since = now
        elif now - self._surplus_since > _SURPLUS_SECONDS:
            for link in self.spares[-surplus:]:
                link.protocol.send(Kind.END)
