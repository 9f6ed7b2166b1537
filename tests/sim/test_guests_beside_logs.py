"""Counters beside logs, under all faults of the simulation. That this would notice a bug: test_planted_bugs.py."""

from __future__ import annotations

import re

import pytest

from tests.sim.command import simulate

_SEEDS = 20

pytestmark = pytest.mark.timeout(1200)  # all of it is computing: on a busy machine that takes minutes


@pytest.mark.conformance("N-F-20", "N-F-21")
def test_no_acknowledged_increment_is_lost_and_none_is_invented() -> None:
    done = simulate("--seeds", f"0-{_SEEDS - 1}", "--guests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{_SEEDS} seeds, 0 failed" in done.stdout
    totals = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", done.stdout)}
    assert min(totals["increments"], totals["counts_read"]) > 1000
