"""The shard processes of a broker: spares, partitions that need a process, and processes that are silent too long.

A process that connects to the broker's Unix socket is a spare until it is told to BECOME a partition. No Ray here: the
controller is asked for more spares.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeAlias

from actors.broker.coordinators.link import Handle, LinkState, ShardLink
from actors.broker.coordinators.parking import Place
from actors.links.relay import Kind, RelayProtocol
from actors.runtime.environment import Kernel
from actors.runtime.liveness import Pings
from actors.settings import BrokerConfig

log = logging.getLogger(__name__)

_SURPLUS_SECONDS = 30.0
_EVERY_QUIET_TICK = 2
_EVERY_SPARE_TICK = 8

WantProcesses: TypeAlias = Callable[[int, int, tuple[str, ...]], None]


class Processes:
    """The connected processes, and the partitions of all kinds that wait for one.

    `assign` gives a partition to a spare. It returns False if the partition needs none any more. `is_loading` says
    whether a log is being sent. `want_spares` is told how many are missing, for how many of them clients wait, and
    the names of those that are here. `handlers` have what processes say that host nothing.
    """

    def __init__(
        self,
        config: BrokerConfig,
        kernel: Kernel,
        want_spares: WantProcesses,
        assign: Callable[[ShardLink, Place], bool],
        is_loading: Callable[[], bool],
        handlers: Mapping[int, Handle],
    ) -> None:
        self._kernel = kernel
        self._want_spares = want_spares
        self._assign = assign
        self._is_loading = is_loading
        self._handlers = handlers
        self._spares_kept = config.integer("coterie.spare.shards")
        self._pings: Pings[ShardLink] = Pings(config.integer("coterie.shard.silence.ms") / 1000, kernel.look)
        self.links: dict[RelayProtocol, ShardLink] = {}
        self.spares: list[ShardLink] = []
        self._asked_for: deque[Place] = deque()  # clients wait for them
        self._others: deque[Place] = deque()
        self._surplus_since: float | None = None
        self.closed = False

    # --- processes ---

    def connect(self, protocol: RelayProtocol) -> None:
        """A process has connected. It has not said HELLO yet."""
        self.links[protocol] = ShardLink(protocol, self._handlers)

    def heard(self, protocol: RelayProtocol) -> None:
        """A process has sent a message, which counts as a sign of life."""
        self._pings.heard(self.links[protocol])

    def add_spare(self, link: ShardLink) -> None:
        """A process is free."""
        self.spares.append(link)
        self._assign_spares()
        self.report()

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

    def is_wanted(self, place: Place) -> bool:
        """True if a partition waits for a process."""
        return place in self._asked_for or place in self._others

    def want(self, place: Place, *, urgent: bool) -> None:
        """A partition that has no process wants one: `urgent`, in its turn; else when nothing else loads."""
        if urgent and place not in self._asked_for:
            if place in self._others:
                self._others.remove(place)
            self._asked_for.append(place)
        elif not self.is_wanted(place):
            self._others.append(place)
        self.match()

    def match(self) -> None:
        """Give spares to the partitions that wait, and ask for as many as are missing."""
        self._assign_spares()
        if self._missing() > 0:
            self.report()

    def report(self) -> None:
        """Say how many processes are missing, and which are here: a start that is not over would be in others' way."""
        if not self.closed:
            here = tuple(link.name for link in self.links.values() if link.name)
            self._want_spares(max(self._missing(), 0), len(self._asked_for), here)

    def _missing(self) -> int:
        return len(self._asked_for) + bool(self._others) + self._spare_target - len(self.spares)

    @property
    def _spare_target(self) -> int:
        """The number of spares to keep: one is enough for a broker that hosts nothing, and the first group gets it."""
        in_use = self._asked_for or self._others or any(link.partition >= 0 for link in self.links.values())
        return self._spares_kept if in_use else min(self._spares_kept, 1)

    def _assign_spares(self) -> None:
        while self.spares and (waiting := self._next_waiting()):
            link = self.spares.pop(0)
            if not self._assign(link, waiting.popleft()):
                self.spares.append(link)

    def _next_waiting(self) -> deque[Place]:
        """The queue whose first partition gets the next process. Clients do not share the CPU with what can wait."""
        return self._others if not self._asked_for and not self._is_loading() else self._asked_for

    # --- once in a while ---

    def ping(self, now: float) -> None:
        """Ping the processes whose turn it is, and end one that has been silent for too long."""
        asked, dead = self._pings.tick(
            now, [(link, link.pid, link.active, _pinged_every(link)) for link in self.links.values()]
        )
        for link in asked:
            link.protocol.send(Kind.PING)
        if dead is not None:
            log.warning("%s: shard pid %d silent, killed", dead.where, dead.pid, extra=dead.fields())
            dead.protocol.close()
            self._kernel.kill(dead.pid)

    def end_surplus(self, now: float) -> None:
        """End the spares beyond the target, once there have been too many for 30 s.

        They came from a broker that died, or have given up their partition, and may be needed again soon.
        """
        surplus = len(self.spares) - self._spare_target
        if surplus <= 0 or self._asked_for or self._others:
            self._surplus_since = None
        elif self._surplus_since is None:
            self._surplus_since = now
        elif now - self._surplus_since > _SURPLUS_SECONDS:
            ended = self.spares[-surplus:]
            del self.spares[-surplus:]
            for link in ended:
                link.protocol.send(Kind.END)


def _pinged_every(link: ShardLink) -> int:
    """At each how many ticks a process is pinged: rarely if nobody waits for it.

    One that serves hears from us twice a second, because its clock goes by that (`SharedClock`). A spare may be silent
    for ten times as long as a shard that serves, so that it need not be asked so often.
    """
    if link.pending or link.state is LinkState.LOADING:
        return 1
    return _EVERY_QUIET_TICK if link.active else _EVERY_SPARE_TICK
