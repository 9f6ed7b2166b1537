"""Consumers, a shard and its log under faults, then healed. A seed that fails prints the line to repeat it."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.coordination_simulator import run

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


def test_faults_of_every_kind_happen_until_all_is_healed() -> None:
    servers = [run(seed) for seed in range(10)]
    faults = sum((server.world.faults for server in servers), Counter[str]())
    assert set(faults) == {
        "a consumer's crash",
        "a failover",
        "a slow append",
        "a slow network",
        "an append refused",
        "an outcome unknown",
        "slow replication",
    }
    assert sum(server.epoch for server in servers) == faults["a failover"] + faults["an outcome unknown"]
    for server in servers:
        assert server.shard.metrics.rebalances_completed > 0
        assert not server.world.chance("a fault after all", 1.0), "all is well by then"


def test_faults_leave_their_marks() -> None:
    servers = [run(seed) for seed in (5, 9, 13, 17)]
    metrics = [server.shard.metrics for server in servers]
    assert sum(m.rebalances_completed for m in metrics) > 3
    assert sum(m.appends_refused for m in metrics) > 0
    assert sum(m.appends_timed_out for m in metrics) > 0
    assert sum(m.members_expired for m in metrics) > 0
    assert sum(server.world.faults["an outcome unknown"] for server in servers) > 0, "no shard was lost"
