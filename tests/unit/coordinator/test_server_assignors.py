"""The server-side assignors, row by row. All targets but those of members' orders are Apache Kafka 4.4.0's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from actors.coordinator.assignors import ASSIGNORS, RangeAssignor, UniformAssignor
from actors.coordinator.assignors.assignor import Assignor, GroupSpec, MemberSpec
from actors.coordinator.assignors.slices import Pace
from tests.support.assignments import after, group, member, partitions, sizes, topic_id

UNIFORM, RANGE = UniformAssignor(), RangeAssignor()


class Row(NamedTuple):
    """A group, and the target of each member."""

    counts: Mapping[str, int]
    members: Mapping[str, MemberSpec]
    targets: Mapping[str, str]


def _assert_target(assignor: Assignor, row: Row) -> None:
    expected = {member_id: partitions(words) for member_id, words in row.targets.items()}
    assert assignor.assign(group(row.counts, row.members)) == expected


# The targets of groups that grow and shrink, as observed on a running broker.
SIX_FOR_ONE = Row({"foo": 6}, {"A": member()}, {"A": "foo 0-5"})
SECOND_JOINS = Row({"foo": 6}, {"A": member("foo", "foo 0-5"), "B": member()}, {"A": "foo 0-2", "B": "foo 3-5"})
TWO_JOIN = Row(
    {"foo": 6},
    {"A": member("foo", "foo 0-5"), "B": member(), "C": member()},
    {"A": "foo 0-1", "B": "foo 2-3", "C": "foo 4-5"},
)
THIRD_JOINS = Row(
    {"foo": 6},
    {"A": member(), "C1": member("foo", "foo 0-2"), "C2": member("foo", "foo 3-5")},
    {"A": "foo 2 5", "C1": "foo 0-1", "C2": "foo 3-4"},
)
ONE_LEAVES = Row(
    {"foo": 6},
    {"A": member("foo", "foo 2 5"), "C2": member("foo", "foo 3-4")},
    {"A": "foo 0 2 5", "C2": "foo 1 3-4"},
)
TWO_TOPICS = Row(
    {"foo": 6, "foobar": 2},
    {"A": member("foo foobar", "foo 0-5, foobar 0-1"), "B": member("foo foobar")},
    {"A": "foo 0-3", "B": "foo 4-5, foobar 0-1"},
)


@pytest.mark.conformance("K-B-89", "K-B-90", "K-B-91", "K-B-92")
@pytest.mark.parametrize("row", [SIX_FOR_ONE, SECOND_JOINS, TWO_JOIN, THIRD_JOINS, ONE_LEAVES, TWO_TOPICS])
def test_uniform_gives_the_targets_that_histories_show(row: Row) -> None:
    _assert_target(UNIFORM, row)


@pytest.mark.conformance("K-B-89")
@pytest.mark.parametrize(
    "row",
    [
        Row({"foo": 7}, {each: member() for each in "abc"}, {"a": "foo 0-1", "b": "foo 2-3", "c": "foo 4-6"}),
        Row({"foo": 3}, {each: member() for each in "abcd"}, {"a": "", "b": "foo 0", "c": "foo 1", "d": "foo 2"}),
        Row(
            {"foo": 7},
            {"a": member("foo", "foo 0-2"), "b": member("foo", "foo 3-4"), "c": member("foo", "foo 5-6")},
            {"a": "foo 0-2", "b": "foo 3-4", "c": "foo 5-6"},
        ),
        Row(
            {"foo": 8},
            {"a": member("foo", "foo 0-4"), "b": member("foo", "foo 5-7"), "c": member()},
            {"a": "foo 0-2", "b": "foo 5-7", "c": "foo 3-4"},
        ),
    ],
)
def test_the_larger_quotas_go_to_members_that_have_so_many_already_then_to_those_visited_last(row: Row) -> None:
    _assert_target(UNIFORM, row)


@pytest.mark.conformance("K-B-90")
@pytest.mark.parametrize(
    "row",
    [
        Row(
            {"foo": 4},
            {"a": member("foo", "foo 0-1, gone 0-3"), "b": member("foo", "gone 4-7")},
            {"a": "foo 0-1", "b": "foo 2-3"},
        ),
        Row(
            {"bar": 2, "foo": 6},
            {"a": member("bar foo", "bar 0-1, foo 0-5"), "b": member("bar foo")},
            {"a": "bar 0-1, foo 0-1", "b": "foo 2-5"},
        ),
    ],
)
def test_uniform_drops_topics_that_are_not_subscribed_and_keeps_topic_by_topic_up_to_the_quota(row: Row) -> None:
    _assert_target(UNIFORM, row)


@pytest.mark.conformance("K-B-91", "K-B-92")
def test_what_nobody_had_is_given_before_the_surplus_to_members_in_their_order() -> None:
    members = {"a": member("foo", "foo 0-4"), "b": member(), "c": member()}
    _assert_target(UNIFORM, Row({"foo": 9}, members, {"a": "foo 0-2", "b": "foo 5-7", "c": "foo 3-4 8"}))


@pytest.mark.conformance("K-B-94")
def test_uniform_may_give_a_member_partition_0_of_one_topic_alone() -> None:
    members = {"a": member("bar foo"), "b": member("bar foo")}
    _assert_target(UNIFORM, Row({"bar": 3, "foo": 1}, members, {"a": "bar 0-1", "b": "bar 2, foo 0"}))


HETEROGENEOUS = [
    Row(
        {"foo": 3, "bar": 3},
        {"a": member("foo"), "b": member("foo bar"), "c": member("bar")},
        {"a": "foo 0-2", "b": "bar 0 2", "c": "bar 1"},
    ),
    Row(
        {"foo": 6, "bar": 2},
        {"a": member("foo bar", "foo 0-5"), "b": member("foo"), "c": member("bar")},
        {"a": "foo 0-2", "b": "foo 3-5", "c": "bar 0-1"},
    ),
    Row(
        {"foo": 4, "bar": 4},
        {"a": member("foo", "foo 0-3"), "b": member("foo bar", "bar 0-3"), "c": member("bar")},
        {"a": "foo 0-2", "b": "bar 0-1, foo 3", "c": "bar 2-3"},
    ),
    Row(
        {"foo": 5},
        {"a": member("foo", "foo 0-4"), "b": member(""), "c": member("foo")},
        {"a": "foo 0-2", "b": "", "c": "foo 3-4"},
    ),
    Row(
        {"foo": 2, "bar": 2, "baz": 8},
        {"a": member("foo"), "b": member("foo bar"), "c": member("bar baz")},
        {"a": "foo 0-1", "b": "bar 0-1", "c": "baz 0-7"},
    ),
]


@pytest.mark.conformance("K-B-96", "K-B-97")
@pytest.mark.parametrize("row", HETEROGENEOUS)
def test_uniform_with_different_subscriptions_gives_the_targets_that_kafka_gives(row: Row) -> None:
    _assert_target(UNIFORM, row)


@pytest.mark.conformance("K-B-95")
def test_a_member_keeps_its_target_but_for_topics_that_it_does_not_subscribe() -> None:
    members = {"a": member("foo", "foo 0-1, bar 0-2"), "b": member("foo bar", "foo 2-3")}
    _assert_target(UNIFORM, Row({"foo": 4, "bar": 3}, members, {"a": "foo 0-1 3", "b": "bar 0-2, foo 2"}))


@pytest.mark.conformance("K-B-96")
@pytest.mark.parametrize(
    "row",
    [
        Row(
            {"one": 1, "six": 6, "two": 2},
            {"a": member("one six two"), "b": member("six"), "c": member("two")},
            {"a": "one 0, six 0 2 4", "b": "six 1 3 5", "c": "two 0-1"},
        ),
        Row({"abe": 2, "zed": 1}, {"a": member("abe zed"), "b": member("abe")}, {"a": "zed 0", "b": "abe 0-1"}),
        Row(
            {"foo": 2, "negative": 2},
            {"a": member("foo negative"), "b": member("negative"), "c": member("foo")},
            {"a": "negative 0", "b": "negative 1", "c": "foo 0-1"},
        ),
    ],
)
def test_topics_with_most_partitions_a_subscriber_come_first_then_fewest_subscribers_then_least_ids(row: Row) -> None:
    _assert_target(UNIFORM, row)


@pytest.mark.conformance("K-B-97")
def test_partitions_move_over_a_chain_of_subscriptions_last_ones_first() -> None:
    members = {"a": member("foo", "foo 0-4"), "b": member("foo bar"), "c": member("bar", "bar 0-4")}
    _assert_target(UNIFORM, Row({"foo": 5, "bar": 5}, members, {"a": "foo 0-3", "b": "bar 3-4, foo 4", "c": "bar 0-2"}))


CHAIN = {f"m{number:02}": member(f"t{number - 1:02} t{number:02}" if number else "t00") for number in range(20)}
CHAIN_AFTER_SIXTEEN_ROUNDS = [
    *(84, 86, 87, 88, 90, 92, 93, 95, 97, 98),
    *(100, 103, 105, 107, 109, 111, 112, 114, 114, 115),
]


@pytest.mark.conformance("K-B-97")
def test_a_long_chain_is_left_unbalanced_after_sixteen_rounds() -> None:
    before = group({f"t{number:02}": 100 for number in range(20)}, CHAIN)
    first = UNIFORM.assign(before)
    again = UNIFORM.assign(after(before, first))
    assert list(sizes(first).values()) == CHAIN_AFTER_SIXTEEN_ROUNDS
    assert max(sizes(again).values()) < max(CHAIN_AFTER_SIXTEEN_ROUNDS)


@pytest.mark.conformance("K-B-98")
def test_balance_goes_before_what_members_had() -> None:
    members = {"a": member("foo bar", "foo 0-3"), "b": member("foo bar"), "c": member("bar", "bar 0-1")}
    target = UNIFORM.assign(group({"foo": 4, "bar": 2}, members))
    assert sizes(target) == {"a": 2, "b": 2, "c": 2}


@pytest.mark.conformance("K-B-98")
def test_members_without_a_common_topic_may_differ_by_more_than_one() -> None:
    members = {"a": member("foo"), "b": member("bar")}
    assert sizes(UNIFORM.assign(group({"foo": 1, "bar": 5}, members))) == {"a": 1, "b": 5}


@pytest.mark.conformance("K-B-99", "K-B-103")
@pytest.mark.parametrize(
    "row",
    [
        Row({"foo": 3}, {"a": member(), "z": member(instance_id="i-1")}, {"a": "foo 2", "z": "foo 0-1"}),
        Row(
            {"foo": 3},
            {"a": member(instance_id="i-2"), "b": member(), "c": member(instance_id="i-1")},
            {"a": "foo 1", "b": "foo 2", "c": "foo 0"},
        ),
        Row({"foo": 4}, {"\uff5e": member(), "\U0001f600": member()}, {"\uff5e": "foo 2-3", "\U0001f600": "foo 0-1"}),
    ],
)
def test_range_orders_by_instance_id_then_by_member_id_in_utf_16(row: Row) -> None:
    _assert_target(RANGE, row)


@pytest.mark.conformance("K-B-100", "K-B-103")
@pytest.mark.parametrize(
    "row",
    [
        Row(
            {"foo": 6},
            {each: member() for each in "abcd"},
            {"a": "foo 0-1", "b": "foo 2-3", "c": "foo 4", "d": "foo 5"},
        ),
        Row({"foo": 2}, {each: member() for each in "abc"}, {"a": "foo 0", "b": "foo 1", "c": ""}),
    ],
)
def test_range_gives_consecutive_ranges_and_one_more_to_the_first(row: Row) -> None:
    _assert_target(RANGE, row)


@pytest.mark.conformance("K-B-101")
def test_range_ignores_previous_targets_and_divides_equal_topics_equally() -> None:
    members = {"a": member("foo bar", "foo 2"), "b": member("foo bar", "foo 0-1")}
    _assert_target(RANGE, Row({"foo": 3, "bar": 3}, members, {"a": "bar 0-1, foo 0-1", "b": "bar 2, foo 2"}))


@pytest.mark.conformance("K-B-102")
def test_range_divides_a_topic_among_its_subscribers_only() -> None:
    members = {"a": member("foo"), "b": member("foo bar"), "c": member("bar")}
    _assert_target(RANGE, Row({"foo": 3, "bar": 4}, members, {"a": "foo 0-1", "b": "bar 0-1, foo 2", "c": "bar 2-3"}))


@pytest.mark.conformance("K-B-87")
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_racks_do_not_matter(assignor: Assignor) -> None:
    plain = group({"foo": 5}, {each: member() for each in "abc"})
    racks = {each: MemberSpec(each, None, spec.topics, {}) for each, spec in plain.members.items()}
    assert assignor.assign(plain) == assignor.assign(GroupSpec(racks, plain.partitions, homogeneous=True))


@pytest.mark.conformance("K-B-88")
@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("others", ["foo", "bar"])
def test_a_subscribed_topic_without_a_number_of_partitions_is_an_internal_error(
    assignor: Assignor, others: str
) -> None:
    with pytest.raises(KeyError):
        assignor.assign(group({"bar": 1}, {"a": member("foo"), "b": member(others)}))


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_that_subscribe_nothing_get_nothing(assignor: Assignor) -> None:
    assert assignor.assign(group({}, {"a": member("", "foo 0-3"), "b": member("")})) == {"a": {}, "b": {}}
    assert assignor.assign(group({}, {})) == {}
    assert assignor.assign(group({"foo": 0}, {"a": member()})) == {"a": {}}


def test_the_built_in_assignors_have_kafkas_names() -> None:
    assert [assignor.name for assignor in ASSIGNORS] == ["uniform", "range"]


# --- large groups ---


def _large(homogeneous: bool) -> GroupSpec:
    """5,000 members and 50,000 partitions in 1,000 topics."""
    topics = [topic_id(f"t{number:03}") for number in range(1_000)]
    kinds = [frozenset(topics)] if homogeneous else [frozenset(topics), frozenset(topics[:500])]
    members = {f"m{number:04}": MemberSpec(None, None, kinds[number % len(kinds)], {}) for number in range(5_000)}
    return GroupSpec(members, dict.fromkeys(topics, 50), homogeneous)


@pytest.mark.parametrize("homogeneous", [True, False])
def test_a_large_group_is_assigned_in_many_slices_and_keeps_the_mappings_that_stay(homogeneous: bool) -> None:
    large = _large(homogeneous)
    slices = UNIFORM.steps(large)
    target = UNIFORM.assign(large)
    assert sum(1 for _ in slices) >= 50
    assert set(sizes(target).values()) == {10}
    again = UNIFORM.assign(after(large, target))
    assert all(again[each] is target[each] for each in target)


@pytest.mark.parametrize("others", ["foo", "foo bar"])
def test_a_topic_with_many_partitions_is_assigned_in_slices_however_few_members_there_are(others: str) -> None:
    slices = UNIFORM.steps(group({"foo": 50_000, "bar": 1}, {"a": member(), "b": member(others)}))
    assert sum(1 for _ in slices) >= 50


def test_a_slice_is_full_after_a_thousand_steps() -> None:
    pace = Pace()
    assert [pace.full(), pace.full(998), pace.full(), pace.full(999), pace.full(5_000)] == [
        False,
        False,
        True,
        False,
        True,
    ]
