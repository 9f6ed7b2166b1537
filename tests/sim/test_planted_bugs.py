"""Proof that the simulation of the whole cluster would notice if the cluster were broken."""

from __future__ import annotations

import re

import pytest

from tests.sim.bugs import BUGS
from tests.sim.command import simulate

_SEEDS_TO_FIND_A_BUG = 500

pytestmark = pytest.mark.timeout(1200)  # all of it is computing: on a busy machine that takes minutes


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    """What is said of each planted bug, from the seed on that is known to find it."""
    done = simulate("--bugs", "--known", "--most", str(_SEEDS_TO_FIND_A_BUG))
    return {line.split()[0]: line for line in done.stdout.splitlines()}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, found: dict[str, str]) -> None:
    assert re.search(r"\d+ seeds  [a-z-]+: ", found[bug]), found[bug]


def test_a_failure_prints_the_line_that_repeats_it(found: dict[str, str]) -> None:
    line = re.search(r"python -m tests\.sim (--seed \d+ --bug [a-z-]+)", found["generation-reused"])
    assert line is not None
    again = simulate(*line[1].split())
    assert again.returncode == 1
    assert line[0] in again.stdout
