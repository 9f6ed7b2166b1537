"""Brokers that are removed under all faults of the simulation. That this would notice: test_planted_bugs.py."""

from __future__ import annotations

import re

import pytest

from tests.sim.command import simulate

_SEEDS = 28

pytestmark = pytest.mark.timeout(1200)  # all of it is computing: on a busy machine that takes minutes


@pytest.mark.conformance("N-D-05", "N-F-26")
def test_brokers_are_removed_and_nothing_acknowledged_is_lost() -> None:
    done = simulate("--seeds", f"0-{_SEEDS - 1}", "--removals")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{_SEEDS} seeds, 0 failed" in done.stdout
    totals = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", done.stdout)}
    assert totals["removed"] > 10
    assert totals["called_off"] > 3
    assert totals["broker_is_added"] > 5


def test_brokers_are_removed_while_others_are_replaced() -> None:
    done = simulate("--seeds", "0-9", "--removals", "--lost")
    assert done.returncode == 0, done.stdout + done.stderr
    totals = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", done.stdout)}
    assert totals["removed"] > 4
    assert totals["replaced"] > 1
