"""One member of a classic group: its statement when it joined, and its open requests."""

from __future__ import annotations

from typing import NamedTuple

from actors.coordinator.classic.messages import JoinGroupRequest, SyncGroupRequest
from actors.coordinator.classic.records import MemberMetadata
from actors.coordinator.timers import Timer, nothing
from actors.coordinator.turn import Now, Token

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata), most wanted first."""


class ParkedJoin(NamedTuple):
    """A JoinGroup that is answered when the join phase ends."""

    token: Token
    request: JoinGroupRequest


class ParkedSync(NamedTuple):
    """A SyncGroup that is answered when the assignment has committed."""

    token: Token
    request: SyncGroupRequest


class Member:
    """A member. Only `ClassicGroup` and `Roster` change it, but for its session timer."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "parked_join",
        "parked_sync",
        "process",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
    )

    def __init__(self, member_id: str, request: JoinGroupRequest) -> None:
        self.member_id = member_id
        self.group_instance_id = request.group_instance_id
        self.client_id = request.client_id
        self.client_host = request.client_host
        self.session_timeout_ms = request.session_timeout_ms
        self.rebalance_timeout_ms = request.effective_rebalance_timeout_ms
        self.protocols: Protocols = request.protocols
        self.process = request.process
        """The text by which it describes its process. It is not in its record: unknown after a load, until it joins
        again.
        """
        self.assignment = b""
        self.parked_join: ParkedJoin | None = None
        self.parked_sync: ParkedSync | None = None
        self.is_new = True
        """True until its first join phase completes."""
        self.session = Timer(nothing)

    @classmethod
    def from_record(cls, record: MemberMetadata, protocol_type: str, protocol_name: str | None) -> Member:
        """The member of a group that is loaded. Its record has only the selected protocol."""
        request = JoinGroupRequest(
            group_id=None,
            member_id=record.member_id,
            protocol_type=protocol_type,
            protocols=((protocol_name or "", record.subscription),),
            session_timeout_ms=record.session_timeout_ms,
            rebalance_timeout_ms=record.rebalance_timeout_ms,
            group_instance_id=record.group_instance_id,
            client_id=record.client_id,
            client_host=record.client_host,
        )
        member = cls(record.member_id, request)
        member.assignment = record.assignment
        member.is_new = False
        return member

    def to_record(self, protocol_name: str | None, assignment: bytes) -> MemberMetadata:
        """The member's part of its group's record."""
        return MemberMetadata(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol_name),
            assignment,
        )

    def silent_ms(self, now: Now) -> int:
        """The time since it was last heard, by its session timer; 0 while that does not run."""
        due_ms = self.session.due_ms
        return 0 if due_ms is None else max(now.monotonic_ms - (due_ms - self.session_timeout_ms), 0)

    def metadata(self, protocol_name: str | None) -> bytes:
        """The metadata it sent for this protocol; b"" if it sent none."""
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")

    def park_sync(self, parked: ParkedSync) -> None:
        """Keep its SyncGroup until the assignment is there. One that was parked before is the caller's to answer."""
        self.parked_sync = parked

    def take_sync(self) -> ParkedSync | None:
        """Its parked SyncGroup, if any, which the caller has to answer."""
        parked, self.parked_sync = self.parked_sync, None
        return parked
