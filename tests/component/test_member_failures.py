"""Records that a handler or a deserializer fails on: retries, dead letters, batches taken apart. No broker."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pyarrow as pa
import pytest

from actors.client import ConsumerRecord
from actors.client.errors import ConfigurationError, KafkaTimeoutError
from actors.links.member import CODEC
from actors.members.pools.handler_member import HandlerFailedError
from tests.support.member import T0, T1, Flaky, Member, arrow, forgotten, record

# --- failures ---


def test_a_record_is_tried_again_with_growing_pauses() -> None:
    handler = Flaky(v1=3)
    member = Member(handler.one, [{T0: [record(1), record(2)]}], max_retries=3, retry_backoff_ms=100)
    report = member.run()
    assert handler.handled == [b"v1", b"v2"]
    assert member.sleeps == [0.1, 0.2, 0.4]
    assert (report.state, report.handled) == ("Stopped", 2)


def test_a_record_that_cannot_be_handled_stops_the_member_and_is_not_committed() -> None:
    handler = Flaky(v2=99)
    member = Member(handler.one, [{T0: [record(1), record(2), record(3)]}], max_retries=2)
    report = member.run()
    assert handler.handled == [b"v1"]
    assert member.committed == {T0: 2}
    assert report.state == "Failed"
    assert "t-0 offset 2" in report.error
    assert "cannot do b'v2'" in report.error
    assert handler.calls == 1 + 3
    assert member.consumer.closed == 1


def test_a_member_has_failed_when_what_it_has_done_is_committed() -> None:
    """Its supervisor then removes it from the group; a commit after that would be refused."""
    seen: list[str] = []
    member = Member(Flaky(v2=99).one, [{T0: [record(1), record(2)]}], max_retries=0)
    member.consumer.on_close = lambda: seen.append(member.loop.report().state)
    assert member.run().state == "Failed"
    assert seen == ["Failing"]


def test_a_failed_attempt_is_logged_with_its_record(caplog: pytest.LogCaptureFixture) -> None:
    member = Member(Flaky(v7=1).one, [{T1: [record(7, 1)]}])
    with caplog.at_level("ERROR"):
        member.run()
    assert "t-1 offset 7 (attempt 1 of 4)" in caplog.text
    assert "cannot do b'v7'" in caplog.text


def test_stopping_while_a_record_fails_leaves_it_for_its_next_owner() -> None:
    handler = Flaky(v2=99)
    member = Member(handler.one, [{T0: [record(1), record(2), record(3)]}])
    member.on_sleep = lambda: member.loop.stop()
    report = member.run()
    assert handler.handled == [b"v1"]
    assert member.committed == {T0: 2}
    assert report.state == "Stopped"


def test_a_handler_that_ends_its_process_is_seen_to_have_failed() -> None:
    def leave(_: ConsumerRecord) -> None:
        raise SystemExit(3)

    report = Member(leave, [{T0: [record(1)]}]).run()
    assert report.state == "Failed"


class SilentError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "text"), [(ValueError("bad \udcff"), r"ValueError: bad \udcff"), (SilentError(), "SilentError")]
)
def test_any_error_of_a_handler_can_be_reported_and_sent_to_the_dead_letter_topic(
    error: Exception, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread that reports died of its text, and the member was started again for ever."""
    caplog.set_level(logging.CRITICAL)  # pytest's processes cannot send each other such a text either

    def fail(_: ConsumerRecord) -> None:
        raise error

    report = Member(fail, [{T0: [record(1)]}], max_retries=0).run()
    assert report.state == "Failed"
    assert report.error.endswith(text)
    CODEC.encode(report)
    member = Member(fail, [{T0: [record(1)]}], max_retries=0, dead_letter_topic="dlq")
    assert member.run().state == "Stopped"
    (letter,) = member.producer.sent
    assert text.encode() in dict(letter["headers"])["coterie.error"]


def test_the_error_travels_between_processes() -> None:
    error = HandlerFailedError("t", 3, 14, ValueError("no"))
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.topic, copy.partition, copy.offset) == ("t", 3, 14)


def test_closing_goes_on_whatever_fails_on_the_way() -> None:
    class Bad:
        def __call__(self, each: ConsumerRecord) -> None: ...

        def close(self) -> None:
            raise RuntimeError("cannot even close")

    member = Member(Bad, [{T0: [record(1)]}])
    member.consumer.commit_error = OSError("no network")
    member.run()
    assert member.consumer.closed == 1


