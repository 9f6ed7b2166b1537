"""From options to ranges of offsets, and ranges to tasks. No Spark: only what is settled before it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.client import Admin, TopicPartition
from actors.client.errors import DataLossError, UnknownTopicOrPartitionError
from actors.client.records import OffsetRange
from actors.wire import messages as m
from spark_bridge.bounds import BoundError
from spark_bridge.options import OptionError, source_options
from spark_bridge.read import bounded_ranges, epoch_ms, merged
from spark_bridge.source import split_ranges
from tests.support.client_broker import ScriptedBroker


@pytest.fixture
def kafka(kafka: ScriptedBroker) -> ScriptedBroker:
    for partition, start, end in ((0, 10, 100), (1, 0, 50)):
        kafka.starts[TopicPartition("t", partition)] = start
        kafka.ends[TopicPartition("t", partition)] = end
    return kafka


def ranges(kafka: ScriptedBroker, **options: Any) -> list[tuple[int, int]]:
    """(from, until) of both partitions of t."""
    names = {name.replace("_", "."): value for name, value in options.items()}
    wanted = source_options({"subscribe": "t"} | names, streaming=False)
    with Admin(bootstrap_servers=kafka.bootstrap_servers, default_api_timeout_ms=5_000) as admin:
        found = bounded_ranges(admin, wanted)
    assert [(each.topic, each.partition) for each in found] == [("t", 0), ("t", 1)]
    return [(each.from_offset, each.until_offset) for each in found]


def test_by_default_all_there_is(kafka):
    assert ranges(kafka) == [(10, 100), (0, 50)]


def test_offsets_with_sparks_numbers_for_both_ends(kafka):
    assert ranges(kafka, startingOffsets={"t": {"0": 20, "1": -2}}, endingOffsets={"t": {"0": -1, "1": 30}}) == [
        (20, 100),
        (0, 30),
    ]


def test_a_group_begins_where_it_committed_and_elsewhere_at_the_starting_bound(kafka):
    kafka.committed = {TopicPartition("t", 0): 42}
    assert ranges(kafka, kafka_group_id="g") == [(42, 100), (0, 50)]
    both = {"t": {"0": 11, "1": 7}}
    assert ranges(kafka, kafka_group_id="g", startingOffsets=both) == [(42, 100), (7, 50)]


def test_a_group_past_the_end_asked_for_reads_nothing(kafka):
    kafka.committed = {TopicPartition("t", 0): 42, TopicPartition("t", 1): 50}
    assert ranges(kafka, kafka_group_id="g", endingOffsets={"t": {"0": 30, "1": -1}}) == [(42, 42), (50, 50)]


def test_a_group_past_the_last_stable_offset_has_lost_nothing(kafka):
    kafka.committed = {TopicPartition("t", 0): 95, TopicPartition("t", 1): 30}
    kafka.stable = {TopicPartition("t", 0): 80, TopicPartition("t", 1): 40}
    assert ranges(kafka, kafka_group_id="g", **{"kafka.isolation.level": "read_committed"}) == [(95, 95), (30, 40)]
    kafka.committed = {TopicPartition("t", 0): 101}
    with pytest.raises(DataLossError, match="t-0: offsets 101 to 80 are wanted"):
        ranges(kafka, kafka_group_id="g", **{"kafka.isolation.level": "read_committed"})


@pytest.mark.parametrize(
    ("options", "said", "left"),
    [
        ({"startingOffsets": {"t": {"0": 3, "1": 0}}}, "t-0: offsets 3 to 100 .* 10 to 100", [(10, 100), (0, 50)]),
        ({"endingOffsets": {"t": {"0": -1, "1": 60}}}, "t-1: offsets 0 to 60 .* 0 to 50", [(10, 100), (0, 50)]),
        ({"startingOffsets": {"t": {"0": 200, "1": 0}}}, "t-0: offsets 200 to 100", [(100, 100), (0, 50)]),
    ],
)
def test_offsets_outside_the_log_are_an_error_or_cut(kafka, options, said, left):
    with pytest.raises(DataLossError, match=said):
        ranges(kafka, **options)
    assert ranges(kafka, failOnDataLoss=False, **options) == left


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"t": {"0": 20}}, "startingOffsets leaves out t-1"),
        ({"t": {"0": 20, "1": 0, "2": 5}}, "startingOffsets names t-2"),
    ],
)
def test_offsets_must_name_the_partitions_there_are(kafka, given, said):
    with pytest.raises(BoundError, match=said):
        ranges(kafka, startingOffsets=given)


def test_times_are_looked_up_and_none_so_young_is_an_error(kafka):
    def at(offset: int) -> Any:
        def answer(request: Any) -> Any:
            part = m.ListOffsetsResponse
            (topic,) = request.topics
            assert {p.timestamp for p in topic.partitions} == {1_700_000_000_000}
            found = [
                part.ListOffsetsPartitionResponse(
                    partition_index=p.partition_index, offset=offset if p.partition_index else 15, timestamp=1
                )
                for p in topic.partitions
            ]
            return part(topics=[part.ListOffsetsTopicResponse(name="t", partitions=found)])

        return answer

    time = {"startingTimestamp": 1_700_000_000_000}
    kafka.script(m.ListOffsetsRequest, at(25))
    assert ranges(kafka, **time) == [(15, 100), (25, 50)]
    kafka.script(m.ListOffsetsRequest, at(-1))
    with pytest.raises(BoundError, match="startingTimestamp: t-1 has no record"):
        ranges(kafka, **time)
    kafka.script(m.ListOffsetsRequest, at(-1))
    assert ranges(kafka, startingOffsetsByTimestampStrategy="latest", **time) == [(15, 100), (50, 50)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "nowhere"}, "'nowhere' does not exist"),
        ({"subscribe": "t,nowhere"}, "'nowhere' does not exist"),
        ({"assign": {"t": [0, 5]}}, "'t' has no partition 5"),
        ({"subscribePattern": "x.*"}, "no topic matches subscribePattern=x"),
    ],
)
def test_a_missing_topic_is_named_and_never_made(kafka, options, said):
    wanted = source_options(options, streaming=False)
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        with pytest.raises(UnknownTopicOrPartitionError, match=said):
            bounded_ranges(admin, wanted)
    assert not any(r.allow_auto_topic_creation for r in kafka.requests(m.MetadataRequest) if r.topics)


def test_patterns_match_whole_names_and_leave_internal_topics_out(kafka):
    for name in ("tt", "xt", "__t"):
        kafka.topic(name)
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        found = bounded_ranges(admin, source_options({"subscribePattern": "_*t."}, streaming=False))
        assert {each.topic for each in found} == {"tt"}
        found = bounded_ranges(admin, source_options({"assign": {"t": [1], "xt": [0]}}, streaming=False))
        assert [(each.topic, each.partition) for each in found] == [("t", 1), ("xt", 0)]


def test_no_topic_at_all_is_an_error(kafka):
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin, pytest.raises(OptionError, match="no topic"):
        bounded_ranges(admin, source_options(streaming=False))


def test_an_argument_and_an_option_of_the_same_meaning_exclude_one_another():
    assert merged({"a": 1}, {"B": 2, "c": None}) == {"a": 1, "B": 2}
    with pytest.raises(OptionError, match="startingoffsets is given twice"):
        merged({"startingoffsets": "earliest"}, {"startingOffsets": "earliest"})


def test_times_may_be_datetimes_with_a_zone():
    assert epoch_ms(datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)) == 1_700_000_000_000
    assert epoch_ms(5) == 5
    assert epoch_ms(None) is None
    with pytest.raises(OptionError, match="time zone"):
        epoch_ms(datetime.datetime(2023, 11, 14))


# --- splitting ------------------------------------------------------------------------------------------------------


def test_enough_ranges_stay_as_they_are_and_empty_ones_go():
    given = [OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 5, 5), OffsetRange("t", 2, 0, 1)]
    assert split_ranges(given, None) == [given[0], given[2]]
    assert split_ranges(given, 1) == [given[0], given[2]]
    assert split_ranges([], 5) == []


def test_large_ranges_are_cut_in_proportion_to_their_size():
    given = [OffsetRange("t", 0, 0, 100), OffsetRange("t", 1, 0, 10), OffsetRange("t", 2, 50, 250)]
    found = split_ranges(given, 7)
    assert [each.size for each in found if each.partition == 0] == [50, 50]
    assert [each.size for each in found if each.partition == 1] == [10]
    assert [each.size for each in found if each.partition == 2] == [50, 50, 50, 50]


spans = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)), max_size=12)


@given(spans, st.integers(1, 60))
def test_the_parts_are_the_whole_and_none_is_empty(given, wanted):
    whole = [OffsetRange("t", n, start, start + size) for n, (start, size) in enumerate(given)]
    parts = split_ranges(whole, wanted)
    assert all(each.size for each in parts)
    for each in whole:
        mine = [part for part in parts if part.partition == each.partition]
        assert sum(part.size for part in mine) == each.size
        at = each.from_offset
        for part in mine:
            assert part.from_offset == at
            at = part.until_offset
    total, large = sum(each.size for each in whole), [each for each in whole if each.size]
    if total >= 60 * len(large):
        assert len(parts) >= min(wanted, 1) * len(large)
        assert len(parts) <= wanted + len(large)
