"""Consumers, a shard and its log under faults, then healed. A seed that fails prints the line to repeat it."""

from __future__ import annotations

import pytest

from tests.support.coordination_simulator import World, run

SEEDS_PER_TEST = 20


@pytest.mark.parametrize("first", range(0, 200, SEEDS_PER_TEST))
def test_groups_survive_faults_and_heal(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        server = run(seed)
        assert server.committed, f"nothing was ever committed in run {seed}"


def test_a_seed_gives_the_same_run() -> None:
    one, two = run(7), run(7)
    assert one.log == two.log
    assert one.committed == two.committed
    assert run(8).log != one.log


def test_faults_do_happen() -> None:
    metrics = [run(seed).shard.metrics for seed in range(3)]
    assert sum(m.rebalances_completed for m in metrics) > 3
    assert World(1).chance(1.0)
