"""A shard's counts of consumer groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.consumer_groups import FOO, FOOBAR, SESSION_MS, ConsumerDriver


@pytest.mark.conformance("K-G-01", "K-G-02")
def test_rebalances_by_heartbeats_and_expressions_are_counted_and_removals_are_not() -> None:
    driver = ConsumerDriver()

    def counted() -> int:
        return driver.shard.coordinator.metrics.consumer_rebalances

    driver.join("A", "B")
    assert counted() == 2, "what members give back and take is part of a rebalance that has begun"
    driver.beat("B e-1")
    driver.settle()
    assert counted() == 2
    driver.set_topics(replace(FOO, partitions=8), FOOBAR)
    driver.settle()
    driver.beat("A e4")
    assert counted() == 3
    driver.beat("C e0 R names= own=[] regex=fo.*")
    assert counted() == 3, "its topics are not known yet"
    driver.resolve()
    assert counted() == 4
    driver.advance(SESSION_MS)
    assert (driver.consumer().state_name, counted()) == ("Empty", 4)
