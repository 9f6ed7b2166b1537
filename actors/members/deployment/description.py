"""The description of a deployed pool, as users see it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from actors.members.autoscale import Autoscale
from actors.members.pools.status import MemberStatus, SizeChange


class PoolState(StrEnum):
    """The state of a deployed pool. It follows from the topic, the rollout and the members (`view.state_of`)."""

    STARTING = "Starting"
    """Members are started for the first time, or again after all have died; nothing has been proved to work yet."""
    RUNNING = "Running"
    """The members run the wanted version. Ends with a wish, or when a member fails."""
    ROLLING = "Rolling"
    """A new version, or a restart, goes through the members one at a time. Ends when all have it, or one fails."""
    ROLLING_BACK = "RollingBack"
    """A version did not work: the members go back to the one before, one at a time. Ends when all have."""
    PAUSED = "Paused"
    """There are no members, because `pause` was called. The group keeps its offsets. Ends with `resume`."""
    FAILED = "Failed"
    """A member has failed, and no version is left to go back to. Ends with a new version, or with `restart`."""
    STOPPED = "Stopped"
    """Its members have left the group, and it is in the topic no more."""
    UNSUPERVISED = "Unsupervised"
    """It is in the topic, and no supervisor can be asked: Ray restarts it, or it runs on another Ray, or nowhere."""


@dataclass(frozen=True, slots=True)
class RolloutStatus:
    """The last version, or restart, that went through a pool's members."""

    from_version: int
    to_version: int
    done: int
    """Members that run it and have proved to work."""
    of: int
    """Members in all."""
    rolled_back: str | None = None
    """The reason why it was given up and the members went back to `from_version`; None if it was not."""

    @property
    def over(self) -> bool:
        """True if nothing of it is left to do."""
        return self.done >= self.of


@dataclass(frozen=True, slots=True)
class PoolDescription:
    """A deployed pool now."""

    name: str
    state: PoolState
    version: int
    """The last that was deployed: 1, 2, ..."""
    running_version: int
    """The one that members are started with: an earlier one if `version` was rolled back; 0 if that is not known."""
    group_id: str
    topics: tuple[str, ...]
    size: int
    """The number of members that it is to have, also while it pauses."""
    autoscale: Autoscale | None
    paused: bool
    deployed_at_ms: int
    """The time at which the last version was deployed, in Unix milliseconds."""
    bootstrap_servers: str
    members: tuple[MemberStatus, ...] = ()
    """By slot. Empty if no supervisor was asked."""
    handled: int = 0
    """Records that the members have handled or set aside since the supervisor began, each once."""
    supervisor_pid: int | None = None
    supervisor_node_id: str | None = None
    """Of its Ray node."""
    rollout: RolloutStatus | None = None
    last_error: str | None = None
    """The last thing that went wrong, of a member or a version, since the supervisor began."""
    size_changes: tuple[SizeChange, ...] = ()
    """The last hundred changes of size since the supervisor began, the oldest first."""
