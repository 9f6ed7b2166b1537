"""The command `python -m tests.sim --quorum`: one seed, a range of seeds, or all planted bugs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from tests.sim.quorum.bugs import BUGS, planted
from tests.sim.quorum.known_seeds import KNOWN
from tests.sim.quorum.run import command, run

Write = Callable[[str], None]


def seed(number: int, bug: str, write: Write, *, trace: bool) -> int:
    outcome = run(number, trace=trace, bug=planted(bug))
    write(f"seed {number} ({outcome.scenario}): trace {outcome.digest:08x}, {dict(outcome.figures)}")
    if outcome.failure:
        write(f"{outcome.failure} -- {command(number, bug)}")
    return 1 if outcome.failure else 0


def seeds(first: int, last: int, bug: str, write: Write) -> int:
    failed, began, totals = 0, time.monotonic(), Counter[str]()
    for number in range(first, last + 1):
        outcome = run(number, bug=planted(bug))
        totals += outcome.figures
        if outcome.failure:
            failed += 1
            write(f"{outcome.failure} -- {command(number, bug)}")
        done = number - first + 1
        if done % 100 == 0 or number == last:
            spent = time.monotonic() - began
            write(f"{first}-{number}: {done} seeds, {failed} failed, {spent:.0f} s, {spent / done:.3f} s a seed")
    write(f"{first}-{last}: {dict(totals)}")
    return 1 if failed else 0


def bugs(only: str, most: int, write: Write, *, known: bool) -> int:
    missed = 0
    for name in [only] if only else BUGS:
        first = KNOWN.get(name, 0) if known else 0
        for number in range(first, first + most):
            outcome = run(number, bug=planted(name))
            if outcome.failure:
                again = command(number, name)
                write(f"{name:40} {number - first + 1:5} seeds  {outcome.failure[:150]} -- {again}")
                break
        else:
            missed += 1
            write(f"{name:40} not found in {most} seeds")
    return 1 if missed else 0
