"""A group of range members has its assignment when its coordinator says so and its members know it."""

from __future__ import annotations

import pytest

from actors.client import TopicPartition
from actors.client.admin.types import MemberDescription
from actors.members.ranges.group import Held, Holding, all_have_theirs

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
ELSEWHERE = TopicPartition("u", 0)


def member(member_id: str, *partitions: TopicPartition) -> MemberDescription:
    return MemberDescription(member_id, None, "c", "/127.0.0.1", ("t",), partitions, b"", b"")


def holding(member_id: str, *partitions: TopicPartition) -> Holding:
    return Holding(member_id, 3, True, tuple(Held(*tp, 0, "token") for tp in partitions))


@pytest.mark.parametrize(
    ("members", "holdings", "have"),
    [
        ([member("a", P0, P1, P2)], [holding("a", P0, P1, P2)], True),
        ([member("a", P0), member("other", P1, P2)], [holding("a", P0)], True),
        ([member("a", P0), member("b", P1, P2)], [holding("a", P0), holding("b", P1, P2)], True),
        ([member("other", P0, P1, P2), member("a")], [holding("a")], True),
        ([member("a", P0, ELSEWHERE), member("other", P1, P2)], [holding("a", P0)], True),
        ([member("a", P0), member("other", P1)], [holding("a", P0)], False),
        ([member("other", P0, P1, P2)], [holding("a")], False),
    ],
)
def test_all_partitions_are_divided_and_each_member_knows_its_own(
    members: list[MemberDescription], holdings: list[Holding], have: bool
) -> None:
    assert all_have_theirs(members, holdings, [P0, P1, P2]) is have


def test_a_member_that_has_not_heard_of_its_share_began_without_it() -> None:
    """A read of a group began, and ended, without a range: all was divided, and its member had yet to be told."""
    members = [member("a", P0), member("other", P1, P2)]
    assert not all_have_theirs(members, [holding("a")], [P0, P1, P2])
