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
    """The line about each planted bug; the search begins at the seed that is known to find it."""
    done = simulate("--bugs", "--known", "--most", str(_SEEDS_TO_FIND_A_BUG))
    return {line.split()[0]: line for line in done.stdout.splitlines()}


@pytest.mark.conformance("N-F-28", "N-F-29", "N-F-30", "N-F-31", "N-F-32", "N-F-33", "N-F-34", "N-F-35", "N-F-36")
@pytest.mark.conformance("N-F-37", "N-F-38", "N-F-39", "N-F-40", "N-F-41", "N-F-42", "N-F-43", "N-F-44", "N-F-45")
@pytest.mark.conformance("N-F-46", "N-F-47", "N-F-48", "N-F-49", "N-F-50", "N-F-51", "N-F-52", "N-F-53", "N-F-54")
@pytest.mark.conformance("N-F-55", "N-F-56", "N-F-57", "N-F-58", "N-F-59", "N-F-60", "N-F-61", "N-F-62", "N-F-63")
@pytest.mark.conformance("N-F-64", "N-F-65", "N-F-66", "N-F-67", "N-F-68", "N-F-69", "N-F-70", "N-F-71", "N-F-72")
@pytest.mark.conformance("N-F-73", "N-F-74", "N-F-75", "N-F-76", "N-F-77", "N-F-78", "N-F-79", "N-F-80", "N-F-104")
@pytest.mark.conformance("N-F-105", "N-F-106", "N-F-107", "N-F-109", "N-F-110", "N-F-111", "N-F-112")
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, found: dict[str, str]) -> None:
    assert re.search(r"\d+ seeds  [a-z-]+: ", found[bug]), found[bug]


def test_a_failure_prints_the_line_that_repeats_it(found: dict[str, str]) -> None:
    line = re.search(r"python -m tests\.sim (--seed \d+ --bug [a-z-]+)", found["generation-reused"])
    assert line is not None
    again = simulate(*line[1].split())
    assert again.returncode == 1
    assert line[0] in again.stdout
