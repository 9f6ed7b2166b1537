"""Classic members that behave as clients do, eager or cooperative, beside any other members. Holds no tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from actors.coordinator.classic.messages import (
    HeartbeatRequest,
    JoinGroupMember,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
)
from actors.coordinator.consumer.topics import Topic
from actors.coordinator.migration.embedded import assignment, read_assignment, read_subscription
from actors.coordinator.records import CorruptRecordError
from actors.coordinator.turn import Request

Has = frozenset[tuple[str, int]]
"""Topics by name, with a partition."""
TOLD_TO_JOIN, GONE = (22, 27), (25, 82)


class Pupil:
    """One member. `step` gives its next request; `learn` takes the answer."""

    def __init__(self, group_id: str, name: str, instance_id: str | None, *, cooperates: bool) -> None:
        self.group_id = group_id
        self.name = name
        self.instance_id = instance_id
        self.cooperates = cooperates
        self.member_id = ""
        self.generation = -1
        self.owned: Has = frozenset()
        """The partitions that it uses."""
        self.used: dict[tuple[str, int], tuple[bytes, int]] = {}
        """The same by the ids of topics: of those that there were when it was told."""
        self._ids: dict[str, bytes] = {}
        self._next: Callable[[Sequence[Topic]], Request] = self._join
        self._shares: tuple[tuple[str, bytes], ...] = ()
        self._members: tuple[JoinGroupMember, ...] = ()

    @property
    def protocol(self) -> str:
        return "cooperative" if self.cooperates else "range"

    def step(self, topics: Sequence[Topic]) -> Request:
        """The request that it sends now."""
        self._ids = {topic.name: topic.topic_id for topic in topics}
        return self._next(topics)

    def uses(self) -> set[tuple[bytes, int]]:
        """The partitions that it uses, by topic id. A topic that was created anew is another one, unknown to it."""
        return {self.used[at] for at in self.owned if at in self.used}

    def leave(self) -> Request:
        """It leaves; it has given up its partitions before."""
        self.owned = frozenset()
        return LeaveGroupRequest(self.group_id, (LeavingMember(self.member_id, self.instance_id),))

    def begin_anew(self) -> None:
        """Its process has ended, and another one begins."""
        self._forget()

    def _forget(self) -> None:
        self.member_id, self.generation, self.owned, self.used = "", -1, frozenset(), {}
        self._next = self._join

    def _join(self, topics: Sequence[Topic]) -> Request:
        if not self.cooperates:
            self.owned = frozenset()
        return JoinGroupRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=((self.protocol, _subscription(("t", "u"), self.owned)),),
            session_timeout_ms=6_000,
            rebalance_timeout_ms=6_000,
            group_instance_id=self.instance_id,
            client_id=self.name,
        )

    def _sync(self, topics: Sequence[Topic]) -> Request:
        shares = _assigned(self._members, topics) if self._members else ()
        return SyncGroupRequest(
            self.group_id, self.generation, self.member_id, self.instance_id, "consumer", self.protocol, shares
        )

    def _beat(self, topics: Sequence[Topic]) -> Request:
        return HeartbeatRequest(self.group_id, self.generation, self.member_id, self.instance_id)

    def learn(self, request: Request, answer: Any) -> None:
        """Follow an answer. None: the connection was lost before it came."""
        if isinstance(request, LeaveGroupRequest):
            self._forget()
        elif answer is None:
            self._next = self._join if isinstance(request, JoinGroupRequest) else self._next
        elif answer.error_code in GONE:
            self._forget()
        elif answer.error_code in TOLD_TO_JOIN:
            if answer.error_code == 22:
                self.owned = frozenset()
            self._next = self._join
        elif isinstance(request, JoinGroupRequest):
            self._joined(answer)
        elif isinstance(request, SyncGroupRequest) and answer.error_code == 0:
            self._synced(answer.assignment)

    def _joined(self, answer: Any) -> None:
        if answer.error_code == 79:
            self.member_id = answer.member_id
        elif answer.error_code == 0:
            self.member_id, self.generation, self._members = answer.member_id, answer.generation_id, answer.members
            self._next = self._sync

    def _synced(self, data: bytes) -> None:
        told = _told(data)
        gives_up = self.owned - told
        self.used = {at: self.used.get(at, (self._ids.get(at[0], b""), at[1])) for at in told}
        self.owned = told
        self._next = self._join if self.cooperates and gives_up else self._beat


def _subscription(names: Iterable[str], owned: Has) -> bytes:
    texts = [len(name).to_bytes(2, "big") + name.encode() for name in names]
    topics = assignment(1, _by_topic(owned))[2:-4]
    return b"\0\1" + len(texts).to_bytes(4, "big") + b"".join(texts) + b"\xff\xff\xff\xff" + topics


def _by_topic(has: Has) -> Mapping[str, frozenset[int]]:
    return {topic: frozenset(number for other, number in has if other == topic) for topic, _ in has}


def _assigned(members: Sequence[JoinGroupMember], topics: Sequence[Topic]) -> tuple[tuple[str, bytes], ...]:
    """Assign partitions in turn; one that another member owns goes to nobody before its owner has given it up."""
    ids = sorted(each.member_id for each in members)
    owners = {at: each.member_id for each in members for at in _owned(each.metadata)}
    shares: dict[str, set[tuple[str, int]]] = {each: set() for each in ids}
    wanted = [(topic.name, each) for topic in topics if topic.name in ("t", "u") for each in range(topic.partitions)]
    for place, at in enumerate(sorted(wanted)):
        member_id = ids[place % len(ids)]
        if owners.get(at, member_id) == member_id:
            shares[member_id].add(at)
    return tuple((each, assignment(1, _by_topic(frozenset(share)))) for each, share in shares.items())


def _told(data: bytes) -> Has:
    """The partitions of an assignment; none if it cannot be read, because its leader is of another kind."""
    try:
        return _pairs(read_assignment(data).partitions)
    except CorruptRecordError:
        return frozenset()


def _owned(metadata: bytes) -> Has:
    try:
        return _pairs(read_subscription(metadata).owned)
    except CorruptRecordError:
        return frozenset()


def _pairs(partitions: Mapping[str, Iterable[int]]) -> Has:
    return frozenset((topic, each) for topic, numbers in partitions.items() for each in numbers)
