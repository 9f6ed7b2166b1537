"""Makes a classic group of a consumer group when its last member of the new protocol goes.

The group goes on at its epoch as generation. Each member is assigned what its target says, and all of them rebalance:
who has something else has to give it up first, and the group needs a leader, who looks for new partitions. Kafka has
nobody rebalance if a static member has come back as a classic one and each has what it is to have; such a group has
no leader until its next rebalance, and new partitions have no owner (K-E-36).

Until they have, two things are not as the record of a classic group has them. A shard that loads it has to have them
rebalance, for nobody else will; and what members have is not what they are assigned. So the record says that its state
is UNSETTLED, and in each member's subscription, what it has: that counts if the group is upgraded again (upgrade.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.member import Member
from actors.coordinator.classic.messages import JoinGroupRequest
from actors.coordinator.classic.rebalance import Rebalancer
from actors.coordinator.classic.records import GroupMetadata, GroupPut
from actors.coordinator.classic.roster import Roster
from actors.coordinator.classic.states import GroupState
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.messages import Refusal
from actors.coordinator.consumer.operations import Draft
from actors.coordinator.consumer.records import tombstones
from actors.coordinator.consumer.target import NOTHING
from actors.coordinator.consumer.values import Current, MemberMetadata
from actors.coordinator.errors import Error
from actors.coordinator.groups.messages import OffsetCommitRequest
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.migration.embedded import CONSUMERS, assignment, by_name, held, owning, read_version
from actors.coordinator.records import CorruptRecordError, encode
from actors.coordinator.turn import Now
from actors.coordinator.writer import BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES

UNSETTLED: Final = -2
"""The time of the state of a group whose members still have to join again. Nobody else reads it of a group that has
members."""


class Downgraded(NamedTuple):
    """A consumer group as a classic one."""

    metadata: GroupMetadata
    joins: Mapping[str, JoinGroupRequest]
    """The request with which each member would join: the group's record has but one of its protocols."""
    roster: Roster
    """Its members."""

    def check_commit(self, request: OffsetCommitRequest) -> Error:
        """The error of a commit that comes before the record has committed. Members that go commit nothing more."""
        found = self.roster.identify(request.member_id, request.group_instance_id)
        if isinstance(found, Error):
            return found
        return Error.NONE if request.generation_id == self.metadata.generation_id else Error.ILLEGAL_GENERATION


class Rebalance(NamedTuple):
    """The reason why the members of a downgraded group have to join again."""

    reason: str
    member_id: str
    """Of several members all, with commas between them."""


class Downgrades:
    """Those of a shard's groups."""

    def __init__(self, runtime: GroupRuntime, rebalancer: Rebalancer) -> None:
        self._runtime = runtime
        self._rebalancer = rebalancer

    def without(self, draft: Draft, gone: Collection[str], reason: str) -> Refusal | bool:
        """Make a group a classic one without these members, if it may be one, and have the others join again."""
        if not self._is_due(draft, gone):
            return False
        try:
            made = downgraded(draft, gone)
        except CorruptRecordError as error:
            text = f"Group {draft.group_id} cannot become a classic group: {error}."
            return Refusal(Error.GROUP_ID_NOT_FOUND, text)
        if not self._fits(draft, made):
            return False
        self._write(draft, made, Rebalance(reason, ",".join(gone)))
        return True

    def with_all(self, draft: Draft, member_id: str) -> bool:
        """Make a group a classic one in which a member has taken the place of its last one of the new protocol."""
        if not self._is_due(draft, ()):
            return False
        try:
            made = downgraded(draft, ())
        except CorruptRecordError:
            return False
        if not self._fits(draft, made):
            return False
        self._write(draft, made, Rebalance("static member replaced", member_id))
        return True

    def _is_due(self, draft: Draft, gone: Collection[str]) -> bool:
        """Asked at every removal, so it looks at nobody but those who go."""
        state = draft.state
        left = len(state.metadata) - len(gone)
        classic_left = state.classic_members - sum(state.metadata[each].classic is not None for each in gone)
        return (
            draft.of_broker.may_downgrade and 0 < left == classic_left and left <= self._runtime.config.group_max_size
        )

    def _fits(self, draft: Draft, made: Downgraded) -> bool:
        """True if the log takes it. All members stand in one record; in a consumer group each has its own."""
        changes = (*draft.changes, *tombstones(draft.group_id, draft.state), GroupPut(draft.group_id, made.metadata))
        sizes = (RECORD_OVERHEAD_BYTES + len(key) + len(value or b"") for key, value in encode(changes))
        return BATCH_OVERHEAD_BYTES + sum(sizes) <= self._runtime.config.max_message_bytes

    def _write(self, draft: Draft, made: Downgraded, rebalance: Rebalance) -> None:
        for tombstone in tombstones(draft.group_id, draft.state):
            draft.write(tombstone)
        draft.write_of_another_type(GroupPut(draft.group_id, made.metadata))
        draft.becomes = made
        group = self._runtime.groups[draft.group_id]
        assert isinstance(group, ConsumerGroup)
        sessions = {each: timers.session.due_ms for each, timers in group.members.items()}
        draft.handed_over = partial(self._go_on, draft.group_id, made, rebalance, sessions)

    def _go_on(
        self,
        group_id: str,
        made: Downgraded,
        rebalance: Rebalance,
        sessions: Mapping[str, int | None],
        now: Now,
    ) -> None:
        """The classic group is there, made of its record. Its members' sessions run on: it is no sign of life."""
        group = self._runtime.groups[group_id]
        assert isinstance(group, ClassicGroup)
        for member_id, member in group.members.items():
            until_ms = sessions.get(member_id)
            if until_ms is not None and member.session.due_ms is not None:
                self._runtime.timers.arm(member.session, min(until_ms, member.session.due_ms))
        for member_id, join in made.joins.items():
            group.roster.update(group.members[member_id], join)
        _settle_what_members_have(group)
        self._rebalancer.prepare(group, rebalance.reason, rebalance.member_id, now)

    def loaded(self, now: Now) -> None:
        """Groups were loaded: have those rebalance that still had to."""
        for group_id, durable in self._runtime.durable.items():
            persisted, group = durable.persisted, self._runtime.groups[group_id]
            if not isinstance(persisted, GroupMetadata) or not isinstance(group, ClassicGroup):
                continue
            if persisted.members and persisted.state_timestamp_ms == UNSETTLED:
                _settle_what_members_have(group)
                if group.state is GroupState.STABLE:
                    self._rebalancer.prepare(group, "group was a consumer group", "", now)


