"""The requests of a member that have no answer yet, and the effects for its shell. Sans-IO.

It looks the coordinator up by itself. The other kinds of requests are those of the member's protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from actors.client.group.effects import Drop, Effect, Send, To, WantMetadata
from actors.client.group.generation import Generation
from actors.client.group.lookup import CoordinatorLookup
from actors.client.records import Node
from actors.wire.messages import ApiMessage


class Lookup(Enum):
    """The kind of request that members of all protocols send."""

    COORDINATOR = "FindCoordinator"


@dataclass(frozen=True, slots=True)
class Route:
    """The node that a kind of request goes to, and the lowest version that can say it."""

    to: To = To.COORDINATOR
    min_version: int = 0


_ANYWHERE = Route(To.ANY)


@dataclass(frozen=True, slots=True)
class Pending:
    """A request in flight: its kind, the generation and coordinator when it was sent, and the time."""

    kind: Enum
    generation: Generation
    node: Node | None
    sent_ms: int


class Outbox:
    """Requests on their way, each with the generation and the coordinator that were known when it was made.

    `generation` gives the present one, and `routes` says how each kind of request goes.
    """

    def __init__(
        self,
        lookup: CoordinatorLookup,
        generation: Callable[[], Generation],
        routes: Mapping[Any, Route],
        request_timeout_ms: int,
    ) -> None:
        self._lookup = lookup
        self._generation = generation
        self._routes: Mapping[Enum, Route] = {**routes, Lookup.COORDINATOR: _ANYWHERE}
        self._timeout_ms = request_timeout_ms
        self._effects: list[Effect] = []
        self._pending: dict[int, Pending] = {}
        self._last_id = 0

    def take_effects(self) -> list[Effect]:
        """The effects to be carried out since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects

    def want_metadata(self) -> None:
        self._effects.append(WantMetadata())

    def send(self, kind: Enum, request: ApiMessage, now_ms: int, *, timeout_ms: int | None = None) -> int:
        """Send a request by the route of its kind. Returns its id."""
        self._last_id += 1
        route = self._routes[kind]
        node = None if route.to is To.ANY else self._lookup.coordinator
        self._pending[self._last_id] = Pending(kind, self._generation(), node, now_ms)
        self._effects.append(
            Send(self._last_id, route.to, node, request, timeout_ms or self._timeout_ms, route.min_version)
        )
        return self._last_id

    def ended(self, request_id: int) -> Pending | None:
        """Take out a request that has its answer or will get none. None if it was given up before."""
        return self._pending.pop(request_id, None)

    def pending(self) -> dict[int, Pending]:
        """The requests in flight, by id."""
        return dict(self._pending)

    @property
    def asks_coordinator(self) -> bool:
        """True if the coordinator has yet to answer a request."""
        return any(pending.node is not None for pending in self._pending.values())

    def in_flight(self, *kinds: Enum) -> bool:
        return any(pending.kind in kinds for pending in self._pending.values())

    def abandon(self, *kinds: Enum) -> None:
        """Forget what is in flight of these kinds: the answers do not count any more."""
        self._pending = {n: pending for n, pending in self._pending.items() if pending.kind not in kinds}

    # --- the coordinator ------------------------------------------------------------------------------------------

    def find_coordinator(self, now_ms: int) -> None:
        """Look for the coordinator unless it is known, being looked for, or not to be looked for yet."""
        if self._lookup.due(now_ms):
            self._lookup.in_flight = self.send(Lookup.COORDINATOR, self._lookup.request(), now_ms)

    def coordinator_lost(self, node: Node | None, now_ms: int, *, drop: bool = False) -> None:
        """Forget the coordinator if it is `node`; if another has replaced it already, nothing changes."""
        if node is None or node != self._lookup.coordinator:
            return
        self._lookup.lost(now_ms)
        if drop:
            self._effects.append(Drop(node))
