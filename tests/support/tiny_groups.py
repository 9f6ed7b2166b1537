"""A second, tiny type of group: members enter, give signs of life, and leave. Nobody is assigned anything.

It shows that a type of group is a room: all of it is here, and `TYPES` is the one table that names it. Holds no tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

from actors.coordinator.errors import Error
from actors.coordinator.group_types import GROUP_TYPES
from actors.coordinator.groups.durable import GroupRecords
from actors.coordinator.groups.group import RetentionBase
from actors.coordinator.groups.history import PlainRebalance, RebalancedGroup
from actors.coordinator.groups.messages import OffsetCommitRequest
from actors.coordinator.groups.reports import PlainStatus
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.groups.types import Requests
from actors.coordinator.record_fields import I32, FieldReader, string
from actors.coordinator.records import CorruptRecordError, Record, RecordType
from actors.coordinator.timers import Timer, Timers
from actors.coordinator.turn import Now, Token
from actors.coordinator.writer import Write

SESSION_MS = 6_000
AGAIN_MS = 1_000
TINY = "tiny"

# -- requests


@dataclass(frozen=True)
class Answer:
    error_code: int
    epoch: int = -1
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Request:
    group_id: str
    member_id: str = ""

    def refused(self, error: int) -> Answer:
        return Answer(error)


class Enter(_Request):
    """Become a member. Answered when that is durable."""


class Beat(_Request):
    """Show that a member lives."""


class Leave(_Request):
    """Be a member no longer. Answered when that is durable."""


class DescribeTiny(_Request):
    """Say who is in a group."""


# -- records and durable state


class TinyMember(NamedTuple):
    """A member, of which no more is known than its id."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    process: str = ""


@dataclass(frozen=True)
class TinyState:
    """A group as its records keep it: one for its epoch, and one for each member."""

    group_type: ClassVar[str] = TINY
    protocol_type: ClassVar[str] = TINY
    epoch: int = 0
    member_ids: frozenset[str] = frozenset()

    @property
    def persisted_state(self) -> str:
        return "Open" if self.member_ids else "Empty"

    @property
    def members(self) -> tuple[TinyMember, ...]:
        return tuple(map(TinyMember, sorted(self.member_ids)))


def _state(group: GroupRecords) -> TinyState:
    found = group.persisted
    return found if isinstance(found, TinyState) else TinyState()


class EpochPut(NamedTuple):
    group_id: str
    epoch: int

    @property
    def entity(self) -> str:
        return self.group_id

    def records(self) -> list[Record]:
        return [Record(_epoch_key(self.group_id), I32.pack(self.epoch))]

    def apply(self, group: GroupRecords) -> None:
        group.persisted = replace(_state(group), epoch=self.epoch)


class MemberPut(NamedTuple):
    group_id: str
    member_id: str

    @property
    def entity(self) -> str:
        return self.group_id

    def records(self) -> list[Record]:
        return [Record(_member_key(self.group_id, self.member_id), b"\1")]

    def apply(self, group: GroupRecords) -> None:
        found = _state(group)
        group.persisted = replace(found, member_ids=found.member_ids | {self.member_id})


class MemberGone(NamedTuple):
    group_id: str
    member_id: str

    @property
    def entity(self) -> str:
        return self.group_id

    def records(self) -> list[Record]:
        return [Record(_member_key(self.group_id, self.member_id), None)]

    def apply(self, group: GroupRecords) -> None:
        if isinstance(group.persisted, TinyState):
            group.persisted = replace(group.persisted, member_ids=group.persisted.member_ids - {self.member_id})


class TinyDeleted(NamedTuple):
    group_id: str

    @property
    def entity(self) -> str:
        return self.group_id

    def records(self) -> list[Record]:
        return [Record(_epoch_key(self.group_id), None)]

    def apply(self, group: GroupRecords) -> None:
        group.end()


def _epoch_key(group_id: str) -> bytes:
    return (101).to_bytes(2, "big") + string(group_id)


def _member_key(group_id: str, member_id: str) -> bytes:
    return (102).to_bytes(2, "big") + string(group_id) + string(member_id)


def _decode_epoch(key: bytes, value: bytes | None) -> EpochPut | TinyDeleted:
    group_id = FieldReader(key, 2).string(False)
    return TinyDeleted(group_id) if value is None else EpochPut(group_id, FieldReader(value).i32())


def _decode_member(key: bytes, value: bytes | None) -> MemberPut | MemberGone:
    reader = FieldReader(key, 2)
    group_id, member_id = reader.string(False), reader.string(False)
    if value not in (None, b"\1"):
        raise CorruptRecordError(f"member {member_id} has the value {value!r}")
    return MemberGone(group_id, member_id) if value is None else MemberPut(group_id, member_id)


