"""Classic members beside those of the consumer protocol, in the notation of `consumer_groups`. Holds no tests.

`C1 beat g5`, `C1 join own=0-2`, `C1 sync g6`, `C1 lead g6 0-2` (a SyncGroup of the leader, that assigns it this),
`C1 leave` and `C1 commit g6 0,4` are requests of a classic member. Their answers are an error's code or 0, the
generation (`g6`), and the partitions that were assigned. Further words of a join: `as=` an instance id, `names=`, `by=`
protocols, `v=` a version of JoinGroup, `rack=`, `type=`, `embedded=` a version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
)
from actors.coordinator.classic.records import GroupMetadata, GroupPut, MemberMetadata
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.topics import Topic, Topics
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.migration.embedded import assignment, by_id, by_name, read_assignment
from actors.coordinator.records import Record, encode
from tests.support.consumer_groups import FOO, GROUP, NAMES, READ, ConsumerDriver, parts, shown, shown_record
from tests.support.coordination import NO_DELAY, START_WALL_MS

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscribed(
    names: Iterable[str] = ("foo",), own: str = "[]", *, version: int = 3, rack: str | None = None, data: bytes = b""
) -> bytes:
    """A subscription; `own` in the notation of partitions."""
    texts = [_string(name) for name in names]
    out = version.to_bytes(2, "big") + len(texts).to_bytes(4, "big") + b"".join(texts)
    out += len(data).to_bytes(4, "big") + data if data else b"\xff\xff\xff\xff"
    owned = [
        _string(NAMES[topic_id]) + len(each).to_bytes(4, "big") + b"".join(n.to_bytes(4, "big") for n in sorted(each))
        for topic_id, each in parts(own).items()
    ]
    out += len(owned).to_bytes(4, "big") + b"".join(owned) if version >= 1 else b""
    out += (-1).to_bytes(4, "big", signed=True) if version >= 2 else b""
    return out + (b"" if version < 3 else b"\xff\xff" if rack is None else _string(rack))


def _string(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def assigned(text: str, version: int = 3) -> bytes:
    """The bytes of an assignment."""
    return assignment(version, {NAMES[topic_id]: each for topic_id, each in parts(text).items()})


class Classic:
    """A member of a classic group, as its record has it."""

    def __init__(self, member_id: str, share: str | bytes, **fields: Any) -> None:
        self.member_id = member_id
        self.share = assigned(share) if isinstance(share, str) else share
        self.fields = fields

    def record(self) -> MemberMetadata:
        fields = {
            "group_instance_id": None,
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "rebalance_timeout_ms": REBALANCE_MS,
            "session_timeout_ms": SESSION_MS,
            "subscription": subscribed(version=1),
        }
        return MemberMetadata(member_id=self.member_id, assignment=self.share, **{**fields, **self.fields})


def classic_group(*members: Classic, generation: int = 5, **fields: Any) -> list[Record]:
    """The log of a classic group that is Stable. The first member leads."""
    values = {"protocol_type": "consumer", "protocol_name": "range", "leader_id": members[0].member_id}
    metadata = GroupMetadata(
        generation_id=generation,
        state_timestamp_ms=START_WALL_MS,
        members=tuple(each.record() for each in members),
        **{**values, **fields},
    )
    return encode([GroupPut(GROUP, metadata)])


class MixedDriver(ConsumerDriver):
    """A driver whose group was a classic one, if `members` are given."""

    def __init__(
        self,
        *members: Classic,
        topics: Sequence[Topic] = (FOO,),
        policy: str = "bidirectional",
        settings: ConsumerSettings | None = None,
        config: CoordinatorConfig = NO_DELAY,
        **fields: Any,
    ) -> None:
        log = classic_group(*members, **fields) if members else []
        settings = settings or ConsumerSettings(migration_policy=policy)
        super().__init__(*topics, log=log, settings=settings, config=config)

    # -- classic requests

    def classic(self, text: str, group_id: str = GROUP) -> str:
        """The answer to a classic member, in short. `...` if it has to wait."""
        answer = self.answer(self.ask_classic(text, group_id))
        return "..." if answer is None else self.shown_classic(answer)

    def ask_classic(self, text: str, group_id: str = GROUP) -> int:
        """The token of a classic member's request."""
        member_id, verb, *words = text.split()
        member_id = "" if member_id == "''" else member_id
        given = dict(word.partition("=")[::2] for word in words)
        generation = next((int(word[1:]) for word in words if word[0] == "g" and word[1:].lstrip("-").isdigit()), -1)
        instance_id = given.get("as")
        if verb == "beat":
            return self.ask(HeartbeatRequest(group_id, generation, member_id, instance_id))
        if verb == "sync":
            version = int(given.get("v", 5))
            name = given.get("by", "range") if version >= 5 else None
            kind = given.get("type", "consumer") if version >= 5 else None
            return self.ask(SyncGroupRequest(group_id, generation, member_id, instance_id, kind, name, (), version))
        if verb == "leave":
            return self.ask(LeaveGroupRequest(group_id, (LeavingMember(member_id, instance_id),)))
        if verb == "lead":
            shares = ((member_id, assigned(words[-1])),)
            return self.ask(SyncGroupRequest(group_id, generation, member_id, instance_id, "consumer", "range", shares))
        assert verb == "join", text
        return self.ask(join_request(member_id, given, group_id))

    def shown_classic(self, answer: Any) -> str:
        """An answer in short."""
        members = getattr(answer, "members", ())
        if members and hasattr(members[0], "error_code"):
            return str(int(members[0].error_code))
        if answer.error_code:
            return str(int(answer.error_code))
        if hasattr(answer, "generation_id"):
            return f"g{answer.generation_id}"
        if hasattr(answer, "assignment"):
            image = Topics(self.topics)
            return shown(by_id(read_assignment(answer.assignment).partitions, image))
        return "0"

    def written(self, since: int) -> list[str]:
        return [shown_of_either(record, self.topics) for record in self.log[since:]]

    def classic_group(self) -> ClassicGroup:
        """The live group, which is a classic one."""
        group = self.shard.coordinator.runtime.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    def type_of(self, group_id: str = GROUP) -> str:
        """Type and state as they are listed: `classic Stable`."""
        found = [each for each in self.list_groups() if each.group_id == group_id]
        return f"{found[0].group_type} {found[0].group_state}" if found else ""


