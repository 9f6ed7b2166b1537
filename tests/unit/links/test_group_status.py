"""What a shard says of a group crosses the relay unchanged."""

from __future__ import annotations

import pytest

from actors.links.group_status import GroupStatus, Rebalance

WHY = Rebalance(1_700_000_000_000, 4, "metadata changed: ü", "c-1")


@pytest.mark.parametrize(
    "status",
    [GroupStatus(0, (), None, ()), GroupStatus(2**31 - 1, ("a", "b"), 59_000, (WHY, WHY)), GroupStatus(3, (), -5, ())],
)
def test_a_group_status_is_what_it_was(status: GroupStatus) -> None:
    assert GroupStatus.decode(status.encode()) == status
