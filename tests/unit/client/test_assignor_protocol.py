"""The bytes of subscriptions and assignments, and what sticky remembers in its user data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.client.group.assignors import ClusterView, GroupMember, StickyAssignor
from actors.client.group.assignors.protocol import Assignment, Subscription
from actors.client.group.assignors.userdata import unpack_sticky
from actors.client.records import TopicPartition

OWNED = (TopicPartition("orders", 0), TopicPartition("orders", 1))
SUBSCRIPTION_V0 = "00000000000100066f7264657273ffffffff"
SUBSCRIPTION_V3 = (
    "00030000000100066f7264657273ffffffff0000000100066f72646572730000000200000000000000010000000700067261636b2d61"
)
ASSIGNMENT_V0 = "00000000000100066f7264657273000000020000000000000001ffffffff"


@pytest.mark.conformance("E-27")
def test_subscription_bytes():
    plain = Subscription(("orders",))
    full = Subscription(("orders",), None, OWNED, 7, "rack-a")
    assert plain.encode(0).hex() == SUBSCRIPTION_V0
    assert full.encode().hex() == SUBSCRIPTION_V3
    assert Subscription.decode(bytes.fromhex(SUBSCRIPTION_V0)) == plain
    assert Subscription.decode(bytes.fromhex(SUBSCRIPTION_V3)) == full


@pytest.mark.conformance("E-27")
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_each_version_of_a_subscription_keeps_its_fields(version):
    full = Subscription(("b", "a"), b"u", OWNED, 7, "r")
    got = Subscription.decode(full.encode(version))
    assert got.topics == ("a", "b")
    assert got.user_data == b"u"
    assert got.owned == (OWNED if version >= 1 else ())
    assert got.generation == (7 if version >= 2 else -1)
    assert got.rack == ("r" if version >= 3 else None)


@pytest.mark.conformance("E-27")
def test_a_later_version_is_read_as_the_highest_known():
    ninth = bytes.fromhex("0009" + SUBSCRIPTION_V3[4:]) + b"more"
    assert Subscription.decode(ninth).rack == "rack-a"
    assert Assignment.decode(bytes.fromhex("0009" + ASSIGNMENT_V0[4:])).partitions == OWNED
    with pytest.raises(ValueError, match="negative"):
        Subscription.decode(bytes.fromhex("ffff" + SUBSCRIPTION_V3[4:]))


@pytest.mark.conformance("E-27")
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_assignment_bytes(version):
    data = Assignment(OWNED).encode(version)
    assert data.hex() == f"{version:04x}" + ASSIGNMENT_V0[4:]
    assert Assignment.decode(data) == Assignment(OWNED)


@pytest.mark.conformance("E-27")
@given(data=st.binary(max_size=60))
def test_garbage_is_a_value_error_and_nothing_else(data):
    for decode in (Subscription.decode, Assignment.decode):
        try:
            decode(data)
        except ValueError as error:
            assert str(error)  # noqa: PT017
    assert unpack_sticky(data) is not None


def test_sticky_remembers_what_it_was_given_through_its_user_data():
    assignor = StickyAssignor()
    assert assignor.user_data(["orders"]) is None
    assignor.on_assignment(OWNED, 4)
    assert unpack_sticky(assignor.user_data(["orders"])) == (list(OWNED), 4)
    member = GroupMember("a", frozenset({"orders"}), user_data=assignor.user_data(["orders"]))
    other = GroupMember("b", frozenset({"orders"}))
    got = StickyAssignor().assign(ClusterView({"orders": 4}), [other, member])
    assert set(OWNED) <= set(got["a"])
