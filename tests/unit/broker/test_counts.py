"""A broker's counts: requests exactly, latencies in buckets, topics up to a limit, stalls."""

from __future__ import annotations

from collections import Counter

from actors.broker.connections.slots import SlotQueue
from actors.broker.counts import RequestCounts, StallCounts, TopicCounts
from actors.links.observations import LATENCY_BOUNDS_MS, TopicFigures
from actors.wire.api_keys import ApiKey
from actors.wire.messages import FetchResponse, HeartbeatResponse, MetadataResponse, ProduceResponse


def test_latencies_fall_into_the_bucket_whose_bound_they_do_not_pass() -> None:
    counts = RequestCounts()
    for ms in (0.2, 1.0, 1.001, 30_000, 30_001):
        counts.latencies[ApiKey.FETCH].add(ms / 1000)
    counts.requests[ApiKey.FETCH] = 80
    (row,) = counts.figures(Counter())
    assert (row.requests, row.timed, sum(row.buckets)) == (80, 5, 5)
    assert (row.buckets[0], row.buckets[1], row.buckets[-2], row.buckets[-1]) == (2, 1, 1, 1)
    assert len(row.buckets) == len(LATENCY_BOUNDS_MS) + 1


def test_an_answer_with_an_error_anywhere_is_one_request_with_an_error() -> None:
    counts = RequestCounts()
    part = ProduceResponse.PartitionProduceResponse
    good, bad = part(index=0), part(index=1, error_code=6)
    topic = ProduceResponse.TopicProduceResponse
    counts.answered(ApiKey.PRODUCE, ProduceResponse(responses=[topic(name="t", partition_responses=[good])]))
    assert counts.errors == {}
    answer = ProduceResponse(responses=[topic(name="t", partition_responses=[good, bad, bad])])
    counts.answered(ApiKey.PRODUCE, answer)
    counts.answered(ApiKey.FETCH, FetchResponse(error_code=70))
    unknown = MetadataResponse.MetadataResponseTopic(name="t", error_code=3)
    counts.answered(ApiKey.METADATA, MetadataResponse(topics=[unknown]))
    counts.answered(ApiKey.HEARTBEAT, HeartbeatResponse())
    assert counts.errors == {ApiKey.PRODUCE: 1, ApiKey.FETCH: 1, ApiKey.METADATA: 1}


def test_errors_that_shards_have_counted_are_added() -> None:
    counts = RequestCounts()
    counts.requests[ApiKey.HEARTBEAT] = 10
    counts.failed(ApiKey.HEARTBEAT)
    (row,) = counts.figures(Counter({ApiKey.HEARTBEAT: 3}))
    assert row.errors == 4


def test_beyond_the_limit_topics_are_counted_as_one_and_their_number_is_told() -> None:
    counts = TopicCounts(topics_max=2)
    for name in "abcd":
        counts.came(name, 2, 10)
    counts.went("a", 7)
    counts.went("d", 5)
    rows, left_out = counts.figures({"a", "b", "c", "d"})
    assert rows == (TopicFigures("a", 2, 10, 7), TopicFigures("b", 2, 10, 0), TopicFigures("", 4, 20, 5))
    assert left_out == 2
    rows, left_out = counts.figures({"a", "d"})
    assert ([row.name for row in rows], left_out) == (["a", ""], 1)
    counts.came("d", 1, 1)
    assert [row.name for row in counts.figures({"a", "d"})[0]] == ["a", "d", ""], "there is room again"


def test_late_ticks_are_stalls_from_a_tenth_of_a_second_on() -> None:
    stalls = StallCounts()
    assert [stalls.tick_late(seconds) for seconds in (-0.001, 0.099, 0.1, 0.35)] == [False, False, True, True]
    assert (stalls.figures.count, stalls.figures.total_ms, stalls.figures.longest_ms) == (2, 450.0, 350.0)


def test_a_timed_request_is_over_when_its_answer_leaves_and_not_before() -> None:
    queue, left = SlotQueue(), list[str]()
    first = queue.open(1, 12, 4, 1)
    second = queue.open(2, 12, 4, 2)
    queue.time_last(12, 2, lambda: left.append("second"))
    queue.time_last(12, 1, lambda: left.append("never: it is not the last"))
    second.finish(b"two")
    queue.take()
    assert left == [], "the one before it has no answer yet"
    first.finish(b"one")
    queue.take()
    assert left == ["second"]
    third = queue.open(3, 12, 4, 3)
    queue.time_last(12, 3, lambda: left.append("third"))
    queue.clear()
    third.finish(b"late")
    queue.take()
    assert left == ["second"], "its client has gone"
