"""The whole cluster under faults, many seeds. That this would notice if it were broken: test_planted_bugs.py."""

from __future__ import annotations

import re

import pytest

from tests.sim.command import simulate

_SEEDS_A_TEST = 50

pytestmark = pytest.mark.timeout(1200)  # all of it is computing: on a busy machine that takes minutes


@pytest.mark.conformance("N-F-01", "N-F-02", "N-F-03", "N-F-04", "N-F-05", "N-F-06", "N-F-07", "N-F-08", "N-F-09")
@pytest.mark.conformance("N-F-10", "N-F-11", "N-F-12", "N-F-13", "N-F-14", "N-F-15", "N-F-16", "N-F-17", "N-F-18")
@pytest.mark.conformance("N-F-19")
@pytest.mark.parametrize("first", range(0, 200, _SEEDS_A_TEST))
def test_nothing_acknowledged_is_lost_and_everything_heals(first: int) -> None:
    done = simulate("--seeds", f"{first}-{first + _SEEDS_A_TEST - 1}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{_SEEDS_A_TEST} seeds, 0 failed" in done.stdout
    # Quiet runs of idle clients would prove nothing.
    totals = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", done.stdout)}
    assert min(totals["commits"], totals["records"], totals["reads"]) > 1000
    assert totals["probes"] > 100
    assert totals["sleeps"] > 30
    assert totals["upgrades"] > 2
    assert all(totals[fault] > 5 for fault in ("broker_dies", "machine_dies", "broker_stops", "partition"))


def test_a_seed_is_the_same_run_in_every_process() -> None:
    one, again, other = simulate("--seed", "7"), simulate("--seed", "7"), simulate("--seed", "8")
    assert "trace" in one.stdout
    assert one.stdout == again.stdout
    assert one.stdout.split("trace")[1] != other.stdout.split("trace")[1]
