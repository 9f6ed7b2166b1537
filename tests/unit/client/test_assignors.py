"""The four strategies: known cases, and what must hold for every input."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.client.group.assignors import (
    BUILT_IN,
    ClusterView,
    CooperativeStickyAssignor,
    GroupMember,
    RangeAssignor,
    RoundRobinAssignor,
)
from actors.client.group.assignors.claims import Claim
from actors.client.group.assignors.sticky import plan
from actors.client.group.assignors.userdata import pack_sticky
from actors.client.records import TopicPartition
from tests.support.examples import examples

Owned = Mapping[str, Iterable[str]]


def tps(text: Iterable[str]) -> list[TopicPartition]:
    """`["a-0", "b-1"]` as partitions."""
    return [TopicPartition(topic, int(n)) for topic, n in (part.rsplit("-", 1) for part in text)]


def members_of(subscriptions: Mapping[str, Iterable[str]], **instances: str) -> list[GroupMember]:
    return [
        GroupMember(name, frozenset(topics), instance_id=instances.get(name)) for name, topics in subscriptions.items()
    ]


def shown(assignment: Mapping[str, Iterable[TopicPartition]]) -> dict[str, set[str]]:
    return {member: {f"{t}-{n}" for t, n in partitions} for member, partitions in assignment.items()}


def sets(**expected: str) -> dict[str, set[str]]:
    return {member: set(parts.split()) for member, parts in expected.items()}


def same(names: str, topics: str) -> dict[str, list[str]]:
    return {name: topics.split() for name in names.split()}


RANGE_CASES = [
    pytest.param({"a": 3, "b": 3}, same("C0 C1", "a b"), {}, sets(C0="a-0 a-1 b-0 b-1", C1="a-2 b-2"), id="1"),
    pytest.param(
        {"t": 10},
        same("C0 C1 C2", "t"),
        {},
        sets(C0="t-0 t-1 t-2 t-3", C1="t-4 t-5 t-6", C2="t-7 t-8 t-9"),
        id="2",
    ),
    pytest.param({"t": 2}, same("C0 C1 C2", "t"), {}, sets(C0="t-0", C1="t-1", C2=""), id="3"),
    pytest.param(
        {"topic1": 3, "topic2": 2},
        {"consumer1": ["topic1"], "consumer2": ["topic1", "topic2"], "consumer3": ["topic1"]},
        {},
        sets(consumer1="topic1-0", consumer2="topic1-1 topic2-0 topic2-1", consumer3="topic1-2"),
        id="4",
    ),
    pytest.param(
        {"a": 3, "b": 3},
        same("ca cb", "a b"),
        {"cb": "i1"},
        sets(cb="a-0 a-1 b-0 b-1", ca="a-2 b-2"),
        id="5",
    ),
    pytest.param(
        {"t1": 5, "t2": 4},
        same("w x y z", "t1 t2"),
        {"z": "i1", "y": "i2", "x": "i3"},
        sets(z="t1-0 t1-1 t2-0", y="t1-2 t2-1", x="t1-3 t2-2", w="t1-4 t2-3"),
        id="6",
    ),
]


@pytest.mark.conformance("F-01")
@pytest.mark.parametrize(("topics", "subscriptions", "instances", "expected"), RANGE_CASES)
def test_range_vectors(topics, subscriptions, instances, expected):
    got = RangeAssignor().assign(ClusterView(topics), members_of(subscriptions, **instances))
    assert shown(got) == expected


MIXED = {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]}


@pytest.mark.conformance("F-01")
@pytest.mark.parametrize(
    ("topics", "subscriptions", "expected"),
    [
        pytest.param({"a": 3, "b": 3}, same("C0 C1", "a b"), sets(C0="a-0 a-2 b-1", C1="a-1 b-0 b-2"), id="7"),
        pytest.param({"t0": 1, "t1": 2, "t2": 3}, MIXED, sets(C0="t0-0", C1="t1-0", C2="t1-1 t2-0 t2-1 t2-2"), id="8"),
    ],
)
def test_round_robin_vectors(topics, subscriptions, expected):
    assert shown(RoundRobinAssignor().assign(ClusterView(topics), members_of(subscriptions))) == expected


def sticky(topics: dict[str, int], subscriptions: Mapping[str, Iterable[str]], owned: Owned, generation: int = 1):
    claims = [Claim(name, tuple(tps(owned.get(name, ()))), generation) for name in subscriptions]
    return plan(ClusterView(topics), members_of(subscriptions), claims)


STICKY_CASES = [
    pytest.param(
        {"topic1": 3, "topic2": 3},
        same("c1 c2", "topic1 topic2"),
        {},
        sets(c1="topic1-0 topic1-2 topic2-1", c2="topic1-1 topic2-0 topic2-2"),
        id="9",
    ),
    pytest.param({"t": 3}, same("c1 c2", "t"), {"c1": ["t-0", "t-1", "t-2"]}, sets(c1="t-0 t-1", c2="t-2"), id="10"),
    pytest.param(
        {"topic1": 2, "topic2": 3},
        same("c1 c2 c3", "topic1 topic2"),
        {"c1": ["topic1-0"], "c2": ["topic1-1"]},
        sets(c1="topic1-0 topic2-1", c2="topic1-1 topic2-2", c3="topic2-0"),
        id="11",
    ),
    pytest.param(
        {"topic1": 2, "topic2": 3},
        same("c1 c2", "topic1 topic2"),
        {"c1": ["topic1-0", "topic2-1"], "c2": ["topic1-1", "topic2-2"]},
        sets(c1="topic1-0 topic2-1 topic2-0", c2="topic1-1 topic2-2"),
        id="12",
    ),
    pytest.param(
        {"topic1": 3, "topic2": 4},
        same("c1 c2 c3 c4", "topic1 topic2"),
        {
            "c1": ["topic1-0", "topic1-2", "topic2-1", "topic2-3"],
            "c2": ["topic1-1", "topic2-0", "topic2-2"],
        },
        sets(c1="topic1-0 topic2-1", c2="topic1-1 topic2-0", c3="topic1-2 topic2-3", c4="topic2-2"),
        id="13",
    ),
    pytest.param(
        {"topic1": 3, "topic2": 4},
        same("c3 c4", "topic1 topic2"),
        {"c3": ["topic1-2", "topic2-3"], "c4": ["topic2-2"]},
        sets(c3="topic1-2 topic2-3 topic1-0 topic2-1", c4="topic2-2 topic1-1 topic2-0"),
        id="14",
    ),
    pytest.param(
        {"topic1": 3, "topic2": 2},
        {"c1": ["topic1"], "c2": ["topic1", "topic2"], "c3": ["topic1"]},
        {},
        sets(c1="topic1-0 topic1-2", c2="topic2-0 topic2-1", c3="topic1-1"),
        id="15",
    ),
    pytest.param({"t0": 1, "t1": 2, "t2": 3}, MIXED, {}, sets(C0="t0-0", C1="t1-0 t1-1", C2="t2-0 t2-1 t2-2"), id="16"),
    pytest.param(
        {"t0": 1, "t1": 2, "t2": 3},
        {name: MIXED[name] for name in ("C1", "C2")},
        {"C1": ["t1-0", "t1-1"], "C2": ["t2-0", "t2-1", "t2-2"]},
        sets(C1="t0-0 t1-0 t1-1", C2="t2-0 t2-1 t2-2"),
        id="16 after C0 left",
    ),
    pytest.param(
        {f"t{i}": 2 for i in range(4)},
        same("C0 C1 C2", "t0 t1 t2 t3"),
        {},
        sets(C0="t0-0 t1-1 t3-0", C1="t0-1 t2-0 t3-1", C2="t1-0 t2-1"),
        id="17",
    ),
    pytest.param(
        {f"t{i}": 2 for i in range(4)},
        same("C0 C2", "t0 t1 t2 t3"),
        {"C0": ["t0-0", "t1-1", "t3-0"], "C2": ["t1-0", "t2-1"]},
        sets(C0="t0-0 t1-1 t3-0 t0-1", C2="t1-0 t2-1 t2-0 t3-1"),
        id="17 after C1 left",
    ),
]


@pytest.mark.conformance("F-01")
@pytest.mark.parametrize(("topics", "subscriptions", "owned", "expected"), STICKY_CASES)
def test_sticky_vectors(topics, subscriptions, owned, expected):
    assert shown(sticky(topics, subscriptions, owned).assignment) == expected


@pytest.mark.conformance("F-01")
def test_sticky_names_what_changes_hands():
    moved = sticky({"t": 3}, same("c1 c2", "t"), {"c1": ["t-0", "t-1", "t-2"]}).transferring
    still = sticky({"t": 3}, same("c1 c2", "t"), {"c1": ["t-0", "t-1"]}).transferring
    assert moved == {TopicPartition("t", 2): "c2"}
    assert still == {}


def cooperative(count: int, names: str, owned: Owned, generation: int = 1) -> dict[str, set[str]]:
    members = [
        GroupMember(name, frozenset({"t"}), owned=tuple(tps(owned.get(name, ()))), generation=generation)
        for name in names.split()
    ]
    return shown(CooperativeStickyAssignor().assign(ClusterView({"t": count}), members))


ALL_SIX = [f"t-{n}" for n in range(6)]


@pytest.mark.conformance("F-01")
@pytest.mark.parametrize(
    ("count", "names", "owned", "expected"),
    [
        pytest.param(6, "A B", {"A": ALL_SIX}, sets(A="t-0 t-1 t-2", B=""), id="18"),
        pytest.param(6, "A B", {"A": ALL_SIX[:3]}, sets(A="t-0 t-1 t-2", B="t-3 t-4 t-5"), id="19"),
        pytest.param(6, "A B C", {"A": ALL_SIX}, sets(A="t-0 t-1", B="", C=""), id="20"),
        pytest.param(
            3,
            "c1 c2 c3",
            {"c1": ["t-0", "t-1"], "c2": ["t-0", "t-2"]},
            sets(c1="t-1", c2="t-2", c3=""),
            id="21",
        ),
        pytest.param(
            4,
            "c1 c2 c3",
            {"c1": ["t-0", "t-1"], "c2": ["t-0", "t-2"]},
            sets(c1="t-1 t-3", c2="t-2", c3=""),
            id="22",
        ),
    ],
)
def test_cooperative_vectors(count, names, owned, expected):
    assert cooperative(count, names, owned) == expected


@pytest.mark.conformance("F-01")
def test_of_two_claims_the_newer_generation_wins():
    claims = [Claim("a", tuple(tps(["t-0"])), 5), Claim("b", tuple(tps(["t-0", "t-1"])), 4)]
    got = plan(ClusterView({"t": 2}), members_of(same("a b", "t")), claims)
    assert shown(got.assignment) == sets(a="t-0", b="t-1")


# --- for all inputs ---------------------------------------------------------------------------------------------

TOPICS = ["a", "b", "c", "d"]
topic_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9), min_size=1)
names = st.lists(st.sampled_from([f"m{n}" for n in range(9)]), min_size=1, max_size=7, unique=True)


def subsets(of: list[str], least: int = 0) -> st.SearchStrategy[frozenset[str]]:
    """Any of them, in one draw: there are few, and a set that is drawn piece by piece takes many times as long."""
    sizes = range(least, len(of) + 1)
    return st.sampled_from([frozenset(each) for size in sizes for each in itertools.combinations(of, size)])


some_topics = subsets(TOPICS, least=1)
some_racks = subsets(["r1", "r2", "r3"])


owned_before = st.lists(
    st.sampled_from([TopicPartition(t, n) for t in TOPICS for n in range(9)]), max_size=6, unique=True
)
generations = st.integers(-1, 3)
members_racks = st.none() | st.sampled_from(["r1", "r2"])


@st.composite
def groups(draw: st.DrawFn) -> list[GroupMember]:
    found = []
    for name in draw(names):
        owned = tuple(draw(owned_before))
        generation = draw(generations)
        found.append(
            GroupMember(
                name,
                draw(some_topics),
                instance_id="i-" + name if draw(st.booleans()) else None,
                owned=owned,
                generation=generation,
                user_data=pack_sticky(owned, max(generation, 0)) if draw(st.booleans()) else None,
                rack=draw(members_racks),
            )
        )
    return found


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    counts = draw(topic_counts)
    if draw(st.booleans()):
        return ClusterView(counts, {})
    partitions = [TopicPartition(t, n) for t, count in counts.items() for n in range(count)]
    return ClusterView(counts, {each: draw(some_racks) for each in partitions})


def expected_partitions(cluster: ClusterView, members: list[GroupMember]) -> list[TopicPartition]:
    wanted = {topic for member in members for topic in member.topics}
    return sorted(TopicPartition(t, n) for t in wanted for n in range(cluster.partitions.get(t, 0)))


@pytest.mark.conformance("F-02")
@pytest.mark.parametrize("name", sorted(BUILT_IN))
@examples(150)
@given(cluster=clusters(), members=groups())
def test_each_partition_goes_to_one_subscriber(name, cluster, members):
    got = BUILT_IN[name]().assign(cluster, members)
    topics_of = {member.member_id: member.topics for member in members}
    assert set(got) == set(topics_of)
    assert all(tp.topic in topics_of[member] for member, owned in got.items() for tp in owned)
    given_out = sorted(tp for owned in got.values() for tp in owned)
    if name != "cooperative-sticky":
        assert given_out == expected_partitions(cluster, members)
    else:
        claimed = {tp for member in members for tp in member.owned}
        withheld = set(expected_partitions(cluster, members)) - set(given_out)
        assert len(given_out) == len(set(given_out))
        assert withheld <= claimed, "only what somebody held before may be withheld"


@pytest.mark.conformance("F-02")
@examples(100)
@given(cluster=clusters(), members=groups())
def test_racks_do_not_change_how_many_partitions_a_member_gets(cluster, members):
    with_racks = RangeAssignor().assign(cluster, members)
    without = RangeAssignor().assign(ClusterView(cluster.partitions), members)
    sizes = [{m: len(owned) for m, owned in got.items()} for got in (with_racks, without)]
    assert sum(sizes[0].values()) == sum(sizes[1].values())
    for member in sizes[0]:
        topics = next(m.topics for m in members if m.member_id == member)
        assert abs(sizes[0][member] - sizes[1][member]) <= len(topics)


def test_range_prefers_partitions_of_the_same_rack():
    members = [GroupMember("a", frozenset({"t"}), rack="east"), GroupMember("b", frozenset({"t"}), rack="west")]
    racks = {TopicPartition("t", n): frozenset({"west" if n < 2 else "east"}) for n in range(4)}
    got = RangeAssignor().assign(ClusterView({"t": 4}, racks), members)
    assert shown(got) == sets(a="t-2 t-3", b="t-0 t-1")


def claims_of(assignment: Mapping[str, Iterable[TopicPartition]], generation: int) -> list[Claim]:
    return [Claim(member, tuple(owned), generation) for member, owned in assignment.items()]


@pytest.mark.conformance("F-03")
@examples(150)
@given(counts=topic_counts, members=names, data=st.data())
def test_sticky_is_even_and_leaves_a_good_assignment_alone(counts, members, data):
    group = members_of(dict.fromkeys(members, TOPICS))
    everything = [TopicPartition(t, n) for t, count in counts.items() for n in range(count)]
    owners = data.draw(st.lists(st.sampled_from(members), min_size=len(everything), max_size=len(everything)))
    start: dict[str, list[TopicPartition]] = {name: [] for name in members}
    for tp, owner in zip(everything, owners, strict=True):
        start[owner].append(tp)
    first = plan(ClusterView(counts), group, claims_of(start, 1)).assignment
    again = plan(ClusterView(counts), group, claims_of(first, 2))
    sizes = [len(owned) for owned in first.values()]
    assert max(sizes) - min(sizes) <= 1
    assert shown(again.assignment) == shown(first)
    assert again.transferring == {}


@pytest.mark.conformance("F-03")
@examples(150)
@given(cluster=clusters(), members=groups())
def test_sticky_with_different_subscriptions_ends_balanced(cluster, members):
    fresh = plan(cluster, members, []).assignment
    again = plan(cluster, members, claims_of(fresh, 1))
    assert shown(again.assignment) == shown(fresh)
    topics_of = {member.member_id: member.topics for member in members}
    for rich, owned in fresh.items():
        for tp in owned:
            for poor, topics in topics_of.items():
                assert tp.topic not in topics or len(fresh[poor]) + 2 > len(fresh[rich])


def test_a_departing_member_moves_nothing_between_the_others():
    topics = {"t": 12}
    first = plan(ClusterView(topics), members_of(same("a b c d", "t")), []).assignment
    left = {member: owned for member, owned in first.items() if member != "d"}
    after = plan(ClusterView(topics), members_of(same("a b c", "t")), claims_of(left, 1))
    assert all(set(left[member]) <= set(after.assignment[member]) for member in left)
    assert after.transferring == {}


@pytest.mark.conformance("F-04")
@examples(120)
@given(counts=topic_counts, steps=st.lists(names, min_size=1, max_size=4), data=st.data())
def test_cooperative_never_gives_a_partition_to_two_and_converges(counts, steps, data):
    cluster = ClusterView(counts)
    owned: dict[str, set[TopicPartition]] = {}
    topics_of: dict[str, frozenset[str]] = {}
    generation = 0
    for members in steps:
        owned = {name: owned.get(name, set()) for name in members}
        for name in members:
            if name not in topics_of:
                topics_of[name] = frozenset(data.draw(st.sets(st.sampled_from(TOPICS), min_size=1)))
        settled_after = None
        for attempt in range(1, 6):
            generation += 1
            group = [
                GroupMember(
                    name, topics_of[name], owned=tuple(owned[name]), generation=generation - 1 if owned[name] else -1
                )
                for name in members
            ]
            got = CooperativeStickyAssignor().assign(cluster, group)
            holders: dict[TopicPartition, set[str]] = {}
            for name in members:
                for tp in owned[name] | set(got[name]):
                    holders.setdefault(tp, set()).add(name)
            assert all(len(who) == 1 for who in holders.values()), "a partition in two hands"
            revoked = any(owned[name] - set(got[name]) for name in members)
            owned = {name: set(got[name]) for name in members}
            if not revoked:
                settled_after = attempt
                break
        assert settled_after is not None
        assert settled_after <= 4
        subscribed = [GroupMember(name, topics_of[name]) for name in members]
        assert sorted(tp for part in owned.values() for tp in part) == expected_partitions(cluster, subscribed)


@pytest.mark.conformance("F-05")
@pytest.mark.parametrize(
    ("consumers", "sizes"), [(2, [2, 2]), (4, [1, 1, 1, 1]), (6, [1, 1, 1, 1, 0, 0])], ids=["<", "=", ">"]
)
def test_consumers_against_partitions(consumers, sizes):
    group = members_of({f"c{n}": ["t"] for n in range(consumers)})
    got = RangeAssignor().assign(ClusterView({"t": 4}), group)
    assert [len(got[f"c{n}"]) for n in range(consumers)] == sizes


@pytest.mark.conformance("E-28", "F-05")
def test_surplus_members_get_nothing_but_stay_in_the_assignment():
    got = RangeAssignor().assign(ClusterView({"t": 2}), members_of(same("C0 C1 C2", "t")))
    assert got["C2"] == []
    assert len(got) == 3