# --- dead letters ---


def test_a_dead_letter_carries_the_record_and_where_it_came_from() -> None:
    handler = Flaky(v2=99)
    bad = record(2, headers=[("trace", b"abc")])
    member = Member(handler.one, [{T0: [record(1), bad, record(3)]}], dead_letter_topic="dlq", max_retries=1)
    report = member.run()
    assert handler.handled == [b"v1", b"v3"]
    assert member.committed == {T0: 4}
    (letter,) = member.producer.sent
    assert (letter["topic"], letter["key"], letter["value"]) == ("dlq", b"k2", b"v2")
    assert letter["headers"] == [
        ("trace", b"abc"),
        ("coterie.topic", b"t"),
        ("coterie.partition", b"0"),
        ("coterie.offset", b"2"),
        ("coterie.error", b"RuntimeError: cannot do b'v2'"),
    ]
    assert member.producer_options["acks"] == "all"
    assert member.producer_options["environment"] is member.environment
    assert (report.dead_letters, report.handled) == (1, 2)
    stored = member.log.index("dead letter stored")
    assert not any(entry[1].get(T0, 0) > 2 for entry in member.log[:stored] if isinstance(entry[1], dict))


def test_a_dead_letter_that_cannot_be_stored_stops_the_member_before_the_commit() -> None:
    member = Member(Flaky(v1=99).one, [{T0: [record(1)]}], dead_letter_topic="dlq", max_retries=0)
    member.producer.error = KafkaTimeoutError("dlq is gone")
    report = member.run()
    assert report.state == "Failed"
    assert member.committed == {}


# --- deserializers ---


def number(data: bytes) -> int:
    return int(data[1:])


class Named:
    """A deserializer that wants to know the topic."""

    def deserialize(self, topic: str, data: bytes) -> tuple[str, bytes]:
        return topic, data


def test_a_handler_gets_what_the_deserializers_made() -> None:
    seen: list[Any] = []
    polls = [{T0: [record(5), record(6)._replace(key=None, value=None)]}]
    options = {"key_deserializer": Named(), "value_deserializer": number}
    member = Member(lambda each: seen.append((each.offset, each.key, each.value)), polls, options=options)
    report = member.run()
    assert seen == [(5, ("t", b"k5"), 5), (6, None, None)]
    assert report.handled == 2
    assert not options.keys() & member.consumer.options.keys(), "the consumer would apply them too"


def test_a_dead_letter_is_the_record_as_it_was_before_its_deserializers() -> None:
    """The deserialized value could not be sent: each member in turn failed at the same record."""

    def handle(each: ConsumerRecord) -> None:
        raise RuntimeError(f"cannot do {each.value}")

    options = {"key_deserializer": Named(), "value_deserializer": number}
    member = Member(handle, [{T0: [record(2)]}], dead_letter_topic="dlq", max_retries=0, options=options)
    report = member.run()
    (letter,) = member.producer.sent
    assert (letter["key"], letter["value"]) == (b"k2", b"v2")
    assert dict(letter["headers"])["coterie.error"] == b"RuntimeError: cannot do 2"
    assert (report.state, report.dead_letters) == ("Stopped", 1)


@pytest.mark.parametrize("batch_format", ["record", "records"])
def test_a_record_on_which_the_deserializer_fails_is_tried_again_and_becomes_a_dead_letter(batch_format: Any) -> None:
    handled: list[int] = []

    def handle(given: Any) -> None:
        handled.extend(each.value for each in (given if isinstance(given, list) else [given]))

    bad = record(2)._replace(value=b"vX")
    member = Member(
        handle,
        [{T0: [record(1), bad, record(3)]}],
        batch_format=batch_format,
        dead_letter_topic="dlq",
        max_retries=1,
        options={"value_deserializer": number},
    )
    report = member.run()
    assert handled == [1, 3]
    assert [letter["value"] for letter in member.producer.sent] == [b"vX"]
    assert dict(member.producer.sent[0]["headers"])["coterie.error"].startswith(b"SerializationError: ")
    assert member.committed == {T0: 4}
    assert report.state == "Stopped"
    assert member.sleeps


