"""Each broker is started twice, and begins anew before its end is on record. Bugs in that: test_planted_bugs.py."""

from __future__ import annotations

import re

import pytest

from tests.sim.command import simulate

_SEEDS = 14

pytestmark = pytest.mark.timeout(1200)  # all of it is computing: on a busy machine that takes minutes


def test_a_broker_that_begins_anew_at_once_does_not_go_on_where_its_former_process_was() -> None:
    done = simulate("--seeds", f"0-{_SEEDS - 1}", "--twice")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{_SEEDS} seeds, 0 failed" in done.stdout
    totals = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", done.stdout)}
    assert totals["broker_dies"] > 3
