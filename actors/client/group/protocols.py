"""The group protocols that a consumer can speak, by their names in the setting `group_protocol`.

A protocol is a room, as `classic` and `consumer_protocol` are, and a row here. See `member` for what it has to be. One
that speaks either is `auto`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from actors.client.group.auto import auto_member
from actors.client.group.classic.membership import classic_member
from actors.client.group.consumer_protocol.membership import consumer_member
from actors.client.group.member import MakeMember, Member
from actors.client.settings import ConsumerConfig

PROTOCOLS: Final[Mapping[str, MakeMember]] = MappingProxyType(
    {"classic": classic_member, "consumer": consumer_member, "auto": auto_member}
)


def make_member(
    config: ConsumerConfig,
    pid: int,
    jitter: Callable[[], float],
    new_member_id: Callable[[], str],
    protocols: Mapping[str, MakeMember] = PROTOCOLS,
) -> Member:
    """The member that a consumer's settings ask for. Raises as the protocol's own maker does."""
    return protocols[config.group_protocol](config, pid, jitter, new_member_id)
