"""Partitions near their leaders: newly assigned partitions are swapped, and nothing else changes in the targets."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.assignors import RangeAssignor, UniformAssignor
from actors.coordinator.assignors.assignor import GroupSpec, MemberSpec, Target
from tests.support.assignments import after, topic_id
from tests.unit.coordinator.test_server_assignor_properties import any_group, groups, kept, owners, shuffled

UNIFORM = UniformAssignor()
RACKS = ["r1", "r2", "r3"]
T = topic_id("t")


@st.composite
def placed(draw: st.DrawFn, group: GroupSpec) -> GroupSpec:
    """The group; its members and the leaders of its partitions are in racks, or it is not known in which."""
    rack = st.one_of(st.none(), st.sampled_from(RACKS))
    members = {each: replace(spec, rack=draw(rack)) for each, spec in group.members.items()}
    leader = st.sampled_from(["", *RACKS])
    leaders = {topic: tuple(draw(leader) for _ in range(count)) for topic, count in group.partitions.items()}
    return replace(group, members=members, leaders=leaders)


in_racks = any_group.flatmap(placed)


def near(group: GroupSpec, target: Target, *, given_out: bool = False) -> int:
    """The number of partitions led in their members' racks, of all or of those that members did not have before."""
    found = 0
    for member_id, topics in target.items():
        member = group.members[member_id]
        for topic, numbers in topics.items():
            some = numbers - member.assigned.get(topic, frozenset()) if given_out else numbers
            found += sum(bool(member.rack) and group.leaders[topic][each] == member.rack for each in some)
    return found


def both(group: GroupSpec) -> tuple[Target, Target]:
    """The targets without and with regard to leaders."""
    return UNIFORM.assign(replace(group, leaders={})), UNIFORM.assign(group)


@given(group=in_racks)
def test_members_have_as_many_partitions_as_without_and_no_fewer_near_ones(group: GroupSpec) -> None:
    without, target = both(group)
    count = {each: sum(map(len, topics.values())) for each, topics in without.items()}
    assert {each: sum(map(len, topics.values())) for each, topics in target.items()} == count
    assert owners(target) == owners(without)
    assert all(topics.keys() <= group.members[each].topics for each, topics in target.items())
    assert all(all(topics.values()) for topics in target.values())
    assert near(group, target) >= near(group, without)


@given(group=in_racks)
def test_members_keep_as_much_of_what_they_had_as_without(group: GroupSpec) -> None:
    without, target = both(group)
    for member_id, spec in group.members.items():
        assert kept(spec, target[member_id]) >= kept(spec, without[member_id])


@given(group=groups(homogeneous=True).flatmap(placed))
def test_as_many_are_near_as_if_what_is_given_out_were_shared_out_best(group: GroupSpec) -> None:
    without, target = both(group)
    led, places = Counter[str](), Counter[str]()
    for member_id, topics in without.items():
        member = group.members[member_id]
        for topic, numbers in topics.items():
            for each in numbers - member.assigned.get(topic, frozenset()):
                led[group.leaders[topic][each]] += 1
                places[member.rack or ""] += 1
    stays = near(group, without) - near(group, without, given_out=True)
    assert near(group, target) >= stays + sum(min(led[rack], places[rack]) for rack in RACKS)


@given(group=in_racks)
def test_the_target_depends_on_no_order(group: GroupSpec) -> None:
    other = replace(shuffled(group), leaders=dict(reversed(group.leaders.items())))
    assert UNIFORM.assign(group) == UNIFORM.assign(other)


@given(group=in_racks)
def test_a_second_computation_changes_nothing_even_if_leaders_are_elsewhere(group: GroupSpec) -> None:
    first = UNIFORM.assign(group)
    elsewhere = {topic: tuple(reversed(racks)) for topic, racks in group.leaders.items()}
    again = after(group, first)
    with_others = UNIFORM.assign(replace(again, leaders=elsewhere))
    assert with_others == UNIFORM.assign(replace(again, leaders={}))


def test_four_partitions_of_two_racks_for_two_members() -> None:
    members = {each: MemberSpec(rack, None, frozenset((T,)), {}) for each, rack in (("a", "r2"), ("b", "r1"))}
    group = GroupSpec(members, {T: 4}, homogeneous=True, leaders={T: ("r1", "r2", "r1", "r2")})
    assert UNIFORM.assign(group) == {"a": {T: frozenset((1, 3))}, "b": {T: frozenset((0, 2))}}
    assert UNIFORM.assign(replace(group, leaders={})) == {"a": {T: frozenset((0, 1))}, "b": {T: frozenset((2, 3))}}


def test_who_has_to_give_some_up_gives_up_what_is_near_the_one_that_comes() -> None:
    """Members come one by one: the first has all, and without a choice the second would get the last half."""
    members = {
        "a": MemberSpec("r1", None, frozenset((T,)), {T: frozenset(range(4))}),
        "b": MemberSpec("r2", None, frozenset((T,)), {}),
    }
    group = GroupSpec(members, {T: 4}, homogeneous=True, leaders={T: ("r2", "r1", "r2", "r1")})
    assert UNIFORM.assign(group) == {"a": {T: frozenset((1, 3))}, "b": {T: frozenset((0, 2))}}
    assert UNIFORM.assign(replace(group, leaders={})) == {"a": {T: frozenset((0, 1))}, "b": {T: frozenset((2, 3))}}


@given(group=in_racks)
def test_range_knows_no_racks(group: GroupSpec) -> None:
    assert RangeAssignor().assign(group) == RangeAssignor().assign(replace(group, leaders={}))
