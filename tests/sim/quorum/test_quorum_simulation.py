"""N-F, as far as it is about the quorum: many seeds hold, and every planted bug is found."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sim.command import simulate
from tests.sim.quorum.bugs import BUGS, planted
from tests.sim.quorum.known_seeds import KNOWN
from tests.sim.quorum.run import command, run

_SEEDS = 40
_SEEDS_TO_FIND_A_BUG = 500


@pytest.mark.conformance("N-F-81", "N-F-82", "N-F-83", "N-F-84", "N-F-85", "N-F-86", "N-F-87", "N-F-88", "N-F-89")
def test_what_has_committed_survives_and_all_comes_to_rest() -> None:
    totals = Counter[str]()
    for seed in range(_SEEDS):
        outcome = run(seed)
        assert not outcome.failure, f"{outcome.failure} -- {command(seed)}"
        totals += outcome.figures
    # Quiet runs would prove nothing.
    assert totals["committed"] > 2000
    assert totals["elections"] > 150
    faults = ("crash", "crash_all", "disks_lost", "stand_still", "cut_one_way", "cut_off", "part", "slow_disk")
    assert all(totals[each] > 30 for each in (*faults, "ambushes", "changes", "snapshots", "restored", "resigned"))


@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.conformance("N-F-90", "N-F-91", "N-F-92", "N-F-93", "N-F-94", "N-F-95", "N-F-96")
@pytest.mark.conformance("N-F-97", "N-F-98", "N-F-99", "N-F-100", "N-F-101")
def test_a_planted_bug_is_found(bug: str) -> None:
    first = KNOWN[bug]
    failures = (run(seed, bug=planted(bug)).failure for seed in range(first, first + _SEEDS_TO_FIND_A_BUG))
    assert any(failures)


def test_a_seed_is_the_same_run_in_every_process() -> None:
    """The order of sets of strings differs between processes, and nothing depends on it."""
    said = simulate("--quorum", "--seed", "7")
    assert said.returncode == 0, said.stderr
    assert f"trace {run(7).digest:08x}" in said.stdout
    assert run(7).digest != run(8).digest


def test_a_failure_prints_the_line_that_repeats_it() -> None:
    bug = "told-before-commit"
    said = simulate("--quorum", "--seed", str(KNOWN[bug]), "--bug", bug)
    assert said.returncode == 1
    assert command(KNOWN[bug], bug) in said.stdout
