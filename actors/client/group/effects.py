"""The work that the membership machine wants done: effects by the network, actions by the user's thread.

They are plain values. The machine makes them; a consumer, or the simulator, carries them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from actors.client.records import Node, TopicPartition
from actors.wire.messages import ApiMessage

# --- effects ------------------------------------------------------------------------------------------------------


class To(Enum):
    """The node that a request goes to."""

    ANY = "the least-loaded node"
    COORDINATOR = "the group's coordinator"
    ASIDE = "the coordinator's node, but not over the group's own connection"


@dataclass(frozen=True, slots=True)
class Send:
    """Send `request`; hand the answer to `on_response(id, …)` or the failure to `on_failure(id, …)`, once.

    `node` is the coordinator to use, None for `To.ANY`. `min_version` is the lowest version that can say it.
    """

    id: int
    to: To
    node: Node | None
    request: ApiMessage
    timeout_ms: int
    min_version: int = 0


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the connection to this coordinator, so that what is in flight on it fails."""

    node: Node


@dataclass(frozen=True, slots=True)
class WantMetadata:
    """Refresh the metadata of `watched_topics` now and hand the result to `on_metadata`."""


Effect = Send | Drop | WantMetadata


# --- actions ------------------------------------------------------------------------------------------------------


class Event(Enum):
    """The three calls of a rebalance listener."""

    REVOKED = "on_partitions_revoked"
    LOST = "on_partitions_lost"
    ASSIGNED = "on_partitions_assigned"


class CommitOutcome(Enum):
    """The outcomes of the commit before partitions are given up."""

    DONE = "done"
    LATER = "not finished, or worth another attempt"
    FAILED = "failed for good"


@dataclass(frozen=True, slots=True)
class CommitFirst:
    """Commit all consumed positions, before partitions are given up. Records of `stop` are not handed out any more."""

    stop: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class RunListener:
    """Call the user's rebalance listener."""

    event: Event
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Apply:
    """Read exactly these partitions from now on. `fresh` ones begin at their committed offsets."""

    partitions: frozenset[TopicPartition]
    fresh: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Fail:
    """Raise this in the user's thread. Needs no `action_done`."""

    error: BaseException


Action = CommitFirst | RunListener | Apply | Fail
