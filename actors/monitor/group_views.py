"""The views of groups, made of their records in the log and of their lag. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from actors.coordinator.groups.durable import PersistedMember
from actors.coordinator.groups.history import REPLACED
from actors.links.member_process import kind_and_process
from actors.links.views import GroupRow, GroupView, MemberView, PartitionLag, RebalanceView
from actors.monitor.assignments import Share, epochs_of, shares_of
from actors.monitor.kinds import kind_of
from actors.monitor.lag import UNKNOWN
from actors.monitor.memory import GroupLag, Memory
from actors.monitor.offsets_log import FollowedGroup, TopicPartition
from placement.metadata import NO_LEADER, OFFSETS_TOPIC, ClusterMetadata

HOUR_MS: Final = 3_600_000
_NO_LAG: Final = GroupLag()
_NOT_KNOWN: Final = Share({})


@dataclass(frozen=True, slots=True)
class Phase:
    """The coordinator's word on a group while it rebalances, which the log does not have."""

    state: str
    awaited: tuple[str, ...] = ()
    ends_in_ms: int | None = None
    awaited_count: int = 0


@dataclass(frozen=True, slots=True)
class GroupSource:
    """All that groups are shown from. Rebalances are those of the last hour at least, oldest first."""

    wall_ms: int
    memory: Memory
    metadata: ClusterMetadata
    phases: Mapping[str, Phase]
    rebalances: Mapping[str, tuple[RebalanceView, ...]]
    trends: Mapping[str, tuple[int | None, ...]]
    kinds: Mapping[str, str]
    """The kinds of groups' members, present or past."""


def state_of(group: FollowedGroup, phases: Mapping[str, Phase]) -> str:
    """The group's state, by Kafka's names."""
    if (phase := phases.get(group.group_id)) is not None:
        return phase.state
    return group.state


def group_row(number: int, group: FollowedGroup, source: GroupSource) -> GroupRow:
    """A group in a list; `number` is its offsets partition."""
    lag = source.memory.lags.get(group.group_id, _NO_LAG)
    rebalances = source.rebalances.get(group.group_id, ())
    epoch, assignment_epoch = epochs_of(group)
    return GroupRow(
        group_id=group.group_id,
        state=state_of(group, source.phases),
        protocol_type=group.protocol_type,
        kind=kind_of(group, source.kinds),
        members=len(group.members),
        topics=group.topics,
        broker_id=_coordinator(source.metadata, number),
        offsets_partition=number,
        lag=lag.records,
        lag_seconds=lag.seconds,
        commits_per_s=lag.commits_per_s,
        rebalances=sum(each.began_ms >= source.wall_ms - HOUR_MS and each.reason != REPLACED for each in rebalances),
        last_rebalance_ms=rebalances[-1].began_ms if rebalances else None,
        trend=source.trends.get(group.group_id, ()),
        group_type=group.group_type,
        epoch=epoch,
        assignment_epoch=assignment_epoch,
    )


def group_rows(groups: Iterable[tuple[int, FollowedGroup]], source: GroupSource) -> tuple[GroupRow, ...]:
    """All groups, by their ids."""
    return tuple(sorted((group_row(*each, source) for each in groups), key=lambda row: row.group_id))


def group_view(found: tuple[int, FollowedGroup] | None, source: GroupSource, rebalances: int) -> GroupView:
    """A group and all that is in it."""
    if found is None:
        return GroupView(source.wall_ms, None)
    number, group = found
    phase = source.phases.get(group.group_id)
    past = source.rebalances.get(group.group_id, ())
    members = _members(group, past, source.metadata)
    return GroupView(
        wall_ms=source.wall_ms,
        row=group_row(number, group, source),
        members=members,
        partitions=_partitions(group, members, source.memory),
        awaited=phase.awaited if phase else (),
        phase_ends_in_ms=phase.ends_in_ms if phase else None,
        rebalances=past[-rebalances:] if rebalances > 0 else (),
        awaited_count=phase.awaited_count if phase else 0,
    )


def _members(group: FollowedGroup, past: Iterable[RebalanceView], metadata: ClusterMetadata) -> tuple[MemberView, ...]:
    told = {member_id: said for each in past for member_id, said in each.processes.items()}
    shares = shares_of(group, metadata.names)
    rows = [
        _member(each, shares.get(each.member_id, _NOT_KNOWN), told.get(each.member_id, "")) for each in group.members
    ]
    return tuple(sorted(rows, key=lambda row: (row.client_id, row.member_id)))


def _member(member: PersistedMember, share: Share, told: str) -> MemberView:
    return MemberView(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=share.held,
        process=kind_and_process(told)[1],
        epoch=share.epoch,
        to_give_back=share.to_give_back,
        to_come=share.to_come,
    )


def _partitions(group: FollowedGroup, members: Iterable[MemberView], memory: Memory) -> tuple[PartitionLag, ...]:
    owners = {
        (topic, number): member.member_id
        for member in members
        for topic, numbers in member.assignment.items()
        for number in numbers
    }
    return tuple(_partition(tp, group, owners.get(tp), memory) for tp in sorted({*group.offsets, *owners}))


def _partition(tp: TopicPartition, group: FollowedGroup, owner: str | None, memory: Memory) -> PartitionLag:
    committed = group.offsets.get(tp)
    seen = memory.partitions.get(*tp)
    lag = memory.lags.get(group.group_id, _NO_LAG).by_partition.get(tp, UNKNOWN)
    return PartitionLag(
        topic=tp[0],
        partition=tp[1],
        committed=None if committed is None else committed.offset,
        log_start=None if seen is None else seen.log_start,
        log_end=None if seen is None else seen.log_end,
        lag=lag.records,
        lag_seconds=lag.seconds,
        commit_ms=None if committed is None else committed.commit_timestamp_ms,
        member_id=owner,
        metadata="" if committed is None else committed.metadata,
    )


def _coordinator(metadata: ClusterMetadata, number: int) -> int:
    found = metadata.partition(OFFSETS_TOPIC, number)
    return NO_LEADER if found is None else found.leader