def _settle_what_members_have(group: ClassicGroup) -> None:
    """Members have what they own, whatever they were about to be assigned."""
    for member in group.members.values():
        try:
            has = held(member.metadata(group.protocol_name))
        except CorruptRecordError:  # whoever has written that: the next generation is assigned anew
            has = b""
        group.roster.assign(member, has)


def downgraded(draft: Draft, gone: Collection[str]) -> Downgraded:
    """The group without these members. Raises CorruptRecordError for what cannot be read of the others."""
    joins = {each: _join(each, member) for each, member in draft.state.metadata.items() if each not in gone}
    roster = Roster()
    for member_id, join in joins.items():
        roster.add(Member(member_id, join))
    protocol_name = roster.vote()
    if protocol_name is None:
        raise CorruptRecordError("its members have no protocol in common")
    shares = {each: _assignment(draft, member, protocol_name) for each, member in roster.by_id.items()}
    joins = {each: _owning(draft, join, protocol_name) for each, join in joins.items()}
    for member_id, join in joins.items():
        roster.update(roster.by_id[member_id], join)
    return Downgraded(
        GroupMetadata(
            CONSUMERS,
            draft.state.group_epoch,
            protocol_name,
            roster.leader_id,
            UNSETTLED,
            tuple(member.to_record(protocol_name, shares[each]) for each, member in roster.by_id.items()),
        ),
        joins,
        roster,
    )


def _join(member_id: str, member: MemberMetadata) -> JoinGroupRequest:
    assert member.classic is not None
    return JoinGroupRequest(
        group_id=None,
        member_id=member_id,
        protocol_type=CONSUMERS,
        protocols=member.classic.protocols,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
    )


def _owning(draft: Draft, join: JoinGroupRequest, protocol_name: str) -> JoinGroupRequest:
    """The same of a member that says what it has now, as it would if it joined."""
    current = draft.state.current_of(join.member_id)
    has = by_name(_all_of(current), draft.topics)
    protocols = ((name, owning(data, has) if name == protocol_name else data) for name, data in join.protocols)
    return replace(join, protocols=tuple(protocols))


def _all_of(current: Current) -> dict[bytes, set[int]]:
    """The partitions that a member uses, and those that it has still to give back."""
    topic_ids = {*current.assigned, *current.pending}
    return {each: {*current.assigned.get(each, ()), *current.pending.get(each, ())} for each in topic_ids}


def _assignment(draft: Draft, member: Member, protocol_name: str) -> bytes:
    """A member's target, in the version of the embedded protocol that it speaks."""
    target = draft.state.targets.get(member.member_id, NOTHING)
    return assignment(read_version(member.metadata(protocol_name)), by_name(target, draft.topics))
