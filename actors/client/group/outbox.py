"""What a member has sent and has no answer to yet, and what its shell has to do next. Sans-IO."""

from __future__ import annotations

from typing import Any

from actors.client.group.effects import Drop, Effect, Send, To, WantMetadata
from actors.client.group.lookup import CoordinatorLookup
from actors.client.group.member_types import Kind, MembershipConfig, Pending
from actors.client.group.standing import Standing
from actors.client.records import Node
from actors.wire.messages import ApiMessage

_TO = {Kind.LOOKUP: To.ANY, Kind.ASIDE: To.ASIDE}
# The first versions that carry the instance id (KIP-345). Without it a broker would take us for a dynamic member.
_STATIC_JOIN, _STATIC = 5, 3


class Outbox:
    """Requests on their way, each with the generation and the coordinator that were known when it was made."""

    def __init__(self, config: MembershipConfig, standing: Standing, lookup: CoordinatorLookup) -> None:
        self._config = config
        self._standing = standing
        self._lookup = lookup
        self._effects: list[Effect] = []
        self._pending: dict[int, Pending] = {}
        self._last_id = 0

    def take_effects(self) -> list[Effect]:
        """What is to be done since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects

    def want_metadata(self) -> None:
        self._effects.append(WantMetadata())

    def send(self, kind: Kind, request: ApiMessage, now_ms: int, *, timeout_ms: int | None = None) -> int:
        """Send a request: a lookup to any node, all others to the coordinator. Returns its id."""
        self._last_id += 1
        options: dict[str, Any] = {"timeout_ms": timeout_ms or self._config.request_timeout_ms}
        if kind is not Kind.LOOKUP and self._config.group_instance_id is not None:
            options["min_version"] = _STATIC_JOIN if kind is Kind.JOIN else _STATIC
        node = None if kind is Kind.LOOKUP else self._lookup.coordinator
        self._pending[self._last_id] = Pending(kind, self._standing.generation, node, now_ms)
        self._effects.append(Send(self._last_id, _TO.get(kind, To.COORDINATOR), node, request, **options))
        return self._last_id

    def ended(self, request_id: int) -> Pending | None:
        """Take out a request that has its answer or will get none. None if it was given up before."""
        return self._pending.pop(request_id, None)

    def pending(self) -> dict[int, Pending]:
        """What is in flight, by id."""
        return dict(self._pending)

    def in_flight(self, *kinds: Kind) -> bool:
        return any(pending.kind in kinds for pending in self._pending.values())

    def abandon_join(self) -> None:
        """Forget a JoinGroup or SyncGroup in flight: its answer does not count any more."""
        joining = (Kind.JOIN, Kind.SYNC)
        self._pending = {n: pending for n, pending in self._pending.items() if pending.kind not in joining}

    # --- the coordinator ------------------------------------------------------------------------------------------

    def find_coordinator(self, now_ms: int) -> None:
        """Look for the coordinator unless it is known, being looked for, or not to be looked for yet."""
        if self._lookup.due(now_ms):
            self._lookup.in_flight = self.send(Kind.LOOKUP, self._lookup.request(), now_ms)

    def coordinator_lost(self, node: Node | None, now_ms: int, *, drop: bool = False) -> None:
        """Forget the coordinator if it is `node`; if another has replaced it already, nothing changes."""
        if node is None or node != self._lookup.coordinator:
            return
        self._lookup.lost(now_ms)
        if drop:
            self._effects.append(Drop(node))