# -- live state


class TinyGroup:
    type_name: ClassVar[str] = TINY

    def __init__(self, group_id: str, epoch: int = 0) -> None:
        self.group_id = group_id
        self.epoch = epoch
        self.members: dict[str, Timer] = {}
        self.entering = 0
        self.is_dead = False
        self.key_prefixes: dict[str, bytes] = {}

    @property
    def state_name(self) -> str:
        return "Dead" if self.is_dead else "Empty" if self.is_vacant else "Open"

    @property
    def listed_protocol_type(self) -> str:
        return "tiny"

    @property
    def is_empty(self) -> bool:
        return self.is_vacant and not self.is_dead

    @property
    def shown(self) -> TinyGroup:
        return self

    @property
    def is_vacant(self) -> bool:
        return not self.members and not self.entering

    @property
    def awaited(self) -> tuple[str, ...]:
        return ()

    @property
    def phase_ends_ms(self) -> int | None:
        return None

    def status(self, now: Now) -> PlainStatus:
        return PlainStatus(TINY, self.state_name, self.epoch, len(self.members))

    def timers(self) -> Iterator[Timer]:
        yield from self.members.values()

    def client_timers(self) -> Iterator[Timer]:
        yield from self.members.values()

    def begin_deletion(self) -> None:
        self.is_dead = True

    def reborn(self) -> TinyGroup:
        return TinyGroup(self.group_id, self.epoch)

    def tombstones(self) -> list[TinyDeleted]:
        return [TinyDeleted(self.group_id)]

    def own_record(self) -> list[EpochPut]:
        return []

    def check_commit(self, request: OffsetCommitRequest, timers: Timers, now: Now) -> int:
        if self.is_dead:
            return Error.COORDINATOR_NOT_AVAILABLE
        if request.generation_id < 0 and self.is_empty:
            return 0
        session = self.members.get(request.member_id)
        if session is None:
            return Error.UNKNOWN_MEMBER_ID
        timers.arm(session, now.monotonic_ms + SESSION_MS)
        return 0

    def check_fetch(self, member_id: str | None, member_epoch: int) -> int:
        return 0

    def check_offset_delete(self) -> Error:
        return Error.NONE

    def reads(self, topic: str) -> bool:
        return bool(self.members)

    def retention_base(self) -> RetentionBase | None:
        return (lambda _, value: value.commit_timestamp_ms) if self.is_empty else None


# -- operations


