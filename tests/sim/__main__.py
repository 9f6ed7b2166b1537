"""The command: one seed, a range of seeds, or all planted bugs. Prints a line for each violation, and figures."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
import warnings
from collections import Counter
from functools import partial
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="run one seed")
    parser.add_argument("--seeds", help="run a range, A-B, both included")
    parser.add_argument("--bug", default="", help="with a planted bug of that name")
    parser.add_argument("--bugs", action="store_true", help="find every planted bug, and say how many seeds it took")
    parser.add_argument("--most", type=int, default=2000, help="with --bugs: give up after this many seeds")
    parser.add_argument("--known", action="store_true", help="with --bugs: begin with the seed known to find each")
    parser.add_argument("--trace", action="store_true", help="with --seed: print what happens")
    parser.add_argument("--starved", action="store_true", help="with --seed and --seeds: starve the processes first")
    parser.add_argument("--guests", action="store_true", help="with --seed and --seeds: counters live beside the logs")
    parser.add_argument("--lost", action="store_true", help="with --seed and --seeds: nodes are lost for good")
    parser.add_argument(
        "--removals", action="store_true", help="with --seed and --seeds: brokers are removed and added"
    )
    parser.add_argument("--drains", action="store_true", help="with --seed and --seeds: Ray nodes are drained")
    parser.add_argument("--twice", action="store_true", help="with --seed and --seeds: brokers are started twice")
    parser.add_argument("--voters", action="store_true", help="with --seed and --seeds: there are three controllers")
    parser.add_argument("--power", action="store_true", help="with --seed and --seeds: machines lose their power")
    parser.add_argument("--quorum", action="store_true", help="the controller's quorum instead of a whole cluster")
    parser.add_argument("--log", type=Path, help="with --seeds: append progress to this file")
    chosen = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of strings is chance, too, and a seed has to give the same run everywhere.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]])
    if chosen.quorum:
        return _quorum(chosen)
    from tests.sim import bugs, run  # noqa: F401 - so that none of it is looked at by the collector again

    # A killed process leaves coroutines that were never awaited: that is no mistake.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 1000)  # a seventh of the time went into looking at what lives until the seed's end
    modes = ("starved", "guests", "lost", "removals", "drains", "twice", "voters", "power")
    flags = {name: getattr(chosen, name) for name in modes}
    if chosen.bugs:
        return _bugs(chosen.known, chosen.most, chosen.bug)
    if chosen.seeds:
        first, _, last = chosen.seeds.partition("-")
        return _seeds(int(first), int(last or first), chosen.bug, chosen.log, flags)
    return _seed(chosen.seed or 0, chosen.bug, chosen.trace, flags)


def _write(text: str, log: Path | None = None) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    if log is not None:
        with open(log, "a") as file:
            file.write(text + "\n")


def _quorum(chosen: argparse.Namespace) -> int:
    from tests.sim.quorum import command

    if chosen.bugs:
        return command.bugs(chosen.bug, chosen.most, _write, known=chosen.known)
    if chosen.seeds:
        first, _, last = chosen.seeds.partition("-")
        return command.seeds(int(first), int(last or first), chosen.bug, partial(_write, log=chosen.log))
    return command.seed(chosen.seed or 0, chosen.bug, _write, trace=chosen.trace)


def _seed(seed: int, bug: str, trace: bool, flags: dict[str, bool]) -> int:
    from tests.sim.bugs import planted
    from tests.sim.run import command, run

    outcome = run(seed, trace=trace, bug=planted(bug), **flags)
    _write(f"seed {seed} ({outcome.scenario}): trace {outcome.digest:08x}, {outcome.figures}")
    if outcome.failure:
        _write(f"{outcome.failure} -- {command(seed, bug, **flags)}")
    return 1 if outcome.failure else 0


def _seeds(first: int, last: int, bug: str, log: Path | None, flags: dict[str, bool]) -> int:
    from tests.sim.bugs import planted
    from tests.sim.run import command, run

    changes = planted(bug)
    failed, began, totals = 0, time.monotonic(), Counter[str]()
    for seed in range(first, last + 1):
        outcome = run(seed, bug=changes, **flags)
        totals.update({key: value for key, value in outcome.figures.items() if isinstance(value, int)})
        if outcome.failure:
            failed += 1
            _write(f"{outcome.failure} -- {command(seed, bug, **flags)}", log)
        done = seed - first + 1
        if done % 100 == 0 or seed == last:
            spent = time.monotonic() - began
            _write(f"{first}-{seed}: {done} seeds, {failed} failed, {spent:.0f} s, {spent / done:.3f} s a seed", log)
    _write(f"{first}-{last}: {dict(totals)}", log)
    return 1 if failed else 0


def _bugs(known: bool, most: int, only: str) -> int:
    from tests.sim.bugs import (
        BUGS,
        DISK_BUGS,
        DRAIN_BUGS,
        GUEST_BUGS,
        REMOVAL_BUGS,
        REPLACEMENT_BUGS,
        START_BUGS,
        VOTER_BUGS,
        planted,
    )
    from tests.sim.known_seeds import KNOWN
    from tests.sim.run import command, run

    missed = 0
    for name in [only] if only else BUGS:
        first = KNOWN.get(name, 0) if known else 0
        for seed in range(first, first + most):
            flags = {
                "guests": name in GUEST_BUGS,
                "lost": name in REPLACEMENT_BUGS,
                "removals": name in REMOVAL_BUGS,
                "drains": name in DRAIN_BUGS,
                "twice": name in START_BUGS,
                "voters": name in VOTER_BUGS,
                "power": name in DISK_BUGS,
            }
            outcome = run(seed, bug=planted(name), **flags)
            if outcome.failure:
                again = command(seed, name, **flags)
                _write(f"{name:32} {seed - first + 1:5} seeds  {outcome.failure[:150]} -- {again}")
                break
        else:
            missed += 1
            _write(f"{name:32} not found in {most} seeds")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
