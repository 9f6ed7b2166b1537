"""The data of the membership machine: a member's settings, its requests in flight, its rounds and its counters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from actors.client.errors import IllegalStateError
from actors.client.group.assignors import Assignor, RebalanceProtocol
from actors.client.group.sensors import Sensors
from actors.client.group.standing import Generation
from actors.client.records import Node
from actors.wire.messages import JoinGroupResponse


class Kind(Enum):
    """The kinds of requests a member sends."""

    LOOKUP = "FindCoordinator"
    JOIN = "JoinGroup"
    SYNC = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    ASIDE = "Heartbeat beside a JoinGroup"
    LEAVE = "LeaveGroup"


@dataclass(frozen=True, slots=True)
class MembershipConfig:
    """The settings of a member. Times are in milliseconds."""

    group_id: str
    assignors: tuple[Assignor, ...]
    group_instance_id: str | None = None
    group_expected_members: int = 0
    process: str = ""
    """What the member says of its process (`links/member_process.py`)."""
    client_rack: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    auto_commit: bool = True
    exclude_internal_topics: bool = True

    @property
    def protocol(self) -> RebalanceProtocol:
        """The highest rebalance protocol that all assignors support. Raises IllegalStateError if there is none."""
        common = set(RebalanceProtocol)
        for assignor in self.assignors:
            common &= set(assignor.protocols)
        if not common:
            names = ", ".join(assignor.name for assignor in self.assignors)
            raise IllegalStateError(
                f"the assignors of partition_assignment_strategy share no rebalance protocol: {names}; "
                "take only eager or only cooperative ones"
            )
        return max(common) if self.assignors else RebalanceProtocol.EAGER

    def assignor(self, name: str | None) -> Assignor:
        """The configured assignor of that name. Raises IllegalStateError if there is none."""
        for assignor in self.assignors:
            if assignor.name == name:
                return assignor
        raise IllegalStateError(
            f"the coordinator chose the assignor {name!r}, which is not in this member's partition_assignment_strategy"
        )


@dataclass(frozen=True, slots=True)
class Pending:
    """A request in flight: its kind, the generation and coordinator when it was sent, and the time."""

    kind: Kind
    generation: Generation
    node: Node | None
    sent_ms: int


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


@dataclass(slots=True)
class Stats:
    """Counters since the member was made, and how long things took lately."""

    joins_sent: int = 0
    heartbeats: int = 0
    heartbeats_failed: int = 0
    rebalances: int = 0
    rebalances_failed: int = 0
    last_rebalance_ms: int = -1
    poll_timeouts: int = 0
    memberships_lost: int = 0
    rebalance_started_ms: int | None = field(default=None, repr=False)
    times: Sensors = field(default_factory=Sensors, repr=False)

    def rebalanced(self, now_ms: int) -> None:
        """A round has succeeded. Its duration includes the attempts before it, as in Kafka."""
        self.rebalances += 1
        if self.rebalance_started_ms is not None:
            self.last_rebalance_ms = now_ms - self.rebalance_started_ms
            self.times.rebalance.record(self.last_rebalance_ms, now_ms)
            self.rebalance_started_ms = None