def join_request(member_id: str, given: dict[str, str], group_id: str = GROUP) -> JoinGroupRequest:
    """A JoinGroup of a classic member."""
    version = int(given.get("embedded", 3))
    names = tuple(each for each in given.get("names", "foo").split(",") if each)
    data = subscribed(names, given.get("own", "[]"), version=version, rack=given.get("rack"))
    return JoinGroupRequest(
        group_id=group_id,
        member_id=member_id,
        protocol_type=given.get("type", "consumer"),
        protocols=tuple((name, data) for name in given.get("by", "range").split(",") if name),
        session_timeout_ms=int(given.get("session", SESSION_MS)),
        rebalance_timeout_ms=int(given.get("rebalance", REBALANCE_MS)),
        group_instance_id=given.get("as"),
        client_id=given.get("client", "c"),
        client_host="/127.0.0.1",
        api_version=int(given.get("v", 9)),
    )


def shown_of_either(record: Record, topics: Sequence[Topic]) -> str:
    """A record in the notation of the histories. That of a classic group with members: `2(6 leader C1, C1: 0-2)`."""
    change = READ.decode(*record)
    if not isinstance(change, GroupPut) or not change.metadata.members:
        return shown_record(record)
    group = change.metadata
    shares = [f"{each.member_id}: {_share(each.assignment, topics)}" for each in group.members]
    return f"2({group.generation_id} leader {group.leader_id}, {', '.join(shares)})"


def _share(data: bytes, topics: Sequence[Topic]) -> str:
    image = Topics(topics)
    found = by_id(read_assignment(data).partitions, image)
    assert by_name(found, image) == dict(read_assignment(data).partitions)
    return shown(found)


def mixed(**fields: object) -> MixedDriver:
    """C1 (classic, static as i-1) has 0-2 and A has 3-5, all stable at 6."""
    driver = MixedDriver(Classic("C1", "0-5", group_instance_id="i-1"), **fields)  # type: ignore[arg-type]
    assert driver.told("A e0 join") == "e6 asg -"
    assert driver.classic("C1 join") == "g6"
    assert driver.classic("C1 sync g6") == "0-2"
    assert driver.told("A e6") == "e6 asg 3-5"
    driver.advance(1_100)
    return driver
