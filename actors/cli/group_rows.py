"""Consumer groups as tables: the columns of Kafka's kafka-consumer-groups. Pure; what is shown is asked elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Partition = tuple[str, int]
Rows = list[dict[str, Any]]

OFFSET_COLUMNS: Final = (
    *("group", "topic", "partition", "current_offset", "log_end_offset", "lag"),
    *("consumer_id", "host", "client_id"),
)
VERBOSE_OFFSET_COLUMNS: Final = (*OFFSET_COLUMNS[:3], "leader_epoch", *OFFSET_COLUMNS[3:], "metadata")
MEMBER_COLUMNS: Final = ("group", "consumer_id", "host", "client_id", "#partitions")
STATE_COLUMNS: Final = ("group", "coordinator", "assignment_strategy", "state", "#members")
ACTIVE_STATES: Final = ("Stable", "PreparingRebalance", "CompletingRebalance")


@dataclass(frozen=True, slots=True)
class Member:
    """A member as the coordinator describes it; `partitions` is what it was last assigned."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[Partition, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """A group as its coordinator describes it. `state` is Kafka's word: Empty, Stable, Dead, ..."""

    name: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[Member, ...] = ()
    coordinator: str | None = None

    @property
    def active(self) -> bool:
        return self.state in ACTIVE_STATES


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset with what was noted beside it."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def offset_rows(group: Group, committed: Mapping[Partition, Committed], ends: Mapping[Partition, int]) -> Rows:
    """One row a partition: those that members hold first, then what is committed and held by nobody."""
    held = [(partition, member) for member in group.members for partition in member.partitions]
    held.sort(key=lambda pair: pair[0])
    owned = {partition for partition, _ in held}
    free = sorted(partition for partition in committed if partition not in owned)
    pairs: Sequence[tuple[Partition, Member | None]] = [*held, *((partition, None) for partition in free)]
    return [_offset_row(group, partition, member, committed.get(partition), ends) for partition, member in pairs]


def member_rows(group: Group) -> Rows:
    """One row a member."""
    return [
        {
            "group": group.name,
            "consumer_id": member.member_id,
            "group_instance_id": member.instance_id,
            "host": member.host,
            "client_id": member.client_id,
            "#partitions": len(member.partitions),
            "assignment": _assignment(member.partitions),
        }
        for member in group.members
    ]


def member_columns(groups: Sequence[Group], *, verbose: bool) -> tuple[str, ...]:
    """Kafka shows instance ids only where there are some."""
    static = any(member.instance_id for group in groups for member in group.members)
    columns = [*MEMBER_COLUMNS[:2], *(["group_instance_id"] if static else []), *MEMBER_COLUMNS[2:]]
    return (*columns, *(["assignment"] if verbose else []))


def state_row(group: Group) -> dict[str, Any]:
    """The row of a group's own state."""
    return {
        "group": group.name,
        "coordinator": group.coordinator,
        "assignment_strategy": group.assignor or None,
        "state": group.state,
        "#members": len(group.members),
    }


def remarks(group: Group) -> Iterator[str]:
    """What Kafka's tool says about a group beside its table."""
    if group.state == "Empty":
        yield f"Consumer group '{group.name}' has no active members."
    elif group.state in ("PreparingRebalance", "CompletingRebalance"):
        yield f"Consumer group '{group.name}' is rebalancing."


def _offset_row(
    group: Group,
    partition: Partition,
    member: Member | None,
    committed: Committed | None,
    ends: Mapping[Partition, int],
) -> dict[str, Any]:
    end = ends.get(partition)
    return {
        "group": group.name,
        "topic": partition[0],
        "partition": partition[1],
        "leader_epoch": committed.leader_epoch if committed and committed.leader_epoch >= 0 else None,
        "current_offset": committed.offset if committed else None,
        "log_end_offset": end,
        "lag": end - committed.offset if committed and end is not None else None,
        "consumer_id": member.member_id if member else None,
        "host": member.host if member else None,
        "client_id": member.client_id if member else None,
        "metadata": committed.metadata or None if committed else None,
    }


def _assignment(partitions: Sequence[Partition]) -> str:
    """ "a(0,1), b(3)" for the partitions of a member."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    return ", ".join(f"{topic}({','.join(map(str, numbers))})" for topic, numbers in by_topic.items())
