"""A handler's context, what it produces, and its hooks. No broker."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from actors import CoterieError
from actors.client import ConsumerRecord
from actors.client.errors import KafkaTimeoutError, MessageTooLargeError
from actors.members.pools.handling.context import Context
from tests.support.member import T0, Flaky, Member, record


def commits(member: Member) -> list[Any]:
    return [entry for entry in member.log if isinstance(entry, tuple) and entry[0].startswith("commit")]


def test_a_context_says_where_a_record_comes_from_and_which_try_it_is() -> None:
    seen: list[Context] = []

    def handle(each: ConsumerRecord, context: Context) -> None:
        seen.append(context)
        if context.attempt == 1:
            raise ValueError("once")

    member = Member(handle, [{T0: [record(5, headers=[("trace", b"x")])._replace(timestamp=77)]}])
    member.run()
    assert [context.attempt for context in seen] == [1, 2]
    context = seen[0]
    assert (context.topic, context.partition, context.offset, context.next_offset) == ("t", 0, 5, 6)
    assert (context.timestamp, context.headers) == (77, [("trace", b"x")])
    assert context.stop.is_set(), "the member has stopped by now"


def test_a_batchs_context_is_that_of_its_first_record() -> None:
    seen: list[Context] = []
    rows = [record(5, headers=[("trace", b"x")]), record(9)]
    member = Member(lambda _, context: seen.append(context), [{T0: rows}], batch_format="records")
    member.run()
    assert (seen[0].offset, seen[0].next_offset, seen[0].headers) == (5, 10, ())


def copying(each: ConsumerRecord, context: Context) -> None:
    context.produce("out", each.value, key=each.key, headers=[("from", b"t")])
    context.produce("log", b"seen")


async def copying_async(each: ConsumerRecord, context: Context) -> None:
    await asyncio.sleep(0)
    copying(each, context)


@pytest.mark.parametrize("handler", [copying, copying_async])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_what_a_handler_produces_is_sent_in_order_by_an_idempotent_producer(handler: Any, concurrency: int) -> None:
    member = Member(handler, [], concurrency=concurrency, producer_options={"linger_ms": 3})
    rows = [record(i)._replace(key=b"k") for i in range(3)]
    member.consumer.polls += [{T0: rows}, *({} for _ in range(2))]
    while_handling = threading.Event()

    def all_handled() -> None:
        while member.loop.report().handled < 3:
            assert not while_handling.wait(0.001)

    member.consumer.polls += [all_handled]
    member.run()
    assert [sent["value"] for sent in member.producer.sent] == [b"v0", b"seen", b"v1", b"seen", b"v2", b"seen"]
    first = member.producer.sent[0]
    assert (first["topic"], first["key"], first["headers"]) == ("out", b"k", [("from", b"t")])
    options = member.producer_options
    assert (options["acks"], options["enable_idempotence"], options["linger_ms"]) == ("all", True, 3)
    assert member.committed == {T0: 3}


def test_offsets_are_not_committed_before_the_output_is_acknowledged() -> None:
    member = Member(copying, [])
    member.producer.is_done = False

    def acknowledge() -> None:
        assert commits(member) == []
        member.producer.is_done = True

    member.consumer.polls += [{T0: [record(1)]}, {}, acknowledge, {}]
    member.run()
    assert commits(member)[0] == ("commit_async", {T0: 2})


def test_a_partition_is_given_up_when_its_output_is_acknowledged_and_its_offset_committed() -> None:
    member = Member(copying, [])
    member.producer.is_done = False
    member.producer.get = lambda timeout: setattr(member.producer, "is_done", True)  # type: ignore[method-assign]
    member.consumer.polls += [{T0: [record(1)]}, lambda: member.consumer.listener.on_partitions_revoked([T0])]
    member.run()
    assert commits(member)[0] == ("commit", {T0: 2})


def test_an_output_that_is_not_acknowledged_stops_the_member_before_the_commit() -> None:
    member = Member(copying, [{T0: [record(1)]}, {}])
    member.producer.error = KafkaTimeoutError("not delivered")
    report = member.run()
    assert report.state == "Failed"
    assert "what was produced from t-0 offset 1 is not written: KafkaTimeoutError" in report.error
    assert commits(member) == []


def test_an_output_that_cannot_be_sent_is_a_failure_of_the_handler() -> None:
    member = Member(copying, [{T0: [record(1)]}], max_retries=1)
    member.producer.send_error = MessageTooLargeError("too large")
    report = member.run()
    assert report.state == "Failed"
    assert "the handler failed at t-0 offset 1: MessageTooLargeError" in report.error


def test_of_a_try_that_failed_nothing_is_written() -> None:
    def handle(each: ConsumerRecord, context: Context) -> None:
        context.produce("out", b"try %d" % context.attempt)
        if context.attempt < 3:
            raise ValueError("not yet")

    member = Member(handle, [{T0: [record(1)]}])
    member.run()
    assert [sent["value"] for sent in member.producer.sent] == [b"try 3"]


def test_after_its_handler_has_returned_a_context_takes_no_output() -> None:
    kept: list[Context] = []
    Member(lambda _, context: kept.append(context), [{T0: [record(1)]}]).run()
    with pytest.raises(CoterieError, match="has returned"):
        kept[0].produce("out", b"late")


# --- setup and teardown ---


class Resource:
    """Opens something before the first record and closes it after the last."""

    def __init__(self, log: list[Any], broken: bool = False) -> None:
        self.log = log
        self.broken = broken

    def setup(self) -> None:
        self.log.append("setup")
        if self.broken:
            raise OSError("no such model")

    def __call__(self, each: ConsumerRecord) -> None:
        self.log.append(each.offset)

    def on_revoked(self, partitions: list[Any]) -> None:
        self.log.append("revoked")

    def teardown(self) -> None:
        self.log.append("teardown")

    def close(self) -> None:
        self.log.append("close")


class AsyncResource(Resource):
    async def setup(self) -> None:  # type: ignore[override]
        self.loop = asyncio.get_running_loop()
        super().setup()

    async def __call__(self, each: ConsumerRecord) -> None:  # type: ignore[override]
        assert asyncio.get_running_loop() is self.loop
        super().__call__(each)

    async def teardown(self) -> None:  # type: ignore[override]
        assert asyncio.get_running_loop() is self.loop
        super().teardown()


@pytest.mark.parametrize("handler", [Resource, AsyncResource])
def test_a_handler_is_set_up_before_the_first_record_and_torn_down_after_the_last(handler: Any) -> None:
    log: list[Any] = []
    member = Member(handler, [{T0: [record(1)]}], handler_args=(log,))
    member.consumer.on_close = lambda: member.consumer.listener.on_partitions_revoked([T0])
    assert member.run().state == "Stopped"
    assert log == ["setup", 1, "revoked", "teardown", "close"]


def test_a_handler_that_cannot_be_set_up_stops_its_member_before_it_joins() -> None:
    log: list[Any] = []
    member = Member(Resource, [{T0: [record(1)]}], handler_args=(log, True))
    report = member.run()
    assert (report.state, report.error) == ("Failed", "no such model")
    assert log == ["setup", "close"]
    assert not any(entry[0] == "subscribe" for entry in member.log)


def test_a_dead_letter_and_an_output_have_one_producer() -> None:
    flaky = Flaky(v1=99)

    def handle(each: ConsumerRecord, context: Context) -> None:
        flaky.one(each)
        context.produce("out", each.value)

    member = Member(handle, [{T0: [record(1), record(2)]}], max_retries=0, dead_letter_topic="dlq")
    member.run()
    assert [sent["topic"] for sent in member.producer.sent] == ["dlq", "out"]
    assert member.log.count("producer closed") == 1
