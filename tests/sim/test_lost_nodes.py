"""Nodes that are lost for good, under all faults of the simulation. That this would notice: test_planted_bugs.py."""

from __future__ import annotations

import re

import pytest

from tests.sim.command import simulate

_SEEDS = 25

pytestmark = pytest.mark.timeout(1200)  # all of it is computing: on a busy machine that takes minutes


@pytest.mark.conformance("N-D-01", "N-D-03", "N-F-22", "N-F-23", "N-F-24", "N-F-25")
def test_brokers_are_replaced_by_themselves_and_nothing_acknowledged_is_lost() -> None:
    done = simulate("--seeds", f"0-{_SEEDS - 1}", "--lost")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{_SEEDS} seeds, 0 failed" in done.stdout
    totals = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", done.stdout)}
    assert totals["replaced"] > 10
    assert totals["fenced"] > 2, "processes that ran on with the former directory"
