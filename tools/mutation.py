"""`python -m tools.mutation`: mutmut on a sample of what pyproject.toml has it mutate, and a table of the outcome.

Mutants are taken in an order that the seed decides, so the first part of any length is a fair sample. Those that have a
verdict in mutants/ are not run again: a run that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files
from mutmut.utils.format_utils import get_mutant_name

BATCH = 500
"""So many mutants are given to one run of mutmut; each run tries the tests without any mutant first."""

KILLED = ("killed", "timeout", "segfault")


def mutants() -> Iterator[str]:
    """The names of all mutants there can be."""
    for path in walk_mutatable_files():
        for name in mutate_file_contents(str(path), path.read_text()).mutant_names:
            yield get_mutant_name(path, name)


def sample(names: Iterable[str], share: float, seed: int) -> list[str]:
    """So large a part of these, the same for the same seed; a larger part begins with the smaller."""
    order = sorted(names)
    random.Random(seed).shuffle(order)
    return order[: round(len(order) * share)]


def verdicts() -> dict[str, str]:
    """The outcome of each mutant that has been tried."""
    found: dict[str, str] = {}
    for meta in Path("mutants").rglob("*.meta"):
        codes = json.loads(meta.read_text())["exit_code_by_key"]
        found.update({name: status_by_exit_code[code] for name, code in codes.items() if code is not None})
    return found


def package(name: str) -> str:
    """The name that a mutant is counted under: its package, or its module where not the whole package is mutated."""
    parts = name.split(".")
    return ".".join(parts[: 3 if parts[1] == "client" else 2 if parts[0] == "actors" else 1])


def table(chosen: list[str], found: dict[str, str]) -> str:
    """Mutants, killed, survived, by package; not counted are those that have not been tried."""
    tried = [name for name in chosen if name in found]
    rows = {}
    for group in [*sorted({package(name) for name in tried}), "all"]:
        rows[group] = Counter(found[name] for name in tried if group in ("all", package(name)))
    lines = [
        "| package | mutants | killed | survived | reached by no test | score |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for group, counts in rows.items():
        killed = sum(counts[status] for status in KILLED)
        score = killed / max(counts.total(), 1)
        lines.append(
            f"| `{group}` | {counts.total()} | {killed} | {counts['survived']} | {counts['no tests']} | {score:.1%} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Try the sample; print the survivors and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="how large a part of all mutants, 0 to 1")
    parser.add_argument("--seed", type=int, default=1, help="which part")
    parser.add_argument("--survivors", action="store_true", help="try those again that have survived")
    options = parser.parse_args()
    chosen = sample(mutants(), options.share, options.seed)
    done = verdicts()
    alive = ("survived", "no tests") if options.survivors else ()
    left = [name for name in chosen if done.get(name, "not checked") in (*alive, "not checked")]
    for first in range(0, len(left), BATCH):
        batch = left[first : first + BATCH]
        subprocess.run([Path(sys.executable).with_name("mutmut"), "run", "--max-children", "1", *batch], check=True)
        print(table(chosen, verdicts()), flush=True)
    found = verdicts()
    print("\n".join(name for name in sorted(chosen) if found.get(name) in ("survived", "no tests")))
    print(table(chosen, found))


if __name__ == "__main__":
    main()
