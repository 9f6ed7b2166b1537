"""The whole cluster under faults, many seeds; and proof that the simulation would notice if it were broken.

Runs are made in processes of their own: the order of sets of strings is fixed there, and with it what a seed means.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.bugs import BUGS

_ROOT = Path(__file__).parents[2]
_SEEDS_A_TEST = 50
_SEEDS_TO_FIND_A_BUG = 500

pytestmark = pytest.mark.timeout(1200)  # all of it is computing: on a busy machine that takes minutes


def _simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.sim", *arguments]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("first", range(0, 200, _SEEDS_A_TEST))
def test_nothing_acknowledged_is_lost_and_everything_heals(first: int) -> None:
    done = _simulate("--seeds", f"{first}-{first + _SEEDS_A_TEST - 1}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{_SEEDS_A_TEST} seeds, 0 failed" in done.stdout
    # Quiet runs of idle clients would prove nothing.
    totals = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", done.stdout)}
    assert min(totals["commits"], totals["records"], totals["reads"]) > 1000
    assert totals["probes"] > 100
    assert totals["sleeps"] > 30
    assert all(totals[fault] > 5 for fault in ("broker_dies", "machine_dies", "broker_stops", "partition"))


def test_a_seed_is_the_same_run_in_every_process() -> None:
    one, again, other = _simulate("--seed", "7"), _simulate("--seed", "7"), _simulate("--seed", "8")
    assert "trace" in one.stdout
    assert one.stdout == again.stdout
    assert one.stdout.split("trace")[1] != other.stdout.split("trace")[1]


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    """What is said of each planted bug, from the seed on that is known to find it."""
    done = _simulate("--bugs", "--known", "--most", str(_SEEDS_TO_FIND_A_BUG))
    return {line.split()[0]: line for line in done.stdout.splitlines()}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, found: dict[str, str]) -> None:
    assert re.search(r"\d+ seeds  [a-z-]+: ", found[bug]), found[bug]


def test_a_failure_prints_the_line_that_repeats_it(found: dict[str, str]) -> None:
    line = re.search(r"python -m tests\.sim (--seed \d+ --bug [a-z-]+)", found["generation-reused"])
    assert line is not None
    again = _simulate(*line[1].split())
    assert again.returncode == 1
    assert line[0] in again.stdout
