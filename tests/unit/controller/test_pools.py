"""The pools that a controller has been told of: the last figures of each, and not too many."""

from __future__ import annotations

from actors.controller.pools import KEPT_SECONDS, MEMBERS_MAX, POOLS_MAX, Pools
from actors.links.pools import MemberFigures, PoolFigures


def pool(number: int, handled: int = 0, members: int = 1) -> PoolFigures:
    figures = (MemberFigures(f"p{number}-{each}", handled, 0, 0, 0, 0) for each in range(members))
    return PoolFigures(f"p{number}", "g", tuple(figures))


def test_the_last_figures_of_each_are_kept_until_it_falls_silent() -> None:
    pools = Pools()
    pools.told(pool(1), 0.0)
    pools.told(pool(2), 10.0)
    pools.told(pool(1, handled=5), 20.0)
    assert set(pools.present(10.0 + KEPT_SECONDS)) == {pool(1, handled=5), pool(2)}
    assert pools.present(11.0 + KEPT_SECONDS) == (pool(1, handled=5),)
    assert pools.present(21.0 + KEPT_SECONDS) == ()


def test_two_pools_of_one_group_are_two() -> None:
    pools = Pools()
    for number in range(2):
        pools.told(pool(number), 0.0)
    assert len(pools.present(0.0)) == 2


def test_there_are_not_too_many_of_them_nor_of_their_members() -> None:
    pools = Pools()
    for number in range(POOLS_MAX + 2):
        pools.told(pool(number), float(number) / 100)
    present = pools.present(3.0)
    assert [each.pool for each in present] == [f"p{number}" for number in range(2, POOLS_MAX + 2)]
    pools.told(pool(0, members=MEMBERS_MAX + 1), 3.0)
    assert len(pools.present(3.0)[-1].members) == MEMBERS_MAX
