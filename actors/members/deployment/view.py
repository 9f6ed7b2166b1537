"""A pool by its records and its members: the places as a rollout sees them, the description as users see it."""

from __future__ import annotations

from actors.members.deployment.description import PoolDescription, PoolState, RolloutStatus
from actors.members.deployment.records import Deployment, PoolRecord
from actors.members.deployment.rollout import Phase, Place, Rollout
from actors.members.pools.members import PoolMembers
from actors.members.pools.slots import Slot
from actors.members.pools.supervision import Supervision


def places(slots: Supervision) -> list[Place]:
    """The places of the members, for a rollout."""
    with slots.changed:
        return [_place(slot) for slot in slots.all()]


def _place(slot: Slot) -> Place:
    report, since = slot.report, slot.since
    return Place(
        slot=slot.number,
        mark=slot.version.mark,
        state=report.state,
        error=report.error,
        renewing=slot.renewing,
        renewed_s=slot.renewed_at,
        running_s=slot.running_since,
        busy=report.handling_ms > 0,
        handled=slot.handlings.handled - since.handled,
        dead_letters=slot.handlings.dead_letters - since.dead_letters,
        deaths=max(0, slot.restarts - since.restarts - 1),
    )


def state_of(record: PoolRecord, rollout: Rollout | None, found: list[Place], *, over: bool, failed: bool) -> PoolState:
    """The state of a pool that has a supervisor. `failed`: no version of it can even be loaded."""
    if over:
        return PoolState.STOPPED
    if record.paused:
        return PoolState.PAUSED
    if rollout is None:
        return PoolState.FAILED if failed else PoolState.STARTING
    if rollout.moves(found):
        return PoolState.ROLLING_BACK if rollout.phase is Phase.RETURNING else PoolState.ROLLING
    if rollout.phase is Phase.HALTED or any(place.failed for place in found):
        return PoolState.FAILED
    if found and not any(place.state == "Running" for place in found):
        return PoolState.STARTING
    return PoolState.RUNNING if found or record.wanted.autoscale is not None else PoolState.STARTING


def supervised(
    name: str,
    record: PoolRecord,
    members: PoolMembers | None,
    rollout: Rollout | None,
    *,
    rolled_back: str | None,
    from_version: int,
    running: Deployment | None,
    servers: str,
    over: bool,
    stuck: bool,
    last_error: str | None,
    pid: int,
    node_id: str,
) -> PoolDescription:
    """A pool as its supervisor knows it."""
    found = places(members.slots) if members is not None else []
    statuses = tuple(slot.status() for slot in members.slots.all()) if members is not None else ()
    failed = next((member.error for member in statuses if member.error), None)
    follows = members is not None and members.follows_load
    return PoolDescription(
        name=name,
        state=state_of(record, rollout, found, over=over, failed=stuck),
        version=record.deployment.version,
        running_version=running.version if running is not None else 0,
        group_id=record.deployment.group_id,
        topics=record.deployment.topics,
        size=len(statuses) if follows else record.size,
        autoscale=record.wanted.policy,
        paused=record.paused,
        deployed_at_ms=record.deployment.deployed_at_ms,
        bootstrap_servers=servers,
        members=statuses,
        handled=members.slots.done() if members is not None else 0,
        supervisor_pid=pid,
        supervisor_node_id=node_id,
        rollout=_status(record, rollout, found, rolled_back, from_version),
        last_error=failed or last_error,
        size_changes=tuple(members.size_changes) if members is not None else (),
    )


def _status(
    record: PoolRecord, rollout: Rollout | None, found: list[Place], rolled_back: str | None, from_version: int
) -> RolloutStatus | None:
    if rollout is None:
        return None
    done = sum(place.mark == rollout.mark and (rollout.over or place.slot in rollout.done) for place in found)
    return RolloutStatus(from_version, record.deployment.version, done, len(found), rolled_back)


def unsupervised(name: str, record: PoolRecord) -> PoolDescription:
    """A pool as the topic knows it."""
    deployment, good = record.deployment, record.good
    rolled_back = record.rolled_back
    status = None
    if rolled_back is not None and good is not None:
        status = RolloutStatus(good.version, deployment.version, 0, 0, rolled_back)
    return PoolDescription(
        name=name,
        state=PoolState.UNSUPERVISED,
        version=deployment.version,
        running_version=0,
        group_id=deployment.group_id,
        topics=deployment.topics,
        size=record.size,
        autoscale=record.wanted.policy,
        paused=record.paused,
        deployed_at_ms=deployment.deployed_at_ms,
        bootstrap_servers=deployment.bootstrap_servers,
        rollout=status,
        last_error=rolled_back,
    )
