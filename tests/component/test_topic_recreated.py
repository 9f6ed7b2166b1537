"""A topic is deleted and created again while a consumer reads it. A position belongs to one topic, not to a name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from actors.client import Consumer, ConsumerRecord, OffsetAndMetadata
from actors.client.consumer.ranges import RangeReader
from actors.client.errors import CommitFailedError, DataLossError, TopicRecreatedError
from actors.client.records import OffsetRange
from actors.links.member_deaths import Committed, Note, Notes, Span
from actors.members.pools.deaths import Deaths
from actors.members.pools.handler_member import MemberLoop, MemberSpec
from actors.wire import messages as m
from tests.support.consuming import T0, Recorder, consumer, poll_until, read
from tests.support.recreating_broker import RecreatingBroker, recreating

__all__ = ["recreating"]

OLD = [b"old %d" % n for n in range(100)]
NEW = [b"new %d" % n for n in range(150)]


def subscribed(kafka: RecreatingBroker, **settings: Any) -> Consumer:
    return consumer(kafka, "t", group_id="g", metadata_max_age_ms=50, **settings)


def assigned(kafka: RecreatingBroker, **settings: Any) -> Consumer:
    made = consumer(kafka, metadata_max_age_ms=50, **settings)
    made.assign([T0])
    return made


def sought(kafka: RecreatingBroker, **settings: Any) -> Consumer:
    made = assigned(kafka, **settings)
    made.seek(T0, 0)
    return made


def all_of(reader: Consumer, wanted: list[bytes]) -> list[bytes]:
    """The values read until all wanted ones were there. By name, the new topic's end may come before its beginning."""
    seen: list[bytes] = []
    while not set(wanted).issubset(seen):
        seen += [record.value for record in read(reader, 1)]
    return seen


WAYS = pytest.mark.parametrize("make", [subscribed, assigned, sought])
Make = Callable[..., Consumer]


