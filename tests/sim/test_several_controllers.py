"""Whole clusters with three controllers, under all faults. That this would notice: test_planted_bugs.py."""

from __future__ import annotations

import re

import pytest

from tests.sim.command import simulate

_SEEDS = 20

pytestmark = pytest.mark.timeout(1200)  # all of it is computing: on a busy machine that takes minutes


@pytest.mark.conformance("N-C-03", "N-C-04", "N-F-102", "N-F-103", "N-C-08", "N-F-108")
def test_one_controller_leads_at_a_time_and_nothing_acknowledged_is_lost() -> None:
    done = simulate("--seeds", f"0-{_SEEDS - 1}", "--voters")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{_SEEDS} seeds, 0 failed" in done.stdout
    totals = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", done.stdout)}
    assert totals["controllers_began"] > 2 * _SEEDS, "controllers follow each other"
    assert totals["controllers_part"] > 10
    assert totals["controller_dies"] > 3
    assert totals["voters_removed"] > 3
    assert totals["voters_added"] > 3
