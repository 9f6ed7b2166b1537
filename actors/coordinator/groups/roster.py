"""The places in a group: its members by id, and static members by their instance ids (KIP-345)."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from actors.coordinator.errors import Error


class Placed(Protocol):
    """A member, of whatever type of group."""

    member_id: str
    group_instance_id: str | None


M = TypeVar("M", bound=Placed)


class Places(Generic[M]):
    """Each member has one place. A static member's stays when it comes back under another id."""

    __slots__ = ("by_id", "by_instance")

    def __init__(self) -> None:
        self.by_id: dict[str, M] = {}
        self.by_instance: dict[str, str] = {}
        """The member ids of static members, by their instance ids."""

    def identify(self, member_id: str, group_instance_id: str | None) -> M | Error:
        """The member that sent a request, or the error for it. An instance id is checked before the member id."""
        if group_instance_id is not None:
            owner = self.by_instance.get(group_instance_id)
            if owner is None:
                return Error.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return Error.FENCED_INSTANCE_ID
        return self.by_id.get(member_id) or Error.UNKNOWN_MEMBER_ID

    def put(self, member: M) -> None:
        """Give a member a place, after those of all others."""
        self.by_id[member.member_id] = member
        if member.group_instance_id is not None:
            self.by_instance[member.group_instance_id] = member.member_id

    def take(self, member: M) -> None:
        """Take a member's place away."""
        del self.by_id[member.member_id]
        if member.group_instance_id is not None:
            self.by_instance.pop(member.group_instance_id, None)
