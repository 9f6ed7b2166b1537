"""One round of joining a classic group, and the kinds of requests that a member of one sends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from actors.client.group.effects import To
from actors.client.group.outbox import Route
from actors.wire.messages import JoinGroupResponse

# The first versions that carry the instance id (KIP-345). Without it a broker would take us for a dynamic member.
_STATIC_JOIN, _STATIC, STATIC_COMMIT = 5, 3, 7


class Kind(Enum):
    """The kinds of requests that a member sends to its coordinator."""

    JOIN = "JoinGroup"
    SYNC = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    ASIDE = "Heartbeat beside a JoinGroup"
    LEAVE = "LeaveGroup"
    DESCRIBE = "DescribeGroups"


def routes(*, static: bool) -> Mapping[Kind, Route]:
    """The routes of each kind of request. A static member needs versions that carry its instance id."""
    lowest = _STATIC if static else 0
    return {
        Kind.JOIN: Route(min_version=_STATIC_JOIN if static else 0),
        Kind.SYNC: Route(min_version=lowest),
        Kind.HEARTBEAT: Route(min_version=lowest),
        Kind.ASIDE: Route(To.ASIDE, lowest),
        Kind.LEAVE: Route(min_version=lowest),
        Kind.DESCRIBE: Route(),
    }


@dataclass(slots=True)
class Join:
    """One round of joining. `waiting`: JoinGroup's answer, while the leader waits for metadata.

    `assignment`: the bytes of SyncGroup's answer, once it is there. `completing`: the actions that take it over are
    queued. `tell`: tells the assignor of it, until that is done.
    """

    waiting: JoinGroupResponse | None = None
    assignment: bytes | None = None
    completing: bool = False
    tell: Callable[[], None] | None = None