class TinyOperations:
    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime
        self.requests = Requests(
            {Enter: self.enter, Beat: self.beat, Leave: self.leave, DescribeTiny: self.describe},
            while_loading={Beat: lambda _: Answer(0)},
            parked={"enter": Enter},
        )

    def resume(self, group_id: str, persisted: TinyState, now: Now) -> None:
        group = self._runtime.groups[group_id] = TinyGroup(group_id, persisted.epoch)
        for member_id in sorted(persisted.member_ids):
            self._admit(group, member_id, now)

    def forget(self) -> None:
        """There is nothing beside the groups."""

    def _admit(self, group: TinyGroup, member_id: str, now: Now) -> None:
        session = group.members.setdefault(member_id, Timer(partial(self._expel, group, member_id)))
        self._runtime.timers.arm(session, now.monotonic_ms + SESSION_MS)

    def _find(self, request: _Request) -> TinyGroup | Error | None:
        found = self._runtime.find(TinyGroup, request.group_id, Error.INCONSISTENT_GROUP_PROTOCOL)
        return Error.COORDINATOR_NOT_AVAILABLE if isinstance(found, TinyGroup) and found.is_dead else found

    def enter(self, token: Token, request: Enter, now: Now) -> None:
        self._runtime.park(token, request)
        group = self._find(request)
        if isinstance(group, Error):
            self._runtime.answer(token, Answer(group))
            return
        if group is None:
            group = self._runtime.groups[request.group_id] = TinyGroup(request.group_id)
        group.entering += 1
        group.epoch += 1
        changes = [EpochPut(group.group_id, group.epoch), MemberPut(group.group_id, request.member_id)]
        self._runtime.write(EnterWrite(self, token, group, request.member_id, changes), now)

    def entered(self, group: TinyGroup, member_id: str, now: Now) -> None:
        self._admit(group, member_id, now)
        self._runtime.rebalances.came(group.group_id, TinyMember(member_id))
        self._tell(group, "member entered", member_id, now)

    def gone(self, group: TinyGroup, member_id: str, now: Now, *, expelled: bool) -> None:
        session = group.members.pop(member_id, None)
        if session is not None:
            session.cancel()
            self._runtime.rebalances.went(group.group_id, TinyMember(member_id), expelled=expelled)
            self._tell(group, "member expelled" if expelled else "member left", member_id, now)

    def _tell(self, group: TinyGroup, reason: str, member_id: str, now: Now) -> None:
        about = RebalancedGroup(TINY, group.group_id, group.epoch, "Open")
        made = PlainRebalance(about, reason, member_id, TinyMember(member_id), now)
        made.members = len(group.members)
        self._runtime.rebalances.begin(made)
        self._runtime.rebalances.complete(group.group_id, now)

    def beat(self, token: Token, request: Beat, now: Now) -> None:
        group = self._find(request)
        session = group.members.get(request.member_id) if isinstance(group, TinyGroup) else None
        if session is not None:
            self._runtime.timers.arm(session, now.monotonic_ms + SESSION_MS)
        error = group if isinstance(group, Error) else Error.NONE if session else Error.UNKNOWN_MEMBER_ID
        self._runtime.replies.append((token, Answer(error)))

    def leave(self, token: Token, request: Leave, now: Now) -> None:
        self._runtime.park(token, request)
        group = self._find(request)
        if isinstance(group, TinyGroup) and request.member_id in group.members:
            gone = MemberGone(group.group_id, request.member_id)
            self._runtime.write(GoneWrite(self, token, group, gone), now)
        else:
            self._runtime.answer(token, Answer(group if isinstance(group, Error) else Error.UNKNOWN_MEMBER_ID))

    def _expel(self, group: TinyGroup, member_id: str, now: Now) -> None:
        self._runtime.write(GoneWrite(self, None, group, MemberGone(group.group_id, member_id)), now)

    def try_again(self, group: TinyGroup, member_id: str, now: Now) -> None:
        if member_id in group.members and group.members[member_id].due_ms is None:
            self._runtime.timers.arm(group.members[member_id], now.monotonic_ms + AGAIN_MS)

    def describe(self, token: Token, request: DescribeTiny, now: Now) -> None:
        group = self._find(request)
        if isinstance(group, TinyGroup):
            answer = Answer(Error.NONE, group.epoch, tuple(group.members))
        else:
            answer = Answer(group or Error.GROUP_ID_NOT_FOUND)
        self._runtime.replies.append((token, answer))

    def answer(self, token: Token, error: int, epoch: int = -1) -> None:
        self._runtime.answer(token, Answer(error, epoch))

    def reap(self, group: TinyGroup) -> None:
        self._runtime.reap(group.group_id)


class EnterWrite(Write):
    def __init__(
        self, operations: TinyOperations, token: Token, group: TinyGroup, member_id: str, changes: list[Any]
    ) -> None:
        super().__init__(changes)
        self._operations, self._token, self._group, self._member_id = operations, token, group, member_id

    def committed(self, now: Now) -> None:
        self._group.entering -= 1
        self._operations.entered(self._group, self._member_id, now)
        self._operations.answer(self._token, Error.NONE, self.changes[0].epoch)

    def failed(self, error: int, now: Now) -> None:
        self._group.entering -= 1
        self._operations.answer(self._token, error)
        self._operations.reap(self._group)

    def timed_out(self, now: Now) -> None:
        self._operations.answer(self._token, Error.COORDINATOR_NOT_AVAILABLE)


class GoneWrite(Write):
    def __init__(self, operations: TinyOperations, token: Token | None, group: TinyGroup, gone: MemberGone) -> None:
        super().__init__([gone])
        self._operations, self._token, self._group, self._member_id = operations, token, group, gone.member_id

    def committed(self, now: Now) -> None:
        self._operations.gone(self._group, self._member_id, now, expelled=self._token is None)
        self._operations.answer(self._token, Error.NONE)

    def failed(self, error: int, now: Now) -> None:
        self._operations.answer(self._token, error)
        self._operations.try_again(self._group, self._member_id, now)

    def timed_out(self, now: Now) -> None:
        self._operations.answer(self._token, Error.COORDINATOR_NOT_AVAILABLE)


class Tiny:
    name = TINY
    record_types = (
        RecordType(101, _decode_epoch, tombstones_ordered=True),
        RecordType(102, _decode_member),
    )

    def operations(self, runtime: GroupRuntime) -> TinyOperations:
        return TinyOperations(runtime)


TYPES = (*GROUP_TYPES, Tiny())
