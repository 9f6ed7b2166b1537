"""Questions about a group of range members: where partitions begin, whether all are assigned, what the logs have.

The values that a range member takes and returns are here, too. The member itself is in range_member.py.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from actors.client import Admin, Consumer, TopicPartition
from actors.client.admin.types import MemberDescription
from actors.client.by_default import by_default
from actors.client.config import security_settings
from actors.client.errors import (
    DataLossError,
    KafkaTimeoutError,
    RetriableError,
    TopicRecreatedError,
)
from actors.client.records import OffsetRange
from actors.members.committed import committed_offsets

log = logging.getLogger(__name__)

_NO_IDS: Final[Mapping[str, bytes]] = {}

_STRATEGY: Final[Mapping[str, Any]] = {"partition_assignment_strategy": ["cooperative-sticky"]}

Done = Mapping[tuple[str, int], tuple[int, str]]


@dataclass(frozen=True, slots=True)
class RangeMemberSpec:
    """The settings of a range member. `options` are those of actors.client.Consumer.

    `starts` says where partitions without a committed offset begin; one it does not name is new and begins at its
    oldest record. `start_ids` are the topics that `starts` is about: one that was created again since is new, too.
    Either `topics` or `pattern` is given.
    """

    group_id: str
    bootstrap_servers: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    starts: Mapping[tuple[str, int], int] = field(default_factory=dict)
    start_ids: Mapping[str, bytes] = field(default_factory=dict)
    batch_timeout_ms: int = 300_000
    revoke_wait_ms: int = 10_000
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Held:
    """A partition a member holds: the next offset to read, and the token a commit must name.

    `topic_id` is the topic in which the offset is; b"" if brokers do not say.
    """

    topic: str
    partition: int
    position: int
    fencing_token: str
    topic_id: bytes = b""


@dataclass(frozen=True, slots=True)
class Holding:
    """The partitions of a member. `settled`: it has its assignment, and knows where each partition goes on."""

    member_id: str
    generation_id: int
    settled: bool
    partitions: tuple[Held, ...]


def member_settings(spec: RangeMemberSpec) -> dict[str, Any]:
    """The settings of a member's Consumer."""
    classic = {"heartbeat_interval_ms": 1000, **_STRATEGY}
    settings = by_default(spec.options, classic)
    if settings["group_protocol"] != "consumer":
        settings |= _STRATEGY  # whatever is given: a batch keeps what it has while the group goes on
    return {
        # The group waits so long for this member to join again, which it may put off for a batch.
        "max_poll_interval_ms": max(300_000, spec.revoke_wait_ms + 60_000),
        "allow_auto_create_topics": False,
        **settings,
        "bootstrap_servers": spec.bootstrap_servers,
        "group_id": spec.group_id,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
    }


def topics_begun(admin: Admin, group_id: str, partitions: Collection[TopicPartition]) -> set[str]:
    """The topics for which the group has a committed offset.

    A partition of such a topic without one is new, and begins at its oldest record, so that none is lost. `starts` are
    only for the other topics.
    """
    return {tp.topic for tp in committed_offsets(admin, group_id, partitions)}


def await_settled(
    look: Callable[[], Iterable[Holding]],
    spec: RangeMemberSpec,
    partitions: Collection[TopicPartition],
    timeout_s: float,
    give_up: Callable[[], bool] = lambda: False,
) -> None:
    """Wait until these partitions are assigned in the group, and every member has its assignment.

    That a member has an assignment is not enough: in a cooperative rebalance a new member has nothing until the others
    have given up its partitions. Nor that the coordinator has divided them all: the member may not have heard of it.
    Raises KafkaTimeoutError naming the group and the servers.
    """
    deadline = time.monotonic() + timeout_s
    pause = 0.02
    with Admin(bootstrap_servers=spec.bootstrap_servers, **security_settings(spec.options)) as admin:
        while not give_up() and not _settled(admin, spec, tuple(look()), partitions):
            if time.monotonic() > deadline:
                raise KafkaTimeoutError(
                    f"group {spec.group_id!r} gave no assignment within {timeout_s:.0f} s: is its coordinator "
                    f"reachable at bootstrap_servers={spec.bootstrap_servers!r}?"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.25)


def _settled(
    admin: Admin, spec: RangeMemberSpec, holdings: Sequence[Holding], partitions: Collection[TopicPartition]
) -> bool:
    if not all(each.settled for each in holdings):
        return False
    try:
        (group,) = admin.describe_consumer_groups([spec.group_id])
    except RetriableError:
        return False
    return group.state == "Stable" and all_have_theirs(group.members, holdings, partitions)


def all_have_theirs(
    members: Iterable[MemberDescription], holdings: Iterable[Holding], partitions: Collection[TopicPartition]
) -> bool:
    """True if the group's members have all of these partitions, and those who say what they hold know which of them."""
    wanted = frozenset(partitions)
    assigned = {member.member_id: wanted.intersection(member.assignment) for member in members}
    known = {each.member_id: wanted.intersection((p.topic, p.partition) for p in each.partitions) for each in holdings}
    return wanted == frozenset().union(*assigned.values()) and all(
        assigned.get(member_id) == held for member_id, held in known.items()
    )


