"""The rows in which `coterie pools` shows deployed pools. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from actors.cli import figures

if TYPE_CHECKING:
    from actors.members.deployment.description import PoolDescription, RolloutStatus
    from actors.members.pools.status import MemberStatus

POOL_COLUMNS: Final = ("pool", "wanted", "state", "version", "group", "topics", "size", "running")
DETAIL_COLUMNS: Final = (
    *("pool", "wanted", "state", "version", "running_version", "group", "topics", "size", "autoscale"),
    *("deployed", "supervisor", "handled"),
)
MEMBER_COLUMNS: Final = (
    *("member", "state", "version", "pid", "node", "partitions", "generation", "handled", "dead_letters", "restarts"),
    "error",
)
CHANGE_COLUMNS: Final = ("when", "before", "after", "reason")
_NODE_LENGTH: Final = 12
_CHANGES: Final = 5


def pool_row(found: PoolDescription, *, asked: bool) -> dict[str, Any]:
    """A pool in the list. Without `asked`, nobody was asked how it is: only what is wished is known."""
    running = sum(member.state == "Running" for member in found.members)
    return {
        "pool": found.name,
        "wanted": "Paused" if found.paused else "Running",
        "state": str(found.state) if asked else None,
        "version": found.version,
        "group": found.group_id,
        "topics": list(found.topics),
        "size": found.size,
        "running": running if asked and _has_supervisor(found) else None,
        "deployed_at_ms": found.deployed_at_ms,
    }


def detail_row(found: PoolDescription, *, asked: bool) -> dict[str, Any]:
    """A pool in full, but for its members."""
    known = asked and _has_supervisor(found)
    where = f"pid {found.supervisor_pid} on node {(found.supervisor_node_id or '')[:_NODE_LENGTH]}"
    policy = found.autoscale
    return {
        **pool_row(found, asked=asked),
        "running_version": found.running_version or None,
        "autoscale": None if policy is None else f"{policy.min_size}..{policy.max_size}",
        "deployed": figures.moment(found.deployed_at_ms),
        "supervisor": where if known else None,
        "handled": found.handled if known else None,
    }


def member_row(member: MemberStatus) -> dict[str, Any]:
    """A member."""
    return {
        "member": member.slot,
        "state": member.state,
        "version": member.version or None,
        "pid": member.pid or None,
        "node": member.node_id[:_NODE_LENGTH],
        "partitions": [f"{topic}-{partition}" for topic, partition in member.assignment],
        "generation": member.generation_id if member.generation_id >= 0 else None,
        "handled": member.handled,
        "dead_letters": member.dead_letters,
        "restarts": member.restarts,
        "error": member.error,
    }


def change_rows(found: PoolDescription) -> list[dict[str, Any]]:
    """The last changes of the size, the latest first."""
    return [
        {"when": figures.moment(each.wall_ms), "before": each.before, "after": each.after, "reason": each.reason}
        for each in found.size_changes[: -_CHANGES - 1 : -1]
    ]


def remarks(found: PoolDescription) -> Iterator[str]:
    """Remarks that a reader needs beside the tables, in sentences."""
    if found.rollout is not None and _tells_something(found.rollout):
        yield _rollout(found.rollout)
    if found.last_error is not None:
        yield f"Last error: {found.last_error}"


def document(found: PoolDescription, *, asked: bool) -> dict[str, Any]:
    """A pool as JSON: all that is known of it."""
    return {**asdict(found), "state": str(found.state) if asked else None}


def _has_supervisor(found: PoolDescription) -> bool:
    return found.supervisor_pid is not None


def _rollout(found: RolloutStatus) -> str:
    if found.rolled_back is not None:
        return f"Version {found.to_version} was rolled back to {found.from_version}: {found.rolled_back}"
    if found.from_version == found.to_version:  # the first, or a restart
        return f"Version {found.to_version}: {found.done} of {found.of} members have begun and proved to work."
    return f"Version {found.to_version} has gone through {found.done} of {found.of} members."


def _tells_something(found: RolloutStatus) -> bool:
    """True if it tells more than that all members run, as the table of them says."""
    return not found.over or found.from_version != found.to_version or found.rolled_back is not None