@WAYS
def test_the_first_records_of_a_topic_made_anew_were_never_seen(
    recreating: RecreatingBroker, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    recreating.append("t", 0, *OLD)
    with caplog.at_level(logging.WARNING), make(recreating) as reader:
        assert [r.value for r in read(reader, len(OLD))] == OLD
        recreating.recreate("t", *NEW)
        assert all_of(reader, NEW)[-len(NEW) :] == NEW
    assert caplog.text.count("deleted and created again: t;") == 1


@WAYS
def test_without_a_reset_policy_a_topic_made_anew_was_no_error(recreating: RecreatingBroker, make: Make) -> None:
    recreating.append("t", 0, *OLD)
    recreating.committed[T0] = 0
    with (
        sought(recreating, auto_offset_reset="none")
        if make is assigned
        else make(recreating, auto_offset_reset="none") as reader
    ):
        read(reader, len(OLD))
        recreating.recreate("t", *NEW)
        with pytest.raises(TopicRecreatedError, match="deleted and created again: t") as raised:
            poll_until(reader, lambda: False)
        assert isinstance(raised.value, DataLossError)
        assert raised.value.topics == ["t"]
        with pytest.raises(TopicRecreatedError):
            reader.poll(0)  # it goes on saying so
        reader.seek(T0, 10)
        assert [r.value for r in read(reader, len(NEW) - 10)] == NEW[10:], "a seek after the error is in the new topic"


def test_a_seek_before_the_change_is_known_was_one_in_the_new_topic(recreating: RecreatingBroker) -> None:
    """As a pool seeks back to the first record that it has not handled: an offset of the old topic."""
    recreating.append("t", 0, *OLD)
    with consumer(recreating) as reader:
        reader.assign([T0])
        read(reader, len(OLD))
        reader.pause(T0)
        recreating.recreate("t", *NEW)
        reader.topic_ids(["t"])
        reader.seek(T0, 50)
        reader.resume(T0)
        assert [r.value for r in read(reader, len(NEW))] == NEW


def test_offsets_of_a_deleted_topic_became_those_of_the_new_one(recreating: RecreatingBroker) -> None:
    """Of every way to commit, once the consumer knows."""
    recreating.append("t", 0, *OLD)
    with subscribed(recreating, enable_auto_commit=False) as reader:
        read(reader, len(OLD))
        reader.commit()
        assert recreating.stored("t") == 100
        recreating.recreate("t", *NEW)
        assert reader.topic_ids(["t"]) == {"t": recreating.ids["t"]}
        with pytest.raises(CommitFailedError, match="t-0 belonged to a topic that was deleted"):
            reader.commit({T0: OffsetAndMetadata(100)})
        reader.commit()  # all positions: none is left
        ended: list[Any] = []
        reader.commit_async({T0: OffsetAndMetadata(100)}, lambda offsets, error: ended.append(error))
        poll_until(reader, lambda: ended)
        assert isinstance(ended[0], CommitFailedError)
        assert recreating.stored("t") is None
        poll_until(reader, lambda: reader.position(T0) == len(NEW))
        reader.commit()
        assert recreating.stored("t") == len(NEW)


@pytest.mark.parametrize("recreating", [True], indirect=True)
def test_a_commit_that_races_the_deletion_is_refused_by_the_coordinator(recreating: RecreatingBroker) -> None:
    """The consumer does not know yet: what it commits names the topic it has read by id."""
    recreating.append("t", 0, *OLD)
    with consumer(recreating, "t", group_id="g", enable_auto_commit=False) as reader:
        read(reader, len(OLD))
        reader.pause(T0)
        recreating.recreate("t", *NEW)
        with pytest.raises(CommitFailedError, match="t-0 belonged to a topic that was deleted"):
            reader.commit({T0: OffsetAndMetadata(100)})
    assert set(recreating.refused) == {100}
    assert recreating.stored("t") is None


def test_a_topic_that_was_away_for_a_while_came_back_without_a_word(
    recreating: RecreatingBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """The group gives up its partitions, and gets them again as new ones."""
    recreating.append("t", 0, *OLD)
    with caplog.at_level(logging.WARNING), subscribed(recreating) as reader:
        read(reader, len(OLD))
        recreating.delete("t")
        poll_until(reader, lambda: not reader.assignment())
        recreating.topic("t")
        recreating.append("t", 0, *NEW)
        assert [r.value for r in read(reader, len(NEW))] == NEW
    assert "deleted and created again: t;" in caplog.text


def test_automatic_commits_carried_old_offsets_into_the_new_topic(recreating: RecreatingBroker) -> None:
    recreating.append("t", 0, *OLD)
    with subscribed(recreating, enable_auto_commit=True, auto_commit_interval_ms=1) as reader:
        read(reader, len(OLD))
        poll_until(reader, lambda: recreating.stored("t") == len(OLD))
        reader.pause(T0)
        recreating.recreate("t", *NEW)
        reader.topic_ids(["t"])
        # A commit on its way is refused by the old topic's id; by name it is taken, but only this once.
        poll_until(reader, lambda: recreating.stored("t") == 0)
        seen = len(recreating.requests(m.OffsetCommitRequest))
        poll_until(reader, lambda: len(recreating.requests(m.OffsetCommitRequest)) > seen + 1)
        assert recreating.stored("t") == 0, "the start of the new topic"


def test_a_listener_hears_that_partitions_belong_to_a_new_topic(recreating: RecreatingBroker) -> None:
    recreating.append("t", 0, *OLD)
    heard = Recorder()
    with consumer(recreating, group_id="g", metadata_max_age_ms=50) as reader:
        reader.subscribe(["t"], listener=heard)
        read(reader, len(OLD))
        recreating.recreate("t", *NEW)
        all_of(reader, NEW)
    assert heard.calls[:3] == [("assigned", [T0]), ("lost", [T0]), ("assigned", [T0])]


def test_a_listener_without_the_newer_method_hears_of_it_too(recreating: RecreatingBroker) -> None:
    class Old:
        def __init__(self) -> None:
            self.calls: list[str] = []

        def on_partitions_revoked(self, revoked: list[Any]) -> None:
            self.calls.append("revoked")

        def on_partitions_assigned(self, assigned: list[Any]) -> None:
            self.calls.append("assigned")

    heard: Any = Old()
    recreating.append("t", 0, *OLD)
    with consumer(recreating, group_id="g", metadata_max_age_ms=50) as reader:
        reader.subscribe(["t"], listener=heard)
        read(reader, len(OLD))
        recreating.recreate("t", *NEW)
        all_of(reader, NEW)
    assert heard.calls[:3] == ["assigned", "revoked", "assigned"]


@pytest.mark.parametrize("recreating", [True], indirect=True)
def test_committed_offsets_are_asked_for_by_id(recreating: RecreatingBroker) -> None:
    """Thus a broker that keeps offsets of deleted topics for a while gives none of them."""
    recreating.append("t", 0, *OLD)
    with subscribed(recreating) as reader:
        read(reader, 1)
        reader.commit()
        assert reader.committed(T0) is not None
    asked = recreating.requests(m.OffsetFetchRequest)[-1].groups[0].topics
    assert [(topic.name, topic.topic_id) for topic in asked] == [("t", recreating.ids["t"])]
    committed = recreating.requests(m.OffsetCommitRequest)[0].topics
    assert [(topic.name, topic.topic_id) for topic in committed] == [("t", recreating.ids["t"])]


# --- who is built upon it ---


@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_a_pool_passed_over_the_first_records_of_a_topic_made_anew(recreating: RecreatingBroker, policy: str) -> None:
    recreating.append("t", 0, *OLD)
    recreating.committed[T0] = 0
    handled: list[bytes] = []

    def handle(record: ConsumerRecord) -> None:
        handled.append(record.value)
        if handled.count(OLD[-1]) == 1 and record.value == OLD[-1]:
            recreating.recreate("t", *NEW)
        if record.value == NEW[-1] and set(NEW).issubset(handled):
            loop.stop()

    options = {"auto_offset_reset": policy, "metadata_max_age_ms": 50, "fetch_max_wait_ms": 50, "retry_backoff_ms": 20}
    loop = MemberLoop(MemberSpec(("t",), "g", recreating.bootstrap_servers, options=options), handle)
    loop.run()
    if policy == "none":
        assert "deleted and created again: t" in str(loop.report().error)
    else:
        assert loop.report().error is None
        assert recreating.stored("t") == len(NEW)


def noted(topic_id: bytes, partition: int = 0) -> Note:
    return Note(Span("t", partition, 5, 6, topic_id), 3, "it was gone")


@pytest.mark.parametrize("recreating", [True], indirect=True)
@pytest.mark.parametrize("when", ["while a member reads it", "before any member begins"])
def test_a_record_of_a_topic_made_anew_was_set_aside_for_what_was_noted_of_the_old_one(
    recreating: RecreatingBroker, when: str
) -> None:
    """It had never been handled."""
    handled: list[bytes] = []
    said: list[Committed] = []
    recreating.append("t", 0, *OLD[:5])
    old = recreating.ids["t"]
    if when == "before any member begins":
        recreating.recreate("t", *NEW)

    def handle(record: ConsumerRecord) -> None:
        handled.append(record.value)
        if record.value == OLD[4]:
            recreating.recreate("t", *NEW)
        if set(NEW).issubset(handled):
            loop.stop()

    options = {"metadata_max_age_ms": 50, "fetch_max_wait_ms": 50, "retry_backoff_ms": 20}
    notes = Notes(1, (noted(old),))
    spec = MemberSpec(("t",), "g", recreating.bootstrap_servers, options=options, notes=notes)
    loop = MemberLoop(spec, handle)
    loop.report_to(lambda each: said.append(each) if isinstance(each, Committed) else None)
    loop.run()
    assert loop.report().error is None
    assert set(NEW).issubset(handled)
    deaths = Deaths(notes.notes)
    for each in said:
        deaths.passed(each)
    assert deaths.notes.notes == (), "the pool was told that it is over"


def test_a_record_that_is_noted_of_the_topic_as_it_is_is_set_aside(recreating: RecreatingBroker) -> None:
    recreating.append("t", 0, *OLD[:10])
    notes = Notes(1, (noted(recreating.ids["t"]),))
    handled: list[bytes] = []
    loop = MemberLoop(
        MemberSpec(("t",), "g", recreating.bootstrap_servers, notes=notes), lambda record: handled.append(record.value)
    )
    loop.run()
    assert "t-0 offset 5" in str(loop.report().error)
    assert handled == OLD[:5]


@pytest.mark.parametrize("recreating", [True], indirect=True)
@pytest.mark.parametrize("which", ["named by the range", "begun in"])
@pytest.mark.parametrize("fail", [True, False])
def test_a_range_had_records_of_two_topics(recreating: RecreatingBroker, fail: bool, which: str) -> None:
    for at in range(0, len(OLD), 20):
        recreating.append("t", 0, *OLD[at : at + 20])
    recreating.script(m.FetchRequest, lambda _: None, lambda _: recreating.recreate("t", *NEW))
    wanted = OffsetRange("t", 0, 0, 100, recreating.ids["t"] if which == "named by the range" else b"")
    settings = {"max_partition_fetch_bytes": 1, "fail_on_data_loss": fail, "settle_ms": 100, "retry_backoff_ms": 10}
    with RangeReader(recreating.bootstrap_servers, metadata_max_age_ms=20, **settings) as reader:
        reading = reader.read([wanted])
        first = next(reading)
        assert first.column("value").to_pylist() == OLD[:20]
        if fail:
            with pytest.raises(DataLossError, match="the topic of this name is another one"):
                list(reading)
        else:
            assert list(reading) == []


def test_a_range_of_a_deleted_topic_is_a_loss_from_the_beginning(recreating: RecreatingBroker) -> None:
    wanted = OffsetRange("t", 0, 0, 100, recreating.ids["t"])
    recreating.recreate("t", *NEW)
    with (
        RangeReader(recreating.bootstrap_servers, settle_ms=100) as reader,
        pytest.raises(DataLossError, match=r"t-0: offsets 0 to 100 are wanted, but the topic of this name is another"),
    ):
        list(reader.read([wanted]))


def test_a_reader_that_was_kept_reads_the_new_topic_when_it_is_asked_to(recreating: RecreatingBroker) -> None:
    recreating.append("t", 0, *OLD)
    with RangeReader(recreating.bootstrap_servers, settle_ms=5_000, retry_backoff_ms=10) as reader:
        list(reader.read([OffsetRange("t", 0, 0, 100, recreating.ids["t"])]))
        recreating.recreate("t", *NEW)
        for topic_id in (recreating.ids["t"], b""):
            (batch,) = reader.read([OffsetRange("t", 0, 0, 150, topic_id)])
            assert batch.column("value").to_pylist() == NEW
