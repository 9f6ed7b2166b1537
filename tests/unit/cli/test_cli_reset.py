"""Plans of `groups reset-offsets`, and what people write to ask for them."""

from __future__ import annotations

import pytest

from actors.cli.errors import CliError
from actors.cli.reset import csv_lines, parse_topics, read_csv
from actors.client import TopicPartition
from actors.client.admin.offset_plans import (
    Log,
    Plan,
    PlanError,
    parse_duration,
    parse_time,
    shift_by,
    to_current,
    to_earliest,
    to_given,
    to_latest,
    to_offset,
    to_times,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
LOGS = {A: Log(10, 20), B: Log(0, 5)}


def test_ends_of_the_log() -> None:
    assert to_earliest(LOGS) == Plan({A: 10, B: 0})
    assert to_latest(LOGS) == Plan({A: 20, B: 5})


def test_offset_outside_a_log_is_bent_to_its_ends_and_said() -> None:
    plan = to_offset(LOGS, 7)
    assert plan.offsets == {A: 10, B: 5}
    assert plan.warnings == [
        "t-0 has offsets 10 to 20: 10 instead of 7",
        "t-1 has offsets 0 to 5: 5 instead of 7",
    ]


@pytest.mark.parametrize(("count", "offsets"), [(2, {A: 14, B: 3}), (-100, {A: 10, B: 0}), (100, {A: 20, B: 5})])
def test_shift_stays_within_the_log(count: int, offsets: dict[TopicPartition, int]) -> None:
    assert shift_by(LOGS, {A: 12, B: 1}, count).offsets == offsets


def test_shift_without_a_committed_offset_is_an_error() -> None:
    with pytest.raises(PlanError, match="nothing is committed for t-1"):
        shift_by(LOGS, {A: 12}, 1)


def test_current_is_the_end_where_nothing_is_committed() -> None:
    assert to_current(LOGS, {A: 12}).offsets == {A: 12, B: 5}


def test_time_after_the_last_record_is_the_end() -> None:
    assert to_times(LOGS, {A: 15}).offsets == {A: 15, B: 5}


def test_given_offsets_move_only_their_partitions() -> None:
    assert to_given(LOGS, {B: 2}).offsets == {B: 2}
    with pytest.raises(PlanError, match="there is no partition t-7"):
        to_given(LOGS, {TopicPartition("t", 7): 2})


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T00:00:01.500", 1500),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-02", 86_400_000),
        ("2026-01-31T13:45:00.123", 1_769_867_100_123),
    ],
)
def test_time_is_utc_unless_it_names_a_zone(text: str, ms: int) -> None:
    assert parse_time(text) == ms


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00"])
def test_what_is_no_time_is_an_error(text: str) -> None:
    with pytest.raises(PlanError, match="is not a time"):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("P7D", 604_800_000), ("PT12H", 43_200_000), ("P1DT2H30M", 95_400_000), ("PT0.5S", 500), ("P2W", 1_209_600_000)],
)
def test_duration(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "7D", "PT5", "-P1D"])
def test_what_is_no_duration_is_an_error(text: str) -> None:
    with pytest.raises(PlanError, match="is not a duration"):
        parse_duration(text)


def test_topics_name_all_or_some_partitions() -> None:
    assert parse_topics(["a", "b:1,0", "b:4", "a:1", "c:0", "c"]) == {"a": None, "b": [0, 1, 4], "c": None}


@pytest.mark.parametrize("text", ["a:", "a:x", ":1", "a:1,"])
def test_bad_partition_lists_are_errors(text: str) -> None:
    with pytest.raises(CliError, match="is not TOPIC or TOPIC:PARTITION"):
        parse_topics([text])


def test_file_of_one_group_needs_no_group_in_its_lines() -> None:
    plans = {"g": {A: 3, B: 4}}
    assert csv_lines(plans) == ["t,0,3", "t,1,4"]
    assert read_csv("\n".join(csv_lines(plans)), ["g"]) == plans


def test_file_of_several_groups_names_them() -> None:
    plans = {"g,1": {A: 3}, "h": {B: 4}}
    assert csv_lines(plans) == ['"g,1",t,0,3', "h,t,1,4"]
    assert read_csv("\n".join(csv_lines(plans)), ["g,1", "h"]) == plans


@pytest.mark.parametrize("text", ["t,0", "t,0,x", "t,-1,3", "x,t,0,3", "t,0,3,4,5"])
def test_line_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(CliError, match="line 2 of the file is not topic,partition,offset"):
        read_csv(f"t,1,1\n{text}", ["g"])
