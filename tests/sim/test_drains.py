"""Ray nodes that are drained under all faults of the simulation. That this would notice: test_planted_bugs.py."""

from __future__ import annotations

import re

import pytest

from tests.sim.command import simulate

pytestmark = pytest.mark.timeout(1200)  # all of it is computing: on a busy machine that takes minutes


@pytest.mark.conformance("N-D-06", "N-F-27")
def test_nodes_are_drained_and_nothing_acknowledged_is_lost() -> None:
    done = simulate("--seeds", "0-9", "--drains")
    assert done.returncode == 0, done.stdout + done.stderr
    totals = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", done.stdout)}
    assert totals["node_is_drained"] > 10
    assert totals["led_elsewhere"] > 10
