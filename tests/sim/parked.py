"""The requests of a group that wait for an answer which somebody will give."""

from __future__ import annotations

from collections.abc import Iterator

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.consumer.executor import OperationBatch
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.groups.group import Group
from actors.coordinator.turn import Token
from actors.coordinator_kinds.groups.service import Client


def is_of_a_client(token: Token) -> bool:
    """True if a request came from a client, and not from the shard's own process."""
    return isinstance(getattr(token, "client", None), Client)


def parked_in(group: Group) -> Iterator[Token]:
    """The tokens of the requests that a group will answer, when it has got to them."""
    if isinstance(group, ClassicGroup):
        yield from _of_classic(group)
    elif isinstance(group, ConsumerGroup):
        operations = list(group.waiting)
        batch = getattr(group.slice.action, "__self__", None)
        if group.slice.due_ms is not None and isinstance(batch, OperationBatch):
            operations += batch.operations
        yield from (each.token for each in operations if each.token is not None)
        if group.replaced is not None:
            yield from parked_in(group.replaced.group)


def _of_classic(group: ClassicGroup) -> Iterator[Token]:
    yield from (parked.token for parked in group.replacement.waiting)
    for member in group.members.values():
        yield from (parked.token for parked in (member.parked_join, member.parked_sync) if parked)
