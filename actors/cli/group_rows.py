"""Consumer groups as rows of tables, with the columns of kafka-consumer-groups. Pure; calls.py asks the brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from actors.cli import figures
from actors.links.views import CLASSIC, REBALANCING

if TYPE_CHECKING:
    from actors.cli.groups_status import Known
    from actors.client.admin.offset_plans import Log
    from actors.client.admin.types import GroupDescription, MemberDescription
    from actors.client.records import OffsetAndMetadata, TopicPartition

Rows = list[dict[str, Any]]

OFFSET_COLUMNS: Final = (
    *("group", "topic", "partition", "current_offset", "log_end_offset", "lag"),
    *("consumer_id", "host", "client_id"),
)
VERBOSE_OFFSET_COLUMNS: Final = (*OFFSET_COLUMNS[:3], "leader_epoch", *OFFSET_COLUMNS[3:], "metadata")
MEMBER_COLUMNS: Final = ("group", "consumer_id", "host", "client_id", "#partitions")
STATE_COLUMNS: Final = ("group", "coordinator", "assignment_strategy", "state", "#members")
TARGET_COLUMNS: Final = ("target_epoch", "target", "to_give_back")
STATUS_COLUMNS: Final = ("lag", "lag_seconds", "waits_for", "ends_in_ms")
REBALANCE_COLUMNS: Final = ("group", "rebalance", "ended_generation", "member", "reason")
FOREIGN_COLUMNS: Final = ("group", "protocol_type", "state", "consumer_id", "host", "client_id")


def offset_rows(
    group: GroupDescription, committed: Mapping[TopicPartition, OffsetAndMetadata], logs: Mapping[TopicPartition, Log]
) -> Rows:
    """A row for each partition: first those that members hold, then those that only have a committed offset.

    While a group rebalances, or where there is no other row, members that hold nothing have a row, too. The members
    of a foreign group are in `foreign_rows`.
    """
    held = [(partition, member) for member in group.members for partition in member.assignment]
    held.sort(key=lambda pair: pair[0])
    owned = {partition for partition, _ in held}
    free = sorted(partition for partition in committed if partition not in owned)
    pairs: Sequence[tuple[TopicPartition, MemberDescription | None]] = [
        *held,
        *((partition, None) for partition in free),
    ]
    rows = [_offset_row(group, partition, member, committed.get(partition), logs) for partition, member in pairs]
    if is_foreign(group) or (rows and group.state not in REBALANCING):
        return rows
    return rows + [_offset_row(group, None, member, None, logs) for member in group.members if not member.assignment]


def is_foreign(group: GroupDescription) -> bool:
    """True if we cannot read what its members have: they are workers of Connect, or the group is of another type."""
    return group.protocol_type not in ("", "consumer") or not group.tells_members


def foreign_columns(group: GroupDescription) -> tuple[str, ...]:
    """The columns of `foreign_rows`. Of members that are not described nothing is shown."""
    return FOREIGN_COLUMNS if group.tells_members else ("group", "type", *FOREIGN_COLUMNS[1:3])


def foreign_rows(group: GroupDescription) -> Rows:
    """The rows of a foreign group: one for each member, or one of the group if it has none."""
    return [
        {
            "group": group.group_id,
            "type": group.type,
            "protocol_type": group.protocol_type,
            "state": group.state,
            "consumer_id": member.member_id if member else None,
            "host": member.client_host if member else None,
            "client_id": member.client_id if member else None,
        }
        for member in group.members or (None,)
    ]


def member_rows(group: GroupDescription) -> Rows:
    """A row for each member of a group: who it is, and how many partitions it holds."""
    return [
        {
            "group": group.group_id,
            "type": group.type,
            "protocol_type": group.protocol_type,
            "consumer_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "host": member.client_host,
            "client_id": member.client_id,
            "#partitions": None if is_foreign(group) else len(member.assignment),
            "assignment": _assignment(member.assignment),
            **_towards(group, member),
        }
        for member in group.members
    ]


def _towards(group: GroupDescription, member: MemberDescription) -> dict[str, Any]:
    """More of a member of a consumer group: its target, and the partitions it has to give up for it."""
    if member.target is None:
        return {}
    return {
        "epoch": member.epoch,
        "target_epoch": group.assignment_epoch,
        "target": _assignment(member.target),
        "to_give_back": _assignment(member.to_give_back),
        "upgraded": not member.is_classic,
    }


def member_columns(groups: Sequence[GroupDescription], *, verbose: bool) -> tuple[str, ...]:
    """The columns of `member_rows`. As Kafka does, instance ids are shown only where a member has one.

    In the same way the type of a group is shown only where there are groups of different types, targets only of
    consumer groups, and who speaks their protocol only where some members do not.
    """
    members = [member for group in groups for member in group.members]
    static = any(member.group_instance_id for member in members)
    columns = ["consumer_id", *(["group_instance_id"] if static else []), *MEMBER_COLUMNS[2:]]
    if verbose:
        targets = [member for member in members if member.target is not None]
        columns += ["epoch", "assignment", *TARGET_COLUMNS] if targets else ["assignment"]
        columns += ["upgraded"] if any(member.is_classic for member in targets) else []
    return ("group", *_type_columns(groups), *columns)


def state_columns(groups: Sequence[GroupDescription]) -> tuple[str, ...]:
    """The columns of `state_row`: Kafka's, and what the groups are where they differ, or are not of consumers."""
    return (*STATE_COLUMNS[:1], *_type_columns(groups), *STATE_COLUMNS[1:])


