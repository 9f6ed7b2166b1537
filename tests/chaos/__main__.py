"""`python -m tests.chaos --minutes 30`: torment a cluster on real Ray; exit code 1 if anything was lost."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from rich.console import Console

from tests.chaos.run import Plan, report, run, run_on_hosts, temporary_folder
from tests.chaos.starve import Hunger, starve
from tests.chaos.starve import report as report_survival


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long faults go on (2)")
    parser.add_argument("--seed", type=int, default=None, help="the choice of faults (random)")
    parser.add_argument("--groups", type=int, default=50, help="groups that commit (50)")
    parser.add_argument("--folder", type=Path, help="keep data and history.jsonl here (a temporary one)")
    parser.add_argument("--faults", nargs="*", default=(), help="exactly these, by a part of their names")
    parser.add_argument("--hosts", action="store_true", help="four hosts with disks and links of their own, no pool")
    parser.add_argument("--starve", action="store_true", help="take all CPU from it instead of killing processes")
    parser.add_argument("--beaters", type=int, default=0, help="starve so many members that only beat, in 20 groups")
    given = parser.parse_args()
    if given.starve:
        return _starve(_hunger(60 * given.minutes, given.beaters))
    seed = random.randrange(1 << 30) if given.seed is None else given.seed
    console = Console()
    hosts = " --hosts" if given.hosts else ""
    console.print(f"python -m tests.chaos{hosts} --minutes {given.minutes:g} --seed {seed} --groups {given.groups}")
    plan = Plan(60 * given.minutes, seed, given.groups, faults=tuple(given.faults))

    def go(folder: Path) -> bool:
        torment = run_on_hosts if given.hosts else run
        outcome = torment(plan, folder, lambda text: console.print(text, highlight=False))
        report(console, outcome)
        return not outcome.violations

    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
        return 0 if go(given.folder) else 1
    with temporary_folder() as folder:
        good = go(folder)
        if not good:
            sys.exit(f"the history is in {folder}")
    return 0


def _hunger(seconds: float, beaters: int) -> Hunger:
    if not beaters:
        return Hunger(seconds)
    groups = min(20, beaters)
    return Hunger(seconds, groups, beaters // groups, commits=False, pause_s=3.0)  # heartbeat.interval.ms of consumers


def _starve(plan: Hunger) -> int:
    console = Console()
    with temporary_folder() as folder:
        survival = starve(plan, folder, lambda text: console.print(text, highlight=False))
        report_survival(console, survival)
        if survival.violations:
            sys.exit(f"the cluster's logs are in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
