"""Follows `__consumer_offsets`, and writes down who owns what by the records of groups, of either protocol."""

from __future__ import annotations

from actors.client import Consumer, TopicPartition
from actors.client.group.assignors.protocol import Assignment
from actors.coordinator.classic.records import GroupMetadata, GroupPut
from actors.coordinator.consumer.records import CurrentAssignment
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.durable import DurableState
from actors.coordinator.groups.offset_records import OffsetsDeleted, OffsetsPut
from tests.chaos.history import History
from tests.chaos.load import Load

OFFSETS_TOPIC = "__consumer_offsets"


class OwnershipWatcher(Load):
    """Notes the owners of every generation of classic groups, and of consumer groups what a member holds.

    A static member of a classic group goes by its instance id: one that takes its place begins no generation (KIP-345).
    """

    def __init__(self, name: str, history: History, servers: str, groups: set[str]) -> None:
        super().__init__(name, history, servers)
        self._groups = groups
        self._state = DurableState()
        self._types: dict[str, str] = {}

    def run(self) -> None:
        with Consumer(bootstrap_servers=self.servers, enable_auto_commit=False, auto_offset_reset="earliest") as reader:
            while not (numbers := reader.partitions_for_topic(OFFSETS_TOPIC)):
                if self.stopping.wait(0.2):
                    return
            reader.assign([TopicPartition(OFFSETS_TOPIC, number) for number in numbers])
            while not self.stopping.is_set():
                for records in reader.poll(500, max_records=5000).values():
                    for record in records:
                        self._read(record.key, record.value, self.history.at(record.timestamp))

    def _read(self, key: bytes | None, value: bytes | None, written: float) -> None:
        change = GROUP_RECORDS.decode(key, value) if key is not None else None
        if change is None or isinstance(change, OffsetsPut | OffsetsDeleted) or change.group_id not in self._groups:
            return
        self._state.replay(change)
        self._note_type(change.group_id)
        if isinstance(change, GroupPut):
            self._note_generation(change.group_id, change.metadata)
        elif isinstance(change, CurrentAssignment) and change.is_tombstone:
            self.history.note("ended", group=change.group_id, member=change.member_id, written=written)
        elif isinstance(change, CurrentAssignment):
            self._note_holder(change, written)

    def _note_type(self, group: str) -> None:
        """A group that changes its protocol is of none for a moment."""
        found = self._state.get(group)
        new = getattr(found and found.persisted, "group_type", "")
        if new and new != self._types.get(group):
            self._types[group] = new
            self.history.note("protocol", group=group, type=new)

    def _note_generation(self, group: str, metadata: GroupMetadata) -> None:
        members = {
            member.group_instance_id or member.member_id: [
                tp.partition for tp in Assignment.decode(member.assignment).partitions
            ]
            for member in metadata.members
            if member.assignment
        }
        if metadata.members:
            self.history.note("owners", group=group, generation=metadata.generation_id, members=members)

    def _note_holder(self, change: CurrentAssignment, written: float) -> None:
        """Note a member's partitions, those it has yet to give back included, and members that share some of them."""
        found = self._state.get(change.group_id)
        state = found.persisted if found is not None else None
        if not isinstance(state, ConsumerState):
            return
        mine, others = _held(state, change.member_id), [each for each in state.current if each != change.member_id]
        twice = {each: sorted(shared) for each in others if (shared := _held(state, each) & mine)}
        current = state.current_of(change.member_id)
        place = {"group": change.group_id, "member": change.member_id, "written": written}
        epochs = {"epoch": current.epoch, "previous": current.previous_epoch}
        member = state.metadata.get(change.member_id)
        place["client"] = member.client_id if member is not None else ""
        self.history.note("holds", partitions=sorted(mine), twice=twice, **place, **epochs)


def _held(state: ConsumerState, member_id: str) -> frozenset[int]:
    """The partitions that a member lists. There is one topic."""
    current = state.current_of(member_id)
    parts = (*current.assigned.values(), *current.pending.values())
    return frozenset(partition for part in parts for partition in part)