def _type_columns(groups: Sequence[GroupDescription]) -> tuple[str, ...]:
    differ = len({group.type for group in groups}) > 1 or not all(group.tells_members for group in groups)
    return (*(["type"] if differ else []), *(["protocol_type"] if any(map(is_foreign, groups)) else []))


def status_columns(groups: Sequence[GroupDescription]) -> tuple[str, ...]:
    """The columns that --verbose adds to those of `state_row`. Classic groups have generations, others epochs."""
    classic = [group.type == CLASSIC for group in groups]
    targets = ["target_epoch"] if any(group.assignment_epoch is not None for group in groups) else []
    numbers = (*(["generation"] if any(classic) else []), *([] if all(classic) else ["epoch"]), *targets)
    return (*STATUS_COLUMNS[:2], *numbers, *STATUS_COLUMNS[2:])


def state_row(group: GroupDescription) -> dict[str, Any]:
    """The row of --state: a group's coordinator, assignor, state and number of members."""
    return {
        "group": group.group_id,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "coordinator": f"{group.coordinator.host}:{group.coordinator.port} ({group.coordinator.id})",
        "assignment_strategy": group.protocol or None,
        "state": group.state,
        "#members": len(group.members) if group.tells_members else None,
        **({} if group.epoch is None else {"epoch": group.epoch, "target_epoch": group.assignment_epoch}),
    }


def verbose_state_row(group: GroupDescription, known: Known | None) -> dict[str, Any]:
    """The row of --state --verbose: also whom the group waits for, its lag, and its last rebalances, if known."""
    row = state_row(group)
    if known is None:
        return row
    seen = known.seen.row if known.seen else None
    row |= {"lag": seen.lag if seen else None, "lag_seconds": seen.lag_seconds if seen else None}
    if known.status is None:
        return row
    if not group.tells_members:
        row |= {"#members": known.status.members}
    if group.epoch is None:  # else the description's, which is of the moment of the rest
        row |= {known.status.epoch_name: known.status.epoch}
    return row | {
        "waits_for": list(known.status.awaited_members),
        "ends_in_ms": known.status.phase_ends_in_ms,
        "rebalances": [
            {
                "group": group.group_id,
                "rebalance": figures.moment(each.wall_ms),
                "ended_generation": each.epoch,
                "member": each.member_id,
                "reason": each.reason,
            }
            for each in known.status.rebalances
        ],
    }


def remarks(group: GroupDescription) -> Iterator[str]:
    """The sentences that kafka-consumer-groups prints about a group beside its table."""
    name = f"{'Group' if is_foreign(group) else 'Consumer group'} '{group.group_id}'"
    if group.state == "Empty":
        yield f"{name} has no active members."
    elif group.state in REBALANCING:
        yield f"Warning: {name} is rebalancing."
    if group.is_hidden:
        yield f"{name} has topics that you may not describe: its members and what they have are not shown."
    elif not group.tells_members:
        yield f"{name} is of type {group.type}: its members and what they have cannot be described."


def _offset_row(
    group: GroupDescription,
    partition: TopicPartition | None,
    member: MemberDescription | None,
    committed: OffsetAndMetadata | None,
    logs: Mapping[TopicPartition, Log],
) -> dict[str, Any]:
    found = logs.get(partition) if partition else None
    return {
        "group": group.group_id,
        "topic": partition[0] if partition else None,
        "partition": partition[1] if partition else None,
        "leader_epoch": committed.leader_epoch if committed and committed.leader_epoch >= 0 else None,
        "current_offset": committed.offset if committed else None,
        "log_end_offset": found.latest if found else None,
        "lag": found.lag(committed.offset) if committed and found else None,
        "consumer_id": member.member_id if member else None,
        "host": member.client_host if member else None,
        "client_id": member.client_id if member else None,
        "metadata": committed.metadata or None if committed else None,
    }


def _assignment(partitions: Sequence[TopicPartition]) -> str:
    """The partitions of a member as text: `a(0,1), b(3)`."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    return ", ".join(f"{topic}({','.join(map(str, numbers))})" for topic, numbers in by_topic.items())
