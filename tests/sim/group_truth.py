"""The state of all groups by their committed records, batch by batch. Its invariants:

generations  in the log of a group, generations and epochs only grow, whichever protocol the group has at the moment;
             a classic generation has one assignment
one-owner    after no append two members of a consumer group list one partition, or have it in their targets
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from actors.coordinator.classic.records import CLASSIC, GroupMetadata, GroupPut
from actors.coordinator.consumer.records import AssignmentEpoch, GroupEpoch
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.values import STATIC_LEAVE_EPOCH, Held, Partitions
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.durable import DurableState, GroupChange
from tests.sim.claims import Claim
from tests.sim.engine import Simulation

Persisted = GroupMetadata | ConsumerState | None
_OF_OFFSETS = (b"\x00\x00", b"\x00\x01")
"""The first bytes of the keys of offsets."""


class _Place(NamedTuple):
    """The epochs of a group when its last batch had committed."""

    group_type: str
    number: int
    """Its generation, or its epoch."""
    assignment_epoch: int
    epochs: Mapping[str, int]
    """Of the members of a consumer group."""


class CommittedGroups:
    """All groups, as far as their records have committed."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self._state = DurableState()
        self._places: dict[str, _Place] = {}
        self._emptied: set[str] = set()
        """Groups that had no members before their last batch, or for a moment in it, or by their coordinator."""
        self.happened = Counter[str]()
        """Counts the groups with members that got the other protocol."""

    def persisted(self, group_id: str) -> Persisted:
        """A group's state by the log: of a classic one its record. The caller does not change it."""
        found = self._state.get(group_id)
        return found.persisted if found is not None else None

    def holds(self, group_id: str, claim: Claim) -> bool:
        """True if the claim's member and its epoch are valid by the group's log."""
        match self.persisted(group_id):
            case ConsumerState() as state:
                # The epoch is below 0 of a static member that has left for a while, or whose user has stopped polling.
                return claim.member_id in state.metadata and state.current_of(claim.member_id).epoch >= 0
            case GroupMetadata() as metadata:
                is_current = not claim.is_static or claim.generation == metadata.generation_id
                return is_current and any(member.member_id == claim.member_id for member in metadata.members)
        return False

    def read(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """These records have committed together."""
        changes: list[GroupChange] = []
        for key, value in records:
            if key is None or key.startswith(_OF_OFFSETS):
                continue
            change = GROUP_RECORDS.decode(key, value)
            if change is None:
                continue
            if isinstance(change, GroupPut):
                self._judge_generation(change.group_id, change.metadata)
            self._state.replay(change)
            changes.append(change)  # type: ignore[arg-type]
            if self._is_empty_by(change):
                self._emptied.add(change.group_id)
        for group_id in dict.fromkeys(change.group_id for change in changes):
            computed = any(isinstance(each, AssignmentEpoch) and each.group_id == group_id for each in changes)
            self._judge(group_id, is_new_target=computed)

    def emptied(self, group_id: str) -> None:
        """A coordinator knows a classic group without members. The log need not come to say so: its write may fail."""
        self._emptied.add(group_id)

    def _is_empty_by(self, change: object) -> bool:
        """True if the record says that its group has no members.

        A consumer group that becomes a classic one has none for a moment, but no record says so.
        """
        if isinstance(change, GroupPut):
            return not change.metadata.members
        is_put = isinstance(change, GroupEpoch | AssignmentEpoch) and not change.is_tombstone
        persisted = self.persisted(change.group_id) if is_put else None
        return isinstance(persisted, ConsumerState) and not persisted.metadata

    def _judge_generation(self, group_id: str, new: GroupMetadata) -> None:
        old = self.persisted(group_id)
        if not isinstance(old, GroupMetadata) or new.generation_id > old.generation_id:
            return
        if new.generation_id < old.generation_id:
            self.sim.fail("generations", f"{group_id} went from {old.generation_id} to {new.generation_id}")
        shares = {m.group_instance_id or m.member_id: m.assignment for m in old.members}
        for member in new.members:
            if shares.get(member.group_instance_id or member.member_id) != member.assignment:
                self.sim.fail("generations", f"generation {new.generation_id} of {group_id} has two assignments")

    def _judge(self, group_id: str, *, is_new_target: bool) -> None:
        persisted, old = self.persisted(group_id), self._places.pop(group_id, None)
        if persisted is None:
            return
        new = self._places[group_id] = _place(persisted)
        if old is not None:
            self._judge_numbers(group_id, old, new)
        if _has_members(persisted):
            self._emptied.discard(group_id)
        if isinstance(persisted, ConsumerState):
            self._judge_owners(group_id, persisted)
            if is_new_target:
                self._judge_targets(group_id, persisted)

    def _judge_numbers(self, group_id: str, old: _Place, new: _Place) -> None:
        if old.group_type != new.group_type:
            if group_id in self._emptied:
                return  # nothing is kept of a group without members but its offsets
            self.happened["upgrades" if old.group_type == CLASSIC else "downgrades"] += 1
        for before, after in ((old.number, new.number), (old.assignment_epoch, new.assignment_epoch)):
            if after < before:
                text = f"{group_id} went from {before} as {old.group_type} to {after} as {new.group_type}"
                self.sim.fail("generations", text)
        for member_id, epoch in new.epochs.items():
            before = old.epochs.get(member_id, 0)
            if epoch < before and epoch != STATIC_LEAVE_EPOCH:
                self.sim.fail("generations", f"{member_id} of {group_id} went from epoch {before} to {epoch}")

    def _judge_owners(self, group_id: str, state: ConsumerState) -> None:
        listed = ((each.assigned, each.pending) for each in state.current.values())
        self._judge_alone(f"members of {group_id} have", _listed(part for parts in listed for part in parts))

    def _judge_targets(self, group_id: str, state: ConsumerState) -> None:
        targets = (target for member_id, target in state.targets.items() if member_id in state.metadata)
        self._judge_alone(f"targets of {group_id} have", _listed(targets))

    def _judge_alone(self, who: str, listed: Counter[tuple[bytes, int]]) -> None:
        twice = [partition for (_, partition), count in listed.items() if count > 1]
        if twice:
            self.sim.fail("one-owner", f"two {who} partition {twice[0]}")


def _has_members(persisted: GroupMetadata | ConsumerState) -> bool:
    return bool(persisted.members if isinstance(persisted, GroupMetadata) else persisted.metadata)


def _place(persisted: GroupMetadata | ConsumerState) -> _Place:
    if isinstance(persisted, GroupMetadata):
        number = persisted.generation_id
        return _Place(persisted.group_type, number, number, {})
    epochs = {member_id: current.epoch for member_id, current in persisted.current.items()}
    return _Place(persisted.group_type, persisted.group_epoch, persisted.assignment_epoch, epochs)


def _listed(parts: Iterable[Held | Partitions]) -> Counter[tuple[bytes, int]]:
    return Counter((topic_id, each) for part in parts for topic_id, numbers in part.items() for each in numbers)