def positions_and_ends(
    client: Consumer, seen: SeenTopics, holding: Iterable[Held], *, fail: bool, setting: str
) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
    """The position of each of these partitions, and its present end, which is never below the position.

    If the log does not have a position, reading goes on at the log's beginning; with `fail` it is a DataLossError.
    If the topic was created again, it is as in `SeenTopics.look`. `setting` is the user's name for `fail`.
    """
    held = {TopicPartition(each.topic, each.partition): each for each in holding}
    begins, ends = client.beginning_offsets(held), client.end_offsets(held)
    # With read_committed a log ends at its last stable offset, and a group can be beyond: that is not a loss.
    if beyond := [tp for tp, each in held.items() if each.position > ends[tp]]:
        for tp, end in client.end_offsets(beyond, isolation_level=0).items():
            if held[tp].position <= end:
                ends[tp] = held[tp].position
    if absent := {tp.topic for tp, each in held.items() if not begins[tp] <= each.position <= ends[tp]}:
        seen.ask(client, absent, fail=fail, setting=setting)  # ends are asked for by name: is it still the same topic?
        held = {tp: each for tp, each in held.items() if seen.has(each)}
    positions = {
        (tp.topic, tp.partition): _present(each, begins[tp], ends[tp], fail=fail, setting=setting)
        for tp, each in sorted(held.items())
    }
    return positions, {(tp.topic, tp.partition): ends[tp] for tp in held}


class SeenTopics:
    """The topics that a job has read, by id, so that it notices when one was deleted and created again."""

    def __init__(self) -> None:
        self.ids: dict[str, bytes] = {}
        self._former: set[bytes] = set()

    def look(self, holding: Iterable[Held], *, fail: bool, setting: str) -> list[Held]:
        """Those of these partitions that are in the newest topics of their names.

        With `fail` a topic that was created again is a TopicRecreatedError. `setting` is the user's name for `fail`.
        """
        held = list(holding)
        again = sorted({each.topic for each in held if self._is_new(each)})
        if again and fail:
            raise TopicRecreatedError(
                f"deleted and created again: {', '.join(again)}. The rest of the old topic is lost; set "
                f"{setting} to false to go on with what is there",
                again,
            )
        if again:
            log.warning("%s: deleted and created again; going on in the new topic", ", ".join(again))
        for each in held:
            if self._is_new(each):
                self._former.add(self.ids[each.topic])
            if each.topic_id and each.topic_id not in self._former:
                self.ids[each.topic] = each.topic_id
        return [each for each in held if self.has(each)]

    def has(self, held: Held) -> bool:
        """True if a partition is in the newest topic of its name."""
        return not held.topic_id or held.topic_id == self.ids.get(held.topic)

    def ask(self, client: Consumer, topics: set[str], *, fail: bool, setting: str) -> None:
        """Look at the topics that have these names now."""
        ids = client.topic_ids(topics)
        self.look([Held(topic, 0, 0, "", topic_id) for topic, topic_id in ids.items()], fail=fail, setting=setting)

    def still(self, client: Consumer, ranges: list[OffsetRange], *, fail: bool, setting: str) -> list[OffsetRange]:
        """Those of these ranges whose topic is still the newest of its name now that their ends are known."""
        if not ranges:
            return []
        self.ask(client, {each.topic for each in ranges}, fail=fail, setting=setting)
        return [each for each in ranges if each.topic_id == self.ids.get(each.topic, b"")]

    def _is_new(self, held: Held) -> bool:
        known = self.ids.get(held.topic)
        return bool(known and held.topic_id) and held.topic_id not in (known, *self._former)


def limited(
    positions: Mapping[tuple[str, int], int],
    ends: Mapping[tuple[str, int], int],
    most: int | None,
    ids: Mapping[str, bytes] = _NO_IDS,
) -> list[OffsetRange]:
    """The ranges from `positions` to `ends`, cut to about `most` offsets in all. Empty ones are left out.

    `ids` are those of the topics.

    As with Spark's maxOffsetsPerTrigger, each partition gets a part in proportion to its waiting offsets, at least one.
    """
    waiting = {tp: ends[tp] - at for tp, at in positions.items() if ends.get(tp, at) > at}
    total = sum(waiting.values())
    share = 1.0 if most is None or total <= most else most / total
    return [
        OffsetRange(*tp, positions[tp], positions[tp] + max(1, int(count * share)), ids.get(tp[0], b""))
        for tp, count in sorted(waiting.items())
    ]


def _present(held: Held, begin: int, end: int, *, fail: bool, setting: str) -> int:
    if begin <= held.position <= end:
        return held.position
    lost = f"{held.topic}-{held.partition}: the group goes on at offset {held.position}, the log has {begin} to {end}"
    if fail:
        raise DataLossError(
            f"{lost}. Records were deleted before they were read, or the topic was created again; set {setting} to "
            "false to go on with what is there"
        )
    log.warning("%s; going on at %d, since %s is false", lost, begin, setting)
    return begin
