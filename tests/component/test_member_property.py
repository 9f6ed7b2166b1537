"""Whatever a group does to a member: each record is handled, keys keep their order, and no commit is ahead. No broker.

The group is a model: its logs are lists, and what a test's script says happens in the polls. Handlers take their time
and fail as the script says, in real threads and tasks.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.client import ConsumerGroupMetadata, ConsumerRecord, OffsetAndMetadata, TopicPartition
from actors.links.member_counts import Committing, Done
from actors.links.member_deaths import Committed, InHand
from actors.members.pools.handler_member import MemberLoop, MemberSpec
from actors.members.pools.handling.context import Context
from tests.support.member import T0, T1, record

PARTITIONS = (T0, T1)
EVENTS = ("nothing", "revoke", "lose", "anew", "lapse")
KEYS = (b"a", b"b", b"c", None)


@dataclass(frozen=True)
class Script:
    """A scenario: keys of the records of each partition, an event for each poll, and a seed for the handler."""

    keys: tuple[tuple[bytes | None, ...], ...]
    events: tuple[tuple[str, int], ...]
    seed: int
    concurrency: int
    revoke_wait_ms: int
    batch_format: str


scripts = st.builds(
    Script,
    keys=st.tuples(*(st.lists(st.sampled_from(KEYS), max_size=25).map(tuple) for _ in PARTITIONS)),
    events=st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 1)), max_size=20).map(tuple),
    seed=st.integers(0, 2**32),
    concurrency=st.integers(1, 5),
    revoke_wait_ms=st.sampled_from([0, 1, 1000]),
    batch_format=st.sampled_from(["record", "record", "records"]),
)


class Truth:
    """Keeps the handled records, and everything that went wrong."""

    def __init__(self, script: Script) -> None:
        self.lock = threading.Lock()
        self.logs = {
            p: [record(i, p.partition)._replace(key=key) for i, key in enumerate(keys)]
            for p, keys in zip(PARTITIONS, script.keys, strict=True)
        }
        self.chance = Random(script.seed)
        self.failures = {
            (p, each.offset): self.chance.choice((0, 0, 0, 1, 2, 9)) for p, log in self.logs.items() for each in log
        }
        self.handled: set[tuple[TopicPartition, int]] = set()
        self.first: dict[Any, list[int]] = defaultdict(list)
        self.in_hand: Counter[Any] = Counter()
        self.acknowledged: set[tuple[TopicPartition, int]] = set()
        self.wrong: list[str] = []

    def begin(self, records: list[ConsumerRecord]) -> float:
        """The handler begins. Returns how long it takes; raises as the script says."""
        with self.lock:
            for each in records:
                lane = _lane(each)
                self.in_hand[lane] += 1
                if lane[1] is not None and self.in_hand[lane] > len([r for r in records if _lane(r) == lane]):
                    self.wrong.append(f"two at once of {lane}")
            return self.chance.choice((0.0, 0.0, 0.0005, 0.002))

    def end(self, records: list[ConsumerRecord], context: Context | None) -> None:
        with self.lock:
            for each in records:
                place = (TopicPartition(each.topic, each.partition), each.offset)
                if self.failures[place]:
                    self.failures[place] -= 1
                    raise ValueError(f"not yet: {place}")
            for each in records:
                self.done(TopicPartition(each.topic, each.partition), each.offset, each.key)
                if context is not None:
                    context.produce("out", b"%d" % each.partition, key=b"%d" % each.offset)

    def leave(self, records: list[ConsumerRecord]) -> None:
        with self.lock:
            for each in records:
                self.in_hand[_lane(each)] -= 1

    def done(self, partition: TopicPartition, offset: int, key: bytes | None) -> None:
        if (partition, offset) not in self.handled and key is not None:
            self.first[partition, key].append(offset)
        self.handled.add((partition, offset))

    def check_commit(self, partition: TopicPartition, upto: int) -> None:
        with self.lock:
            for each in self.logs[partition][:upto]:
                if (partition, each.offset) not in self.handled & self.acknowledged:
                    self.wrong.append(f"{partition} committed up to {upto} without {each.offset}")


def _lane(each: ConsumerRecord) -> tuple[TopicPartition, bytes | None]:
    return TopicPartition(each.topic, each.partition), each.key


class ModelConsumer:
    """The only member of a group; now and then it loses a partition and gets it back.

    With the event "anew" it stays assigned, as with a topic that was made anew: it is still paused if it was.
    """

    def __init__(self, truth: Truth, script: Script) -> None:
        self.truth = truth
        self.events = list(script.events)
        self.committed = dict.fromkeys(PARTITIONS, 0)
        self.position: dict[TopicPartition, int] = {}
        self._held: set[TopicPartition] = set()
        self.lapsed = False
        self.loop: MemberLoop
        self.listener: Any = None
        self.said = Done()

    def hear(self, said: InHand | Committed | Committing) -> None:
        if isinstance(said, Committing):
            self.said = said.done

    def subscribe(self, _: list[str], listener: Any) -> None:
        self.listener = listener

    def position_topic_id(self, _: TopicPartition) -> bytes:
        return b"t" * 16

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        self.lapsed = False
        event, number = self.events.pop(0) if self.events else ("nothing", 0)
        self._happens(event, PARTITIONS[number])
        for partition in PARTITIONS:
            if partition not in self.position:
                self.position[partition] = self.committed[partition]
                self.listener.on_partitions_assigned([partition])
        if not self.events and all(self.committed[p] == len(self.truth.logs[p]) for p in PARTITIONS):
            self.loop.stop()
        if timeout_ms:
            threading.Event().wait(0.001)
        return self._records()

    def _happens(self, event: str, partition: TopicPartition) -> None:
        if event == "lapse":
            self.lapsed = True
        elif partition in self.position and event in ("revoke", "lose", "anew"):
            if event == "revoke":
                self.listener.on_partitions_revoked([partition])
            else:
                self.listener.on_partitions_lost([partition])
            del self.position[partition]
            if event != "anew":
                self._held.discard(partition)

    def _records(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        found = {}
        for partition, at in self.position.items():
            if partition not in self._held and (some := self.truth.logs[partition][at : at + 7]):
                found[partition] = some
                self.position[partition] = at + len(some)
        return found

    def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout_ms: int | None = None) -> None:
        for partition, committed in offsets.items():
            self.truth.check_commit(partition, committed.offset)
            self.committed[partition] = committed.offset
        if sum(self.committed.values()) > self.said.records:
            self.truth.wrong.append(f"of {self.committed} only {self.said} was said before")

    def commit_async(self, offsets: dict[TopicPartition, OffsetAndMetadata], callback: Any) -> None:
        self.commit(offsets)
        callback(offsets, None)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.position[partition] = offset

    def pause(self, *partitions: TopicPartition) -> None:
        self._held.update(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self._held.difference_update(partitions)

    def paused(self) -> set[TopicPartition]:
        return set(self._held)

    def session_lapsed(self) -> bool:
        return self.lapsed

    def rebalance_due(self) -> bool:
        return False

    def assignment(self) -> set[TopicPartition]:
        return set(self.position)

    def group_metadata(self) -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata("g", 1, "member-1", None)

    def hindrance(self, grace_ms: int = 3_000) -> str | None:
        return None

    def close(self, timeout_ms: int | None = None) -> None:
        self.listener.on_partitions_revoked(list(self.position))


class ModelProducer:
    """Acknowledges what it is sent the second time that somebody asks."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth

    def send(self, topic: str, value: bytes, key: bytes, headers: Any = None, **_: Any) -> Ack:
        if topic == "out":
            return Ack(self.truth, TopicPartition("t", int(value)), int(key))
        given = dict(headers)
        place = TopicPartition("t", int(given["coterie.partition"])), int(given["coterie.offset"])
        with self.truth.lock:
            self.truth.done(*place, key)
            self.truth.acknowledged.add(place)
        return Ack(self.truth, *place)

    def close(self) -> None: ...


