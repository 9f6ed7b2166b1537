"""One step of a member towards its target (KIP-848). A pure function of the member's holding and its words.

A member that has to give something up comes first to that: it is told so, and stays at its epoch (UNREVOKED) until its
heartbeat shows that it has. Then it gets what is free; it is at the new epoch, and waits for what others still hold
(UNRELEASED). So a partition has one holder at any time, and nobody waits but those who want what another has.

| state | condition | what follows |
| --- | --- | --- |
| STABLE | at the target's epoch | `_strip` if it subscribes to something else, else nothing |
| STABLE | at another epoch | `_next` |
| UNREVOKED | holds what is pending | the same as at the target's epoch; its timer runs on |
| UNREVOKED | has given it back | `_next` |
| UNRELEASED | | `_next` |
| UNKNOWN | holds nothing | `_next`, at the target's epoch |
| UNKNOWN | holds something, or says nothing | it is fenced |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from actors.coordinator.consumer.values import Current, Held, MemberState, Partitions


@dataclass(frozen=True, slots=True)
class Step:
    """The facts that decide on a member's next step."""

    target: Partitions
    epoch: int
    """Of the target."""
    owned: Partitions | None
    """The partitions that it says it owns; None if it says nothing."""
    subscribed: frozenset[bytes]
    """The topics that it subscribes to now, of those that exist."""
    has_changed: bool
    """True if it has just changed its subscription."""
    is_free: Callable[[tuple[bytes, int]], bool]
    """Tells whether no other member lists a partition."""

    def holds(self, held: Held) -> bool:
        """True if it may still have some of these partitions. One that says nothing may."""
        if self.owned is None:
            return True
        return any(not self.owned.get(topic_id, frozenset()).isdisjoint(each) for topic_id, each in held.items())


def reconcile(current: Current, step: Step) -> Current | None:
    """The member's holding from now on; the same object if nothing changes. None: it is to be fenced."""
    match current.state:
        case MemberState.STABLE:
            return _next(current, step) if current.epoch != step.epoch else _unless_changed(current, step)
        case MemberState.UNREVOKED_PARTITIONS:
            return _unless_changed(current, step) if step.holds(current.pending) else _next(current, step)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(current, step)
        case MemberState.UNKNOWN:
            if step.owned is None or step.owned:
                return None
            return _next(current, step, at_target=True)


def _unless_changed(current: Current, step: Step) -> Current:
    return _strip(current, step) if step.has_changed else current


def _strip(current: Current, step: Step) -> Current:
    """Take what the member does not subscribe to any more, target or not."""
    dropped = {topic_id: each for topic_id, each in current.assigned.items() if topic_id not in step.subscribed}
    if not dropped:
        return current
    kept = {topic_id: each for topic_id, each in current.assigned.items() if topic_id in step.subscribed}
    pending = _union(current.pending, dropped)
    if step.holds(pending):
        return Current(current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, pending)
    return replace(current, previous_epoch=current.epoch, assigned=kept)


def _next(current: Current, step: Step, *, at_target: bool = False) -> Current:
    """Give up partitions that are not in the target, else take free ones of it."""
    kept, revoked = _divide(current.assigned, step)
    if revoked and step.holds(revoked):
        epoch = step.epoch if at_target else current.epoch
        made = Current(epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    else:
        added, is_blocked = _wanted(kept, step)
        state = MemberState.UNRELEASED_PARTITIONS if is_blocked else MemberState.STABLE
        made = Current(step.epoch, current.epoch, state, _union(kept, added))
    return current if made == current else made


def _divide(assigned: Held, step: Step) -> tuple[Held, Held]:
    """The assigned partitions, divided into those that stay and those that go."""
    kept: dict[bytes, dict[int, int]] = {}
    revoked: dict[bytes, dict[int, int]] = {}
    for topic_id, partitions in assigned.items():
        wanted = step.target.get(topic_id, frozenset()) if topic_id in step.subscribed else frozenset()
        for partition, epoch in partitions.items():
            part = kept if partition in wanted else revoked
            part.setdefault(topic_id, {})[partition] = epoch
    return kept, revoked


def _wanted(kept: Held, step: Step) -> tuple[Held, bool]:
    """The partitions that the member gets beside those it keeps, and whether others still hold some of its target."""
    added: dict[bytes, dict[int, int]] = {}
    is_blocked = False
    for topic_id, partitions in step.target.items():
        if topic_id not in step.subscribed:
            continue
        for partition in partitions - kept.get(topic_id, {}).keys():
            if step.is_free((topic_id, partition)):
                added.setdefault(topic_id, {})[partition] = step.epoch
            else:
                is_blocked = True
    return added, is_blocked


def _union(one: Held, other: Held) -> Held:
    if not other:
        return one
    joined = {topic_id: dict(partitions) for topic_id, partitions in one.items()}
    for topic_id, partitions in other.items():
        joined.setdefault(topic_id, {}).update(partitions)
    return joined
