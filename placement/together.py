"""Elections of partitions that are led together: a data partition and its state partitions (`placement.pairs`).

The rules. A broker that is elected may lead them all, and one record moves them all. A state partition has the data
partition's leader or none; it never has another. If no broker may lead them all, the data partition is led by one that
may lead it, because its records are the user's; the state partition then has no leader until a broker that may lead
both is there. That one is elected as soon as something of the pair changes.

A decision says what it wants for each partition by itself (`Outcome`), and `settled_together` makes one of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from placement.elections import changed, elect, with_isr
from placement.infos import NO_LEADER, PartitionInfo


@dataclass(frozen=True, slots=True)
class Election:
    """A partition needs a leader. `kept` is what stays of it; the others are the arguments of `elect`."""

    kept: PartitionInfo
    alive: frozenset[int]
    min_insync: int = 1
    unclean: bool = False


Outcome: TypeAlias = PartitionInfo | Election
"""A decision for one partition by itself."""


def kept(outcome: Outcome) -> PartitionInfo:
    """The part of a partition that stays if an election is held."""
    return outcome.kept if isinstance(outcome, Election) else outcome


def settled(outcome: Outcome) -> PartitionInfo:
    """A partition of its own after a decision."""
    if not isinstance(outcome, Election):
        return outcome
    return elect(outcome.kept, outcome.alive, min_insync=outcome.min_insync, unclean=outcome.unclean)


@dataclass(frozen=True, slots=True)
class Member:
    """One of the partitions that are led together: how it was, what is wanted, and its `min.insync.replicas`."""

    before: PartitionInfo
    outcome: Outcome
    min_insync: int

    @property
    def kept(self) -> PartitionInfo:
        return kept(self.outcome)

    def may_be_led_by(self, broker: int) -> bool:
        """True if the broker has all that has committed."""
        return broker in (*self.kept.isr, *self.kept.elr)

    def led_by(self, broker: int, alive: frozenset[int]) -> PartitionInfo:
        """The partition with another leader: a broker that may lead it, or nobody."""
        partition, epoch = self.kept, self.kept.leader_epoch + 1
        if broker == NO_LEADER:
            return partition if partition.leader == NO_LEADER else changed(partition, leader=broker, leader_epoch=epoch)
        isr = tuple(r for r in partition.isr if r in alive or r == broker) if broker in partition.isr else (broker,)
        return with_isr(partition, isr, self.min_insync, leader=broker, leader_epoch=epoch)


def settled_together(data: Member, states: Sequence[Member], alive: frozenset[int]) -> list[PartitionInfo]:
    """The data partition and its state partitions after a decision, in this order."""
    if isinstance(data.outcome, Election):
        chosen = _common((data, *states), alive)
        after = settled(data.outcome) if chosen is None else data.led_by(chosen, alive)
        return [after, *(_following(state, after.leader, alive) for state in states)]
    if data.outcome.leader != data.before.leader:
        return _moved(data, data.outcome, states, alive)
    return _stayed(data, data.outcome, states, alive)


def _common(members: Sequence[Member], alive: Iterable[int]) -> int | None:
    """The living broker that leads all: the first that is in sync everywhere, else the first that is eligible."""
    living = set(alive)
    candidates = [replica for replica in members[0].kept.replicas if replica in living]
    able = [broker for broker in candidates if all(member.may_be_led_by(broker) for member in members)]
    in_sync = (broker for broker in able if all(broker in member.kept.isr for member in members))
    return next(in_sync, able[0] if able else None)


def _following(state: Member, leader: int, alive: frozenset[int]) -> PartitionInfo:
    """A state partition whose data partition has this leader now."""
    if leader == NO_LEADER or state.may_be_led_by(leader):
        return state.led_by(leader, alive)
    if isinstance(state.outcome, Election) and state.outcome.unclean and leader in state.kept.replicas:
        epoch = state.kept.leader_epoch + 1
        return changed(state.kept, leader=leader, leader_epoch=epoch, isr=(leader,), elr=(), unclean=True)
    return state.led_by(NO_LEADER, alive)


def _moved(data: Member, after: PartitionInfo, states: Sequence[Member], alive: frozenset[int]) -> list[PartitionInfo]:
    """The data partition is to have another leader, or nobody, though it could keep the one it has."""
    has_none = [state.kept.leader == NO_LEADER for state in states]
    able = [after.leader == NO_LEADER or state.may_be_led_by(after.leader) for state in states]
    if not all(none or fits for none, fits in zip(has_none, able, strict=True)):
        return [data.before, *(state.before for state in states)]
    return [after, *(_following(state, after.leader, alive) for state in states)]


def _stayed(data: Member, after: PartitionInfo, states: Sequence[Member], alive: frozenset[int]) -> list[PartitionInfo]:
    """The data partition keeps its leader, unless only that gives a state partition a leader."""
    leader = after.leader
    calm = [_calm(state, leader) for state in states]
    stuck = any(each is None and not state.may_be_led_by(leader) for each, state in zip(calm, states, strict=True))
    chosen = _common((data, *states), alive) if stuck and leader != NO_LEADER else None
    if chosen is not None:
        return [data.led_by(chosen, alive), *(_following(state, chosen, alive) for state in states)]
    return [after, *(each or _following(state, leader, alive) for each, state in zip(calm, states, strict=True))]


def _calm(state: Member, leader: int) -> PartitionInfo | None:
    """The state partition if it needs no election, because its data partition keeps its leader; else None."""
    if isinstance(state.outcome, Election):
        return None
    if state.outcome.leader == leader:
        return state.outcome
    return state.before if state.before.leader == leader else None
