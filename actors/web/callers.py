"""The connections of one HTTP port: bounds for each address and for all, and deadlines.

Silence costs nothing, so whoever has not asked yet gives way: beyond a bound the oldest connection that waits for its
request is closed, of the address that has too many, else of the busiest one. A new connection is refused only if all
those are being answered.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from actors.links.unauthenticated import FailureLog, UnauthenticatedConnection, UnauthenticatedConnections
from actors.quotas.entities import network_of
from actors.web.proxies import Proxies
from actors.web.seldom import Seldom

_errors = logging.getLogger("actors.web.protocol")
_errors.setLevel(logging.ERROR)  # uvicorn warns of each request that is none; the callers do, once a second

TOO_MANY: Final = "more than {most} connections wait for their requests"
TOO_LATE: Final = "no whole request within {seconds:g} s"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a port, for one address, and for all together."""

    of_address: int
    """Connections of an address (of IPv6: of its /64 network). Proxies that are named have no such bound."""
    at_all: int
    silent: int
    """Connections that wait for a whole request."""
    request_s: float = 10.0
    """The time in which a request has to be whole, the TLS handshake included."""
    unread_s: float = 30.0
    """The time for which an answer may wait for somebody who does not read it."""


class Callers:
    """The connections of the port `name`."""

    def __init__(self, name: str, bounds: Bounds, clock: Callable[[], float], proxies: Proxies) -> None:
        self._name = name
        self._bounds = bounds
        self._clock = clock
        self._proxies = proxies
        self._all: set[UnauthenticatedConnection] = set()
        self._by_network: Counter[str] = Counter()
        self._clogged: dict[UnauthenticatedConnection, float] = {}
        self.failures = FailureLog(clock)
        self.errors = Seldom(_errors, clock)
        """The log of failed answers: a caller can have them fail again and again."""
        self._silent = UnauthenticatedConnections(
            name, bounds.silent, bounds.request_s, clock, self.failures, too_many=TOO_MANY, too_late=TOO_LATE
        )

    def __len__(self) -> int:
        return len(self._all)

    def came(self, caller: UnauthenticatedConnection) -> bool:
        """Somebody has connected. Returns True if he may stay."""
        network, bounds = network_of(caller.peer), self._bounds
        of_address = self._by_network[network] >= bounds.of_address and not self._proxies.has(caller.peer)
        why = f"{bounds.of_address} connections from there" if of_address else f"{bounds.at_all} connections"
        if of_address or len(self._all) >= bounds.at_all:
            oldest = self._silent.oldest(caller.peer if of_address else None)
            if oldest is None:
                self.failures.note(caller.peer, self._name, f"refusing a connection: there are {why}")
                return False
            self.gone(oldest)
            self.failures.note(oldest.peer, self._name, f"closed for another one: there are {why}")
            oldest.close()
        self._all.add(caller)
        self._by_network[network] += 1
        self._silent.add(caller)
        return True

    def waits(self, caller: UnauthenticatedConnection) -> None:
        """The port waits for a request, or the rest of one."""
        if caller in self._all:
            self._silent.add(caller)

    def asks(self, caller: UnauthenticatedConnection) -> None:
        """A request is whole."""
        self._silent.remove(caller)

    def nonsense(self, caller: UnauthenticatedConnection) -> None:
        """His bytes are no request."""
        self.failures.note(caller.peer, self._name, "closed: what came was no HTTP")

    def clogged(self, caller: UnauthenticatedConnection) -> None:
        """An answer waits for a caller that does not read."""
        self._clogged[caller] = self._clock()

    def flows(self, caller: UnauthenticatedConnection) -> None:
        """He reads."""
        self._clogged.pop(caller, None)

    def gone(self, caller: UnauthenticatedConnection) -> None:
        """A connection has ended. It may have been refused."""
        self._silent.remove(caller)
        self._clogged.pop(caller, None)
        if caller in self._all:
            self._all.remove(caller)
            network = network_of(caller.peer)
            self._by_network[network] -= 1
            if not self._by_network[network]:
                del self._by_network[network]

    def tick(self) -> None:
        """Close those whose time is over."""
        self._silent.close_overdue()
        latest = self._clock() - self._bounds.unread_s
        for caller in [caller for caller, since in self._clogged.items() if since <= latest]:
            self.gone(caller)
            text = f"closed: an answer has not been read for {self._bounds.unread_s:g} s"
            self.failures.note(caller.peer, self._name, text)
            caller.close()