class Ack:
    def __init__(self, truth: Truth, partition: TopicPartition, offset: int) -> None:
        self.truth = truth
        self.place = partition, offset
        self.asked = 0

    @property
    def is_done(self) -> bool:
        self.asked += 1
        if self.asked > 1:
            self.truth.acknowledged.add(self.place)
        return self.asked > 1

    def get(self, timeout: float | None = None) -> None:
        self.truth.acknowledged.add(self.place)


def handler(truth: Truth, *, asynchronous: bool) -> Any:
    def listed(given: Any) -> list[ConsumerRecord]:
        return given if isinstance(given, list) else [given]

    def handle(given: Any, context: Context) -> None:
        records = listed(given)
        try:
            threading.Event().wait(truth.begin(records))
            truth.end(records, context)
        finally:
            truth.leave(records)

    async def handle_async(given: Any, context: Context) -> None:
        records = listed(given)
        try:
            await asyncio.sleep(truth.begin(records))
            truth.end(records, context)
        finally:
            truth.leave(records)

    return handle_async if asynchronous else handle


@pytest.mark.parametrize("asynchronous", [False, True])
@given(script=scripts)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_happens_each_record_is_handled_in_order_and_no_commit_is_ahead(
    asynchronous: bool, script: Script
) -> None:
    truth = Truth(script)
    consumer = ModelConsumer(truth, script)
    spec = MemberSpec(
        ("t",),
        "g",
        "host:1",
        batch_format=script.batch_format,  # type: ignore[arg-type]
        max_batch_records=4,
        concurrency=script.concurrency,
        revoke_wait_ms=script.revoke_wait_ms,
        max_retries=1,
        retry_backoff_ms=0,
        dead_letter_topic="dlq",
    )
    loop = consumer.loop = MemberLoop(
        spec,
        handler(truth, asynchronous=asynchronous),
        make_consumer=lambda **_: consumer,
        make_producer=lambda **_: ModelProducer(truth),
    )
    loop.report_to(consumer.hear)
    watchdog = threading.Timer(60, loop.stop)
    watchdog.start()
    loop.run()
    watchdog.cancel()
    assert loop.report().state == "Stopped", loop.report().error
    assert truth.wrong == []
    assert truth.handled == {(p, each.offset) for p, log in truth.logs.items() for each in log}
    count = sum(len(log) for log in truth.logs.values())
    report = loop.report()
    assert report.committing.records == count, "each was committed once, and that was said"
    assert report.handled + report.dead_letters - report.again.records >= count
    for lane, offsets in truth.first.items():
        assert offsets == sorted(offsets), f"{lane} in the order {offsets}"
