"""Tells what the members of a group are, as their client ids tell that pools and Spark jobs give them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Protocol

POOL: Final = "pool"
SPARK: Final = "spark"
CONSUMER: Final = "consumer"
SIMPLE: Final = "simple"
_POOL_CLIENT: Final = re.compile(r"coterie-\d+")
_SPARK_NAME: Final = 200  # characters of the group's name in the client ids of a Spark job
_SPARK_REST: Final = re.compile(r"-[0-9a-f]{8}-\d+")


class Named(Protocol):
    """A member, as far as it has names."""

    @property
    def client_id(self) -> str: ...

    @property
    def group_instance_id(self) -> str | None: ...


def kind_of_members(group_id: str, members: Iterable[Named]) -> str:
    """POOL or SPARK if all of them are such, else CONSUMER."""
    present = tuple(members)
    if present and all(_is_of_pool(each) for each in present):
        return POOL
    if present and all(_is_of_spark(each, group_id[:_SPARK_NAME]) for each in present):
        return SPARK
    return CONSUMER


def _is_of_spark(member: Named, name: str) -> bool:
    return member.client_id.startswith(name) and bool(_SPARK_REST.fullmatch(member.client_id, len(name)))


def _is_of_pool(member: Named) -> bool:
    return bool(member.group_instance_id and _POOL_CLIENT.fullmatch(member.client_id))
