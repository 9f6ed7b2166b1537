"""Makes a classic group of a consumer group when its last member of the new protocol goes.

The group goes on at its epoch as generation. Each member is assigned what its target says, and all of them rebalance:
who has something else has to give it up first. Only where nobody has anything else, and a static member has come back
as a classic one, nobody else notices.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import NamedTuple

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.member import Member
from actors.coordinator.classic.messages import JoinGroupRequest
from actors.coordinator.classic.rebalance import Rebalancer
from actors.coordinator.classic.records import GroupMetadata, GroupPut
from actors.coordinator.classic.roster import Roster
from actors.coordinator.consumer.messages import Refusal
from actors.coordinator.consumer.operations import Draft
from actors.coordinator.consumer.records import tombstones
from actors.coordinator.consumer.target import NOTHING
from actors.coordinator.consumer.values import MemberMetadata
from actors.coordinator.errors import Error
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.migration.embedded import CONSUMERS, assignment, by_name, read_version
from actors.coordinator.records import CorruptRecordError
from actors.coordinator.turn import Now


class Downgraded(NamedTuple):
    """A consumer group as a classic one."""

    metadata: GroupMetadata
    joins: Mapping[str, JoinGroupRequest]
    """What each member would join with: the group's record has but one of its protocols."""
    held: Mapping[str, bytes]
    """What each member has, as an assignment: its target, which the record has, may be less."""
    rebalances: bool
    """Whether its members have to join again, for some have something that is not theirs."""


class Rebalance(NamedTuple):
    """What the members of a downgraded group have to join again for."""

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
        self._write(draft, made, Rebalance(reason, ",".join(gone)))
        return True

    def with_all(self, draft: Draft, member_id: str) -> Downgraded | None:
        """Make a group a classic one in which a member has taken the place of its last one of the new protocol.

        The others do not notice, if each of them has what it is to have.
        """
        if not self._is_due(draft, ()):
            return None
        try:
            made = downgraded(draft, ())
        except CorruptRecordError:
            return None
        self._write(draft, made, Rebalance("static member replaced", member_id) if made.rebalances else None)
        return made

    def _is_due(self, draft: Draft, gone: Collection[str]) -> bool:
        left = [member for member_id, member in draft.state.metadata.items() if member_id not in gone]
        return (
            draft.of_broker.may_downgrade
            and 0 < len(left) <= self._runtime.config.group_max_size
            and all(member.classic is not None for member in left)
        )

    def _write(self, draft: Draft, made: Downgraded, rebalance: Rebalance | None) -> None:
        for tombstone in tombstones(draft.group_id, draft.state):
            draft.write(tombstone)
        draft.write_of_another_type(GroupPut(draft.group_id, made.metadata))
        draft.handed_over = partial(self._go_on, draft.group_id, made, rebalance)

    def _go_on(self, group_id: str, made: Downgraded, rebalance: Rebalance | None, now: Now) -> None:
        """The classic group is there, made of its record."""
        group = self._runtime.groups[group_id]
        assert isinstance(group, ClassicGroup)
        for member_id, join in made.joins.items():
            member = group.members[member_id]
            group.roster.update(member, join)
            member.assignment = made.held[member_id]  # should the group be upgraded before all have joined again
        if rebalance is not None:
            self._rebalancer.prepare(group, rebalance.reason, rebalance.member_id, now)


def downgraded(draft: Draft, gone: Collection[str]) -> Downgraded:
    """What a group is without these members. Raises CorruptRecordError for what cannot be read of the others."""
    joins = {each: _join(each, member) for each, member in draft.state.metadata.items() if each not in gone}
    roster = Roster()
    for member_id, join in joins.items():
        roster.add(Member(member_id, join))
    protocol_name = roster.vote()
    if protocol_name is None:
        raise CorruptRecordError("its members have no protocol in common")
    members = roster.by_id.values()
    return Downgraded(
        GroupMetadata(
            CONSUMERS,
            draft.state.group_epoch,
            protocol_name,
            roster.leader_id,
            draft.now.wall_ms,
            tuple(each.to_record(protocol_name, _target(draft, each, protocol_name)) for each in members),
        ),
        joins,
        {each.member_id: _held(draft, each, protocol_name) for each in members},
        rebalances=bool(gone) or draft.state.persisted_state != "Stable",
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


def _target(draft: Draft, member: Member, protocol_name: str) -> bytes:
    """What a member's target says, in the version of the embedded protocol that it speaks."""
    target = draft.state.targets.get(member.member_id, NOTHING)
    return assignment(read_version(member.metadata(protocol_name)), by_name(target, draft.topics))


def _held(draft: Draft, member: Member, protocol_name: str) -> bytes:
    """What it has, and what it has to give back."""
    current = draft.state.current_of(member.member_id)
    held: dict[bytes, set[int]] = {}
    for part in (current.assigned, current.pending):
        for topic_id, partitions in part.items():
            held.setdefault(topic_id, set()).update(partitions)
    return assignment(read_version(member.metadata(protocol_name)), by_name(held, draft.topics))
