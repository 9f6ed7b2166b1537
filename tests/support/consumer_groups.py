"""Consumer groups on a driven shard, and a short notation for requests, answers and records. Holds no tests.

Partitions of topic `foo` are written `0-2,6`, those of others with the topic's tag: `0-2 T3:0`; none is `-`. Those in
a record 8 have assignment epochs: `0-2@2 3@4`. The names of the topics, and their tags, are in `NAMES` and `TAGS`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from actors.coordinator.assignors import ASSIGNORS
from actors.coordinator.assignors.assignor import GroupSpec, Target
from actors.coordinator.assignors.slices import SlicedAssignor
from actors.coordinator.assignors.uniform import UniformAssignor
from actors.coordinator.classic.type import Classic
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
    NoteSettingsRequest,
    NoteTopicsRequest,
    Resolution,
    ResolutionsRequest,
)
from actors.coordinator.consumer.records import (
    AssignmentEpoch,
    CurrentAssignment,
    GroupEpoch,
    GroupRecord,
    MemberRecord,
    TargetAssignment,
)
from actors.coordinator.consumer.regexes import resolve
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.state import FIRST_EPOCH, ConsumerState
from actors.coordinator.consumer.topics import Topic, Topics
from actors.coordinator.consumer.type import Consumer
from actors.coordinator.consumer.values import Current, Held, MemberMetadata, MemberState, Partitions
from actors.coordinator.group_types import GROUP_RECORDS, GroupShard
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.messages import DeleteTopicOffsetsRequest
from actors.coordinator.records import Record
from tests.support.coordination import NO_DELAY, Driver
from tests.support.offset_rows import commit_request

T1 = bytes(range(16))
T2 = bytes(range(16, 32))
T3 = bytes(range(32, 48))
T4 = bytes(range(64, 80))
TAGS = {"T1": T1, "T2": T2, "T3": T3, "T4": T4}
NAMES = {T1: "foo", T2: "foobar", T3: "bar", T4: "foo2"}
FOO = Topic(T1, "foo", 6)
FOOBAR = Topic(T2, "foobar", 2)
BAR = Topic(T3, "bar", 1)
FOO2 = Topic(T4, "foo2", 1)
GROUP = "g1"
SESSION_MS = 45_000
REBALANCE_MS = 300_000
READ = GROUP_RECORDS


# -- notation


def parts(text: str) -> dict[bytes, frozenset[int]]:
    """The partitions of `0-2,6 T3:0`."""
    found: dict[bytes, frozenset[int]] = {}
    for word in text.split():
        if word in ("-", "[]"):
            continue
        tag, _, numbers = word.rpartition(":")
        found[TAGS[tag or "T1"]] = frozenset(_numbers(numbers))
    return found


def _numbers(text: str) -> Iterable[int]:
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        yield from range(int(first), int(last or first) + 1)


def shown(partitions: Mapping[bytes, Iterable[int]] | None) -> str:
    """Partitions in the notation that `parts` reads."""
    words = [_tagged(topic_id, _runs(numbers)) for topic_id, numbers in sorted((partitions or {}).items())]
    return " ".join(words) or "-"


def _tagged(topic_id: bytes, text: str) -> str:
    tags = {topic_id: tag for tag, topic_id in TAGS.items()}
    return text if topic_id == T1 else f"{tags[topic_id]}:{text}"


def _runs(numbers: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def shown_held(held: Held) -> str:
    """Partitions with their assignment epochs."""
    words = []
    for topic_id, partitions in sorted(held.items()):
        for epoch in sorted(set(partitions.values())):
            of_epoch = [partition for partition, since in partitions.items() if since == epoch]
            words.append(_tagged(topic_id, f"{_runs(of_epoch)}@{epoch}"))
    return " ".join(words) or "-"


_STATES = {MemberState.UNREVOKED_PARTITIONS: "UNREVOKED", MemberState.UNRELEASED_PARTITIONS: "UNRELEASED"}


def shown_record(record: Record) -> str:
    """A record in the notation of the histories: `8(A: e2/p0 STABLE 0-5@2 | -)`, or `x8(A)` of a tombstone."""
    number = int.from_bytes(record.key[:2], "big")
    change = READ.decode(*record)
    if not isinstance(change, GroupRecord):
        return ("" if record.value is not None else "x") + str(number)
    about = getattr(change, "member_id", getattr(change, "regex", ""))
    if change.is_tombstone:
        return f"x{number}({about})" if about else f"x{number}"
    match change:
        case GroupEpoch():
            return f"3({change.epoch})"
        case AssignmentEpoch():
            return f"6({change.epoch})" if change.timestamp_ms else f"6({change.epoch},0)"
        case CurrentAssignment(current=current) if current is not None:
            state = _STATES.get(current.state, current.state.name)
            held = f"{shown_held(current.assigned)} | {shown_held(current.pending)}"
            return f"8({about}: e{current.epoch}/p{current.previous_epoch} {state} {held})"
    if number == 7:
        return f"7({about}: {shown(change.target)})"  # type: ignore[attr-defined]
    return f"{number}({about})"


def shown_answer(answer: ConsumerGroupHeartbeatResponse) -> str:
    """A heartbeat's answer: the error's code, or the epoch and the assignment if it has one."""
    if answer.error_code:
        return str(int(answer.error_code))
    return f"e{answer.member_epoch}" + ("" if answer.assignment is None else f" asg {shown(answer.assignment)}")


_WORDS = "own|regex|by|rack|R|names|as|v|client"
_FIELDS = re.compile(rf"(?P<name>{_WORDS})(?:=(?P<value>.*?))?(?= (?:{_WORDS})(?:=|\b)|$)")


@cache
def beat_request(text: str, group_id: str = GROUP) -> ConsumerGroupHeartbeatRequest:
    """The heartbeat of `A e2 own=0-2`. Others of its words: `R`, `names=foo,bar`, `regex=`, `as=` an instance id,
    `by=` an assignor, `rack=`, `client=`, `v=` a version. `join` stands for `R names=foo own=[]`.

    The same text is the same object, as the repeated frames of a client are.
    """
    member_id, epoch, rest = (*text.split(" ", 2), "")[:3]
    rest = re.sub(r"\bjoin\b", "R names=foo own=[]", rest)
    fields = {found["name"]: found["value"] for found in _FIELDS.finditer(rest)}
    names = fields.get("names")
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="" if member_id == "''" else member_id,
        member_epoch=int(epoch[1:]),
        instance_id=fields.get("as"),
        rack_id=fields.get("rack"),
        rebalance_timeout_ms=REBALANCE_MS if "R" in fields else -1,
        subscribed_topic_names=None if names is None else tuple(each for each in names.split(",") if each),
        subscribed_topic_regex=fields.get("regex"),
        server_assignor=fields.get("by"),
        topic_partitions=None if fields.get("own") is None else parts(fields["own"] or ""),
        client_id=fields.get("client") or "c",
        client_host="/127.0.0.1",
        api_version=int(fields.get("v") or 1),
    )


# -- a shard that has consumer groups


class Slow(UniformAssignor):
    """`uniform`, which takes five slices more."""

    def steps(self, group: GroupSpec) -> Generator[None, None, Target]:
        for _ in range(5):
            yield
        return (yield from super().steps(group))


def records_of(members: int, each: int = 1) -> list[GroupRecord]:
    """The records of a stable group of so many members, m-0000 and so on, with `each` partitions of `foo`."""
    told = MemberMetadata("c", "/127.0.0.1", names=frozenset(("foo",)), rebalance_timeout_ms=REBALANCE_MS)
    records: list[GroupRecord] = []
    for number in range(members):
        member_id = f"m-{number:04}"
        held = range(number * each, (number + 1) * each)
        current = Current(FIRST_EPOCH, 0, MemberState.STABLE, {T1: dict.fromkeys(held, FIRST_EPOCH)})
        records += [MemberRecord(GROUP, member_id, told), CurrentAssignment(GROUP, member_id, current)]
        records.append(TargetAssignment(GROUP, member_id, {T1: frozenset(held)}))
    return [*records, GroupEpoch(GROUP, FIRST_EPOCH, 0), AssignmentEpoch(GROUP, FIRST_EPOCH, 0)]


class ConsumerDriver(Driver):
    """A driver whose shard knows consumer groups and these topics."""

    def __init__(
        self,
        *topics: Topic,
        settings: ConsumerSettings | None = None,
        config: CoordinatorConfig = NO_DELAY,
        log: Iterable[tuple[bytes, bytes | None]] = (),
        assignors: Sequence[SlicedAssignor] = ASSIGNORS,
    ) -> None:
        self.topics: tuple[Topic, ...] = topics or (FOO,)
        self.settings = settings or ConsumerSettings()
        self.assignors = assignors
        self.version = 7
        super().__init__(config, log)

    def _new_shard(self) -> GroupShard:
        self.types = (Classic(), Consumer(self.assignors, self.settings))
        return super()._new_shard()

    def load(self, epoch: int = 0) -> None:
        super().load(epoch)
        self.call(NoteTopicsRequest(Topics(self.topics, self.version)))

    def set_topics(self, *topics: Topic) -> None:
        """From now on there are these topics."""
        self.topics = topics
        self.version += 1
        self.call(NoteTopicsRequest(Topics(topics, self.version)))

    def set_settings(self, settings: ConsumerSettings) -> None:
        """From now on these settings hold."""
        self.settings = settings
        self.call(NoteSettingsRequest(settings))

    # -- heartbeats

    def beat(self, text: str, group_id: str = GROUP) -> ConsumerGroupHeartbeatResponse:
        """The answer to a heartbeat in the notation of `beat_request`, which is given at once."""
        answer: ConsumerGroupHeartbeatResponse = self.call(beat_request(text, group_id))
        return answer

    def beat_later(self, text: str, group_id: str = GROUP) -> int:
        """The token of a heartbeat whose answer may have to wait."""
        return self.ask(beat_request(text, group_id))

    def told(self, text: str, group_id: str = GROUP) -> str:
        """The answer in short."""
        return shown_answer(self.beat(text, group_id))

    def join(self, *members: str, group_id: str = GROUP) -> None:
        """Have members of topic `foo` join, and all go on until each has its share."""
        for member_id in members:
            self.advance(1_100)
            assert self.beat(f"{member_id} e0 join", group_id).error_code == 0
            self.settle(group_id)

    def settle(self, group_id: str = GROUP) -> None:
        """Have all members send heartbeats with their owned partitions until the group is stable."""
        for _ in range(20):
            state = self.consumer(group_id).state
            if state.persisted_state == "Stable":
                return
            self.advance(1_100)
            for member_id in list(state.metadata):
                current = self.consumer(group_id).state.current_of(member_id)
                self.beat(f"{member_id} e{current.epoch} own={shown(current.assigned)}", group_id)
        raise AssertionError(f"{group_id} is {self.consumer(group_id).state_name}")

    # -- regular expressions

    def ask_for_resolutions(self) -> int:
        """The token of a question for the expressions to resolve."""
        return self.ask(ResolutionsRequest())

    def resolve(self, hidden: frozenset[str] = frozenset()) -> list[Resolution]:
        """Resolve the expressions that wait, as a host does; without the hidden topics."""
        token = self.ask_for_resolutions()
        found = self.answer(token)
        if found is None:
            self.shard.drop(lambda each: each == token)
            return []
        for each in found.resolutions:
            self.ask(resolve(each, lambda name: name not in hidden))
        return list(found.resolutions)

    # -- to look at

    def consumer(self, group_id: str = GROUP) -> ConsumerGroup:
        """The live group."""
        group = self.shard.coordinator.runtime.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def committed(self, group_id: str = GROUP) -> ConsumerState:
        """The committed state of the group."""
        return self.consumer(group_id).state

    def stands(self, group_id: str = GROUP) -> str:
        """Group epoch, assignment epoch and state: `3/3 Stable`; empty if there is no such group."""
        if group_id not in self.shard.coordinator.runtime.groups:
            return ""
        state = self.committed(group_id)
        return f"{state.group_epoch}/{state.assignment_epoch} {state.persisted_state}"

    def member(self, member_id: str, group_id: str = GROUP) -> str:
        """A member's epochs, state and partitions: `e2/p2 UNREVOKED 0-2@2 | 3-5@2`."""
        current = self.committed(group_id).current_of(member_id)
        state = _STATES.get(current.state, current.state.name)
        held = f"{shown_held(current.assigned)} | {shown_held(current.pending)}"
        return f"e{current.epoch}/p{current.previous_epoch} {state} {held}"

    def written(self, since: int) -> list[str]:
        """The records of the log from a position on."""
        return [shown_record(record) for record in self.log[since:]]

    def described(self, group_id: str = GROUP) -> DescribedConsumerGroup:
        """The group as ConsumerGroupDescribe shows it."""
        group: DescribedConsumerGroup = self.call(ConsumerGroupDescribeRequest((group_id,))).groups[0]
        return group

    # -- offsets

    def delete_topics(self, *names: str) -> None:
        """Topics have been deleted from the cluster."""
        assert self.call(DeleteTopicOffsetsRequest(frozenset(names))).error_code == 0

    def commits(self, member_id: str, epoch: int, partitions: str, *, version: int = 9, offset: int = 1) -> list[int]:
        """The error of each partition of a commit to `foo` and others."""
        rows = [
            (NAMES[topic_id], partition, offset, -1, "")
            for topic_id, numbers in sorted(parts(partitions).items())
            for partition in sorted(numbers)
        ]
        token = self.ask(commit_request(GROUP, epoch, member_id, None, rows, version, -1))
        errors: list[int] = [int(code) for code in self.answer(token).error_codes]
        return errors


class Given(NamedTuple):
    """A heartbeat's answer, and the records it has written."""

    answer: str
    records: tuple[str, ...]


def given(driver: ConsumerDriver, text: str) -> Given:
    """Send a heartbeat; its answer and its records."""
    at = len(driver.log)
    answer = driver.told(text)
    return Given(answer, tuple(driver.written(at)))


def partitions_told(answer: Any) -> Partitions:
    """The assignment of an answer that has one."""
    assert answer.assignment is not None
    found: Partitions = answer.assignment
    return found
