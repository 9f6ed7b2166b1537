"""The shard of an offsets partition and the service before it, without a process: the test is the broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.records import Record, encode
from actors.coordinator.shard import ShardState
from actors.coordinator.turn import Now
from actors.coordinator_kinds.groups import GROUPS
from actors.coordinator_kinds.kind import Surroundings
from actors.links.known_topics import TopicLeaders
from actors.links.relay import PAYLOADS, Assignment, Kind
from actors.records.reading import iter_key_values
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, response_class
from actors.wire.operations import GROUP_OPERATIONS
from tests.support.consumer_groups import GROUP, records_of

FOO = ("foo", b"f" * 16, 6)
START = Now(1_000_000, 1_700_000_000_000)


class Broker:
    """Hosts a shard that is told these settings, with this log."""

    def __init__(
        self,
        consumer: ConsumerSettings,
        log: tuple[bytes, ...] = (),
        records: Sequence[Record] = (),
        leaders: tuple[TopicLeaders, ...] = (),
    ) -> None:
        self.log = list(log)
        self.now = START
        self.answers: list[bytes] = []
        self.work: list[Callable[[], None]] = []
        self.is_late = False
        self.matched: list[tuple[str, ...]] = []
        around = Surroundings(0, self._sent, self._said, dict, lambda: "id", self._later)
        told = PAYLOADS.encode(Assignment(CoordinatorConfig(), (FOO,), consumer, 1, leaders=leaders))
        self.hosted = GROUPS.host(told, around)
        self.shard: Any = self.hosted.shard
        self.shard.start_loading(1, self.now)
        for batch in self.log:
            GROUPS.codec.replay(self.shard, batch)
        self.shard.load(records)
        self._end = sum(1 for batch in self.log for _ in iter_key_values(batch)) + len(records)
        self.shard.finish_loading(self.now, self._end, 0)
        self.shard.high_watermark(self._end, self.now)
        assert self.shard.state is ShardState.ACTIVE
        self.hosted.service.loaded(self.now)

    def _sent(self, kind: int, a: int = 0, b: int = 0, payload: bytes = b"") -> None:
        if kind == Kind.RESPONSE:
            self.answers.append(payload)

    def _said(self, kind: int, payload: Any, a: int = 0, b: int = 0) -> None:
        if kind == Kind.MATCHED:
            self.matched.append(payload.names)

    def _later(self, work: Any, done: Any) -> None:
        self.work.append(lambda: done(work(lambda: self.is_late), self.now))

    def ask(self, message: Any, version: int = 1) -> Any:
        """The answer to a client's request, once what it writes has committed."""
        self.answers.clear()
        self.hosted.service.request(9, 1, encode_request(message, version, 1, "tests")[4:], self.now)
        self._turn()
        while not self.answers and (due_ms := self.shard.next_deadline()) is not None:
            self.now = Now(due_ms, self.now.wall_ms)
            self.shard.on_time(self.now)
            self._turn()
        return decode_response(response_class(message.api_key), version, self.answers[-1][4:])[1]

    def _turn(self) -> None:
        while (append := self.shard.take_records()) is not None:
            self.log.append(GROUPS.codec.batch(append, self.now.wall_ms, 0))
            base, self._end = self._end, self._end + len(append.keys)
            self.shard.appended(append.batch_id, base, self._end, self.now)
            self.shard.high_watermark(self._end, self.now)
        self.hosted.service.send_answers(self.now)


def join(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    made = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], "subscribed_topic_names": ["foo"]}
    return ConsumerGroupHeartbeatRequest(group_id="g", **({"member_id": "A"} | made | fields))


@pytest.mark.conformance("K-B-59", "K-B-62")
@pytest.mark.parametrize("own", [{}, {"g": {"session_timeout_ms": 90_000}}])
def test_sessions_of_members_that_were_loaded_were_those_of_the_defaults(own: dict[str, dict[str, int]]) -> None:
    """A member that beats once in a while by longer settings was expelled after each failover."""
    settings = ConsumerSettings(session_timeout_ms=120_000, max_session_timeout_ms=600_000, overrides=own)
    before = Broker(settings)
    assert before.ask(join()).error_code == 0
    after = Broker(settings, tuple(before.log))
    session, *_ = after.shard.coordinator.runtime.groups["g"].members["A"]
    assert session.due_ms == START.monotonic_ms + (90_000 if own else 120_000)


@pytest.mark.conformance("K-B-81")
def test_an_expression_that_took_hours_to_match_was_matched_for_hours(caplog: pytest.LogCaptureFixture) -> None:
    """It is given up, the log says so, and a later heartbeat tries again."""
    broker = Broker(ConsumerSettings())
    joined = broker.ask(join(subscribed_topic_names=None, subscribed_topic_regex="fo.*"))
    broker.is_late = True
    broker.work.pop()()
    assert (broker.matched, broker.work) == ([], [])
    assert "the expressions of group g could not be resolved" in caplog.text
    broker.is_late = False
    assert broker.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="A", member_epoch=joined.member_epoch))
    broker.work.pop()()
    assert broker.matched == [("foo",)]


def test_a_member_gets_the_partitions_that_are_led_in_its_rack() -> None:
    """Three of six are led in each rack. Two members come one after the other; without leaders told they get halves."""
    halves = {"A": [0, 1, 2], "B": [3, 4, 5]}
    for leaders, expected in (((), halves), (("r1", "r2") * 3, {"A": [0, 2, 4], "B": [1, 3, 5]})):
        told = (TopicLeaders("foo", leaders),) if leaders else ()
        broker = Broker(ConsumerSettings(assignment_interval_ms=0), leaders=told)
        broker.ask(join(rack_id="r1"))
        broker.ask(join(member_id="B", rack_id="r2"))
        (group,) = broker.ask(ConsumerGroupDescribeRequest(group_ids=["g"])).groups
        found = {each.member_id: each.target_assignment.topic_partitions[0].partitions for each in group.members}
        assert found == expected


@pytest.mark.parametrize("version", [0, 1])
def test_a_description_that_was_made_in_pieces_is_one_answer(version: int) -> None:
    broker = Broker(ConsumerSettings(), records=encode(records_of(1_000)))
    asked = ConsumerGroupDescribeRequest(group_ids=["none", GROUP, GROUP], include_authorized_operations=True)
    none, *found = broker.ask(asked, version).groups
    assert (none.error_code, none.members) == (69, [])
    for group in found:
        assert (group.group_id, group.group_state, group.assignor_name) == (GROUP, "Stable", "uniform")
        assert [each.member_id for each in group.members] == [f"m-{n:04}" for n in range(1_000)]
        assert [each.subscribed_topic_names for each in group.members] == [["foo"]] * 1_000
        assert group.authorized_operations == GROUP_OPERATIONS
