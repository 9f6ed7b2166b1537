"""The commits of groups for Spark's own streaming queries, by Spark's reports on their batches."""

from __future__ import annotations

import json
from typing import Any

from actors.client import TopicPartition
from spark_bridge.progress import GroupOffsets, Positions, group_of, offsets_of

KAFKA = "KafkaV2[Subscribe[orders]]"
T0, T1, U0 = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("refunds", 0)


def source(description: str = KAFKA, **topics: dict[str, int]) -> tuple[str, Any]:
    return description, json.dumps(topics)


def test_end_offsets_are_the_next_to_read_as_a_group_commits_them() -> None:
    assert offsets_of([source(orders={"0": 5, "1": 0})]) == {T0: 5, T1: 0}


def test_what_json_means_is_understood_as_json_is() -> None:
    assert offsets_of([(KAFKA, {"orders": {"0": 5}})]) == {T0: 5}


def test_several_sources_of_a_query_are_taken_together() -> None:
    assert offsets_of([source(orders={"0": 5}), source("KafkaV2[x]", refunds={"0": 7})]) == {T0: 5, U0: 7}


def test_of_two_sources_of_one_topic_the_one_behind_counts() -> None:
    ahead, behind = source(orders={"0": 9, "1": 1}), source(orders={"0": 5, "1": 4})
    assert offsets_of([ahead, behind]) == offsets_of([behind, ahead]) == {T0: 5, T1: 1}


def test_what_is_not_kafka_s_or_has_not_begun_says_nothing() -> None:
    others = [
        ("RateStreamV2[rowsPerSecond=1]", "12"),
        ("FileStreamSource[file:/data]", '{"logOffset": 3}'),
        (KAFKA, "None"),
        (KAFKA, "null"),
        (KAFKA, None),
        (KAFKA, '{"orders": 3, "refunds": {"x": 1, "0": "two", "1": -1}}'),
    ]
    assert offsets_of(others) == {}


def test_only_the_topics_that_count_do() -> None:
    assert offsets_of([source(orders={"0": 5}, refunds={"0": 7})], {"refunds"}) == {U0: 7}


def test_a_group_may_have_the_name_of_its_query() -> None:
    assert group_of("billing", "totals") == "billing"
    assert group_of("spark-{query}", "totals") == "spark-totals"


def test_offsets_that_go_back_are_shown() -> None:
    positions = Positions("g")
    positions.read("totals", {T0: 500})
    assert positions.ended("totals") == GroupOffsets("g", {T0: 500}, live=False)
    assert positions.read("totals", {T0: 20}) == GroupOffsets("g", {T0: 20}, live=True)


def test_queries_of_one_group_that_read_one_topic_show_the_one_that_is_behind() -> None:
    positions = Positions("g")
    positions.read("ahead", {T0: 9, U0: 3})
    assert positions.read("behind", {T0: 5, T1: 1}).offsets == {T0: 5, T1: 1, U0: 3}
    assert positions.read("behind", {T0: 10, T1: 1}).offsets == {T0: 9, T1: 1, U0: 3}


def test_a_query_that_has_ended_counts_until_another_one_reads_its_partitions() -> None:
    positions = Positions("g")
    positions.read("old", {T0: 5, T1: 5})
    positions.ended("old")
    assert positions.read("new", {T0: 9}) == GroupOffsets("g", {T0: 9, T1: 5}, live=True)
    assert positions.ended("new") == GroupOffsets("g", {T0: 9, T1: 5}, live=False)


def test_a_query_that_ends_beside_another_one_does_not_hold_it_back() -> None:
    positions = Positions("g")
    positions.read("one", {T0: 5, T1: 5})
    positions.read("two", {T0: 9})
    assert positions.ended("one") == GroupOffsets("g", {T0: 9, T1: 5}, live=True)


def test_a_query_that_has_read_nothing_ends_without_a_word() -> None:
    positions = Positions("{query}")
    assert positions.ended("totals") is None
    positions.read("totals", {T0: 1})
    assert positions.ended("others") is None


def test_each_query_has_a_group_of_its_own_if_the_group_is_named_after_it() -> None:
    positions = Positions("spark-{query}")
    assert positions.read("one", {T0: 5}) == GroupOffsets("spark-one", {T0: 5}, live=True)
    assert positions.read("two", {T0: 9}) == GroupOffsets("spark-two", {T0: 9}, live=True)