def test_without_a_dead_letter_topic_the_record_on_which_the_deserializer_fails_is_named() -> None:
    polls = [{T0: [record(1), record(2)._replace(value=b"vX")]}]
    report = Member(lambda _: None, polls, max_retries=0, options={"value_deserializer": number}).run()
    assert report.state == "Failed"
    assert "t-0 offset 2: SerializationError" in report.error


def test_what_is_no_deserializer_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="value_deserializer"):
        Member(print, [], options={"value_deserializer": "utf-8"})


# --- batches ---


def test_a_batch_is_of_one_partition() -> None:
    seen: list[list[tuple[int, int]]] = []
    member = Member(
        lambda records: seen.append([(r.partition, r.offset) for r in records]),
        [{T0: [record(1), record(2)], T1: [record(1, 1)]}],
        batch_format="records",
    )
    report = member.run()
    assert seen == [[(0, 1), (0, 2)], [(1, 1)]]
    assert report.handled == 3


def test_a_failing_batch_is_taken_apart_to_find_the_bad_record() -> None:
    handler = Flaky(v3=99)
    polls = [{T0: [record(i) for i in range(1, 6)]}]
    member = Member(handler.many, polls, batch_format="records", dead_letter_topic="dlq", max_retries=1)
    report = member.run()
    assert handler.handled == [b"v1", b"v2", b"v4", b"v5"]
    assert [letter["value"] for letter in member.producer.sent] == [b"v3"]
    assert member.committed == {T0: 6}
    assert (report.handled, report.dead_letters) == (4, 1)


def test_a_bad_record_in_a_batch_stops_the_member_with_all_before_it_committed() -> None:
    handler = Flaky(v3=99)
    member = Member(handler.many, [{T0: [record(i) for i in range(1, 6)]}], batch_format="records", max_retries=0)
    report = member.run()
    assert handler.handled == [b"v1", b"v2"]
    assert member.committed == {T0: 3}
    assert "t-0 offset 3" in report.error


def test_stopping_while_a_batch_is_taken_apart_commits_nothing_that_was_not_handled() -> None:
    handler = Flaky(v1=99)
    member = Member(handler.many, [{T0: [record(i) for i in range(1, 6)]}], batch_format="records", max_retries=1)
    # The batch has failed twice; the stop comes while its first record is being tried again.
    member.on_sleep = lambda: member.loop.stop() if len(member.sleeps) == 2 else None
    report = member.run()
    assert handler.handled == []
    assert member.committed == {}
    assert report.state == "Stopped"


# --- Arrow ---


def test_arrow_batches_are_handed_over_by_partition() -> None:
    seen: list[tuple[list[int], list[bytes]]] = []
    member = Member(
        lambda batch: seen.append((batch.column("partition").to_pylist(), batch.column("value").to_pylist())),
        [arrow([(0, 5, b"a"), (0, 6, b"b"), (1, 2, b"c")])],
        batch_format="pyarrow",
    )
    report = member.run()
    assert seen == [([0, 0], [b"a", b"b"]), ([1], [b"c"])]
    assert member.committed == {T0: 7, T1: 3}
    assert report.handled == 3


def test_a_bad_row_of_an_arrow_batch_becomes_a_dead_letter() -> None:
    handled: list[bytes] = []

    def handle(batch: pa.RecordBatch) -> None:
        values = batch.column("value").to_pylist()
        if b"bad" in values:
            raise ValueError("bad row")
        handled.extend(values)

    member = Member(
        handle,
        [arrow([(0, 5, b"a"), (0, 6, b"bad"), (0, 9, b"c")])],
        batch_format="pyarrow",
        dead_letter_topic="dlq",
        max_retries=0,
    )
    member.run()
    assert handled == [b"a", b"c"]
    (letter,) = member.producer.sent
    assert (letter["key"], letter["value"]) == (b"k", b"bad")
    assert dict(letter["headers"])["coterie.offset"] == b"6"
    assert member.committed == {T0: 10}


@pytest.mark.parametrize("handler", [lambda each: (each for _ in "x"), lambda each: map(str, each), forgotten])
def test_a_record_whose_work_was_returned_undone_counted_as_handled(handler: Any) -> None:
    member = Member(handler, [{T0: [record(1), record(2)]}], dead_letter_topic="dlq", max_retries=0)
    report = member.run()
    assert (report.handled, report.dead_letters) == (0, 2)
    told = dict(member.producer.sent[0]["headers"])["coterie.error"]
    assert b"TypeError: the handler has returned a" in told
