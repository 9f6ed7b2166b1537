"""Properties of the server-side assignors, for any group and any earlier assignment."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.assignors import ASSIGNORS, RangeAssignor, UniformAssignor
from actors.coordinator.assignors.assignor import Assignor, GroupSpec, MemberSpec, Target
from tests.support.assignments import after, sizes, topic_id
from tests.support.examples import examples

UNIFORM, RANGE = UniformAssignor(), RangeAssignor()
NAMES = [f"t{number}" for number in range(5)]
IDS = [f"m{number}" for number in range(9)]

assigned = st.dictionaries(
    st.sampled_from(NAMES).map(topic_id), st.frozensets(st.integers(0, 12), min_size=1, max_size=8), max_size=4
)
"""Anything, also partitions that do not exist or that another member had as well."""


# A set in one draw: drawn piece by piece it takes many times as long.
some_topics = st.sampled_from(
    [frozenset(map(topic_id, each)) for size in range(6) for each in itertools.combinations(NAMES, size)]
)
instances = st.one_of(st.none(), st.sampled_from(["i-1", "i-2"]))


@st.composite
def groups(draw: st.DrawFn, homogeneous: bool) -> GroupSpec:
    """A small group."""
    counts = draw(st.dictionaries(st.sampled_from(NAMES).map(topic_id), st.integers(0, 12), min_size=1))
    ids = draw(st.lists(st.sampled_from(IDS), unique=True, min_size=1))
    topics = {each: frozenset(counts) if homogeneous else draw(some_topics).intersection(counts) for each in ids}
    members = {each: MemberSpec(None, draw(instances), topics[each], draw(assigned)) for each in ids}
    return GroupSpec(members, counts, homogeneous)


any_group = st.booleans().flatmap(groups)


def owners(target: Target) -> Counter[tuple[bytes, int]]:
    """The number of owners of each partition."""
    return Counter((topic, each) for mine in target.values() for topic, numbers in mine.items() for each in numbers)


def kept(spec: MemberSpec, mine: Mapping[bytes, frozenset[int]]) -> int:
    return sum(len(numbers & mine.get(topic, frozenset())) for topic, numbers in spec.assigned.items())


def shuffled(group: GroupSpec) -> GroupSpec:
    """The same group; its mappings have another order."""
    members = {
        each: MemberSpec(spec.rack, spec.instance_id, spec.topics, dict(reversed(spec.assigned.items())))
        for each, spec in reversed(group.members.items())
    }
    return GroupSpec(members, dict(reversed(group.partitions.items())), group.homogeneous)


@pytest.mark.conformance("K-B-92")
@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(group=any_group)
def test_each_partition_of_a_subscribed_topic_has_one_owner_who_subscribes_it(
    assignor: Assignor, group: GroupSpec
) -> None:
    target = assignor.assign(group)
    topics = {topic for spec in group.members.values() for topic in spec.topics}
    assert owners(target) == Counter((topic, each) for topic in topics for each in range(group.partitions[topic]))
    assert target.keys() == group.members.keys()
    assert all(target[each].keys() <= spec.topics for each, spec in group.members.items())
    assert all(all(mine.values()) for mine in target.values())


@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(group=any_group)
def test_the_target_depends_on_no_order_but_that_of_ids(assignor: Assignor, group: GroupSpec) -> None:
    assert assignor.assign(group) == assignor.assign(shuffled(group))


@pytest.mark.conformance("K-B-93")
@given(group=groups(homogeneous=True))
def test_uniform_gives_sizes_that_differ_by_one_at_most(group: GroupSpec) -> None:
    counts = sizes(UNIFORM.assign(group)).values()
    assert max(counts) - min(counts) <= 1


@pytest.mark.conformance("K-B-93")
@given(group=groups(homogeneous=True), others=groups(homogeneous=True))
def test_a_member_keeps_what_it_had_up_to_its_quota(group: GroupSpec, others: GroupSpec) -> None:
    """After other members came and went: each of those that stayed has the target that it was given."""
    first = UNIFORM.assign(group)
    members = {
        each: MemberSpec(None, None, frozenset(group.partitions), first.get(each, {})) for each in others.members
    }
    target = UNIFORM.assign(GroupSpec(members, group.partitions, homogeneous=True))
    for member_id, spec in members.items():
        had = sum(map(len, spec.assigned.values()))
        assert kept(spec, target[member_id]) == min(had, sizes(target)[member_id])


@pytest.mark.conformance("K-B-93")
@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(group=any_group)
def test_an_unchanged_group_gets_the_same_mappings_again(assignor: Assignor, group: GroupSpec) -> None:
    first = assignor.assign(group)
    again = assignor.assign(after(group, first))
    assert all(again[each] is first[each] for each in first)


@st.composite
def separate_groups(draw: st.DrawFn) -> GroupSpec:
    """Members in two halves; those of a half subscribe the same topics, which those of the other do not."""
    group = draw(groups(homogeneous=False))
    half = frozenset(sorted(group.partitions)[::2])
    halves = [half, frozenset(group.partitions) - half]
    members = {
        each: MemberSpec(None, None, halves[number % 2], spec.assigned)
        for number, (each, spec) in enumerate(group.members.items())
    }
    return GroupSpec(members, group.partitions, homogeneous=False)


@pytest.mark.conformance("K-B-98")
@given(group=separate_groups())
def test_uniform_is_balanced_among_members_with_the_same_subscription(group: GroupSpec) -> None:
    counts = sizes(UNIFORM.assign(group))
    for topics in {spec.topics for spec in group.members.values()}:
        alike = [counts[each] for each, spec in group.members.items() if spec.topics == topics]
        assert max(alike) - min(alike) <= 1


@pytest.mark.conformance("K-B-97")
@examples(200)
@given(group=groups(homogeneous=False))
def test_no_partition_can_move_to_a_subscriber_with_two_fewer(group: GroupSpec) -> None:
    target = UNIFORM.assign(group)
    counts = sizes(target)
    for member_id, mine in target.items():
        for other_id, other in group.members.items():
            if mine.keys() & other.topics:
                assert counts[member_id] - counts[other_id] <= 1


@pytest.mark.conformance("K-B-100", "K-B-101")
@given(group=any_group)
def test_range_gives_runs_whose_lengths_differ_by_one_at_most(group: GroupSpec) -> None:
    target = RANGE.assign(group)
    for topic in {topic for spec in group.members.values() for topic in spec.topics}:
        runs = [target[each].get(topic, frozenset()) for each, spec in group.members.items() if topic in spec.topics]
        assert all(len(run) == max(run) - min(run) + 1 for run in runs if run)
        assert max(map(len, runs)) - min(map(len, runs)) <= 1
