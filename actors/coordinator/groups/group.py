"""A group as all of its types are seen by what they share: offsets, expiry, listing, deletion, sleep.

Everything else about a group is its type's business, in a room of its own. Only a type's own code makes its groups and
changes their members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Protocol

from actors import CoterieError
from actors.coordinator.errors import Error
from actors.coordinator.groups.durable import GroupChange
from actors.coordinator.groups.messages import OffsetCommitRequest
from actors.coordinator.groups.offset_records import OffsetAndMetadata
from actors.coordinator.groups.reports import GroupStatus
from actors.coordinator.timers import Timer, Timers
from actors.coordinator.turn import Now

RetentionBase = Callable[[str, OffsetAndMetadata], int | None]
"""(topic, offset) -> the time from which retention counts, or None for an offset that is in use."""


class IllegalTransitionError(CoterieError):
    """A group was told to enter a state that cannot follow its own. That is a bug; nothing was changed."""


class Group(Protocol):
    """One live group, of whatever type."""

    type_name: ClassVar[str]
    """Kafka's name of the type, in lower case as ListGroups has it."""

    group_id: str
    key_prefixes: dict[str, bytes]
    """The beginnings of the keys of offset records, by topic. offsets.py fills it."""

    # -- to look at

    @property
    def state_name(self) -> str:
        """Kafka's name of its state."""

    @property
    def listed_protocol_type(self) -> str:
        """The protocol type that ListGroups shows; empty if it has none."""

    @property
    def is_empty(self) -> bool:
        """True if it has no members and is in the state that says so. Only such a group may be deleted."""

    @property
    def is_dead(self) -> bool:
        """True if its tombstones are on their way. Then it takes no requests."""

    @property
    def is_vacant(self) -> bool:
        """True if nobody is in it, and nobody has announced to come."""

    @property
    def shown(self) -> Group:
        """Itself as those see it who list or describe groups; another one if it only takes that one's place so far."""

    @property
    def awaited(self) -> tuple[str, ...]:
        """The ids of the members that its running phase waits for."""

    @property
    def phase_ends_ms(self) -> int | None:
        """The time at which that phase ends at the latest (monotonic); None if none is running."""

    def status(self, now: Now) -> GroupStatus:
        """The facts that tell an operator why it makes no progress."""

    # -- its life

    def timers(self) -> Iterable[Timer]:
        """All its timers, which are cancelled when it is dropped."""

    def client_timers(self) -> Iterable[Timer]:
        """Those of its timers that wait for a sign of life."""

    def begin_deletion(self) -> None:
        """Its tombstones are being written. The time from which retention counts stays, for the write may fail."""

    def reborn(self) -> Group:
        """The empty group that takes its place if its tombstones could not be written."""

    def tombstones(self) -> Sequence[GroupChange]:
        """The changes that remove its records, but for those of its offsets."""

    def own_record(self) -> Sequence[GroupChange]:
        """The record of an empty group that so far exists by its offsets alone; none if its type always has one."""

    # -- its offsets

    def check_commit(self, request: OffsetCommitRequest, timers: Timers, now: Now) -> int:
        """The error of a commit; 0 if it is allowed. A member's commit is a sign of life."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> int:
        """The error of a fetch by this member; 0 if it is allowed, as it is to all in most types."""

    def check_offset_delete(self) -> Error:
        """The error by which a request to delete offsets of it is refused now; NONE if some may be deleted."""

    def reads(self, topic: str) -> bool:
        """True if its members subscribe to a topic, or may do so: its offsets are not deleted by a request then."""

    def retention_base(self) -> RetentionBase | None:
        """From when retention counts for its offsets; None if none can expire now."""
