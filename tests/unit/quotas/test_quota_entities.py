"""Entities of quotas: those whose quota holds, the valid ones, and those that a filter finds: SECURITY.md, XD-06, and
KIP-546."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.quotas.entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    Component,
    EntityError,
    Limit,
    UnknownTypeError,
    address_limit,
    check_key,
    check_quota,
    entity_of,
    found,
    limit_of,
)

RATE = PRODUCER_BYTE_RATE
BY_RANK = [
    ([("user", "ann"), ("client-id", "app")], ("ann", "app")),
    ([("user", "ann"), ("client-id", None)], ("ann", "app")),
    ([("user", "ann")], ("ann", None)),
    ([("user", None), ("client-id", "app")], ("ann", "app")),
    ([("user", None), ("client-id", None)], ("ann", "app")),
    ([("user", None)], ("ann", None)),
    ([("client-id", "app")], (None, "app")),
    ([("client-id", None)], (None, "app")),
]


@pytest.mark.conformance("XD-06")
@given(st.sets(st.integers(0, 7)))
def test_the_most_specific_entity_with_the_quota_holds(present: set[int]) -> None:
    rows = {entity_of(BY_RANK[rank][0]): {RATE: rank + 1.0} for rank in present}
    rows[entity_of([("user", "ann"), ("client-id", "other")])] = {RATE: 99.0}
    rows.setdefault(entity_of(BY_RANK[0][0]), {})[CONSUMER_BYTE_RATE] = 77.0
    best = min(present, default=None)
    expected = None if best is None else Limit(best + 1.0, BY_RANK[best][1])
    assert limit_of(rows, RATE, "ann", "app") == expected


def test_who_has_no_name_has_the_defaults() -> None:
    rows = {entity_of([("client-id", None)]): {RATE: 5.0}, entity_of([("client-id", "app")]): {RATE: 6.0}}
    assert limit_of(rows, RATE, "ANONYMOUS", "") == Limit(5.0, (None, ""))


def test_ranks_are_all_different_entities() -> None:
    entities = [entity_of(parts) for parts, _ in BY_RANK]
    assert all(one != other for one, other in pairwise(sorted(entities, key=repr)))


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [("user", "")],
        [("group", "g")],
        [("user", "a"), ("user", "b")],
        [("ip", "10.0.0.1"), ("user", "a")],
        [("ip", "somewhere")],
    ],
)
def test_entities_that_cannot_be(parts: list[tuple[str, str | None]]) -> None:
    with pytest.raises(EntityError):
        entity_of(parts)


def test_the_order_of_types_makes_no_difference_and_addresses_have_one_form() -> None:
    assert entity_of([("user", "a"), ("client-id", None)]) == entity_of([("client-id", None), ("user", "a")])
    assert entity_of([("ip", "0:0::1")]) == (("ip", "::1"),)


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("user", RATE, 0.0),
        ("user", RATE, -1.0),
        ("user", RATE, float("nan")),
        ("user", RATE, float("inf")),
        ("user", RATE, 1.5),
        ("user", RATE, 2.0**64),
        ("user", CONNECTION_CREATION_RATE, 1.0),
        ("user", "retention.ms", 1.0),
        ("ip", RATE, 1.0),
        ("ip", CONNECTION_CREATION_RATE, 2.0**31),
    ],
)
def test_quotas_that_cannot_be(kind: str, key: str, value: float) -> None:
    with pytest.raises(EntityError):
        check_quota(((kind, None),), key, value)


def test_a_rate_of_changes_may_have_a_fraction() -> None:
    check_quota((("user", None),), CONTROLLER_MUTATION_RATE, 0.5)
    check_quota((("ip", None),), CONNECTION_CREATION_RATE, 10.0)
    with pytest.raises(EntityError, match="connection_creation_rate"):
        check_key((("ip", None),), "x")


ROWS = {
    entity_of([("user", "ann")]): {RATE: 1.0},
    entity_of([("user", None)]): {RATE: 1.0},
    entity_of([("user", "ann"), ("client-id", "app")]): {RATE: 1.0},
    entity_of([("client-id", "app")]): {RATE: 1.0},
    entity_of([("ip", "::1")]): {CONNECTION_CREATION_RATE: 1.0},
}


@pytest.mark.parametrize(
    ("components", "strict", "numbers"),
    [
        ([], False, [0, 1, 2, 3, 4]),
        ([], True, []),
        ([("user", 2, None)], True, [0, 1]),
        ([("user", 2, None)], False, [0, 1, 2]),
        ([("user", 1, None)], False, [1]),
        ([("user", 0, "ann")], False, [0, 2]),
        ([("user", 0, "ann"), ("client-id", 2, None)], True, [2]),
        ([("client-id", 0, "nobody")], False, []),
        ([("ip", 0, "0::1")], True, [4]),
    ],
)
def test_filters(components: list[tuple[str, int, str | None]], strict: bool, numbers: list[int]) -> None:
    wanted = [list(ROWS)[number] for number in numbers]
    assert found(ROWS, [Component(*each) for each in components], strict=strict) == wanted


@pytest.mark.parametrize(
    "components",
    [
        [("", 2, None)],
        [("user", 0, None)],
        [("user", 1, "ann")],
        [("user", 3, None)],
        [("user", 2, None), ("user", 1, None)],
        [("ip", 2, None), ("user", 2, None)],
        [("ip", 0, "somewhere")],
    ],
)
def test_filters_that_cannot_be(components: list[tuple[str, int, str | None]]) -> None:
    with pytest.raises(EntityError) as raised:
        found(ROWS, [Component(*each) for each in components], strict=False)
    assert not isinstance(raised.value, UnknownTypeError)


def test_a_filter_of_an_unknown_type_is_told_apart() -> None:
    with pytest.raises(UnknownTypeError):
        found(ROWS, [Component("group", 2, None)], strict=False)


@pytest.mark.conformance("XD-05")
def test_addresses_of_ipv6_count_by_their_network() -> None:
    rows = {(("ip", None),): {CONNECTION_CREATION_RATE: 5.0}, (("ip", "10.0.0.1"),): {CONNECTION_CREATION_RATE: 7.0}}
    assert address_limit(rows, "2001:db8::1") == address_limit(rows, "2001:db8::ffff:1%eth0") == (5.0, "2001:db8::/64")
    assert address_limit(rows, "2001:db8:0:1::1") == (5.0, "2001:db8:0:1::/64")
    assert address_limit(rows, "10.0.0.1") == address_limit(rows, "::ffff:10.0.0.1") == (7.0, "10.0.0.1")
    assert address_limit(rows, "10.0.0.2") == (5.0, "10.0.0.2")
    assert address_limit(rows, "") is None
    assert address_limit({}, "10.0.0.1") is None
