"""`python -m benchmarks [NAME...] [--write] [--quick]`: run all parts, or those named, and print their tables.

With `--write` the results go to `benchmarks/results.json`, each part in the place of its former figures, and the page
docs/benchmarks.md is made anew. `--quick` runs everything once and shortly, to see that it works.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Protocol, cast

from benchmarks import page
from benchmarks.common import note
from benchmarks.figures import QUICK, Figures, Pace, Spec
from benchmarks.model import Part, Report
from tests.compat.apache_kafka import KAFKA_VERSION

ALL = (
    "commit_core",
    "consumer_core",
    "requests",
    "replicated",
    "formation",
    "consumer_protocol",
    "startup",
    "fifty",
    "partitions",
    "records",
    "tls",
    "authorizer",
    "abuse",
    "stalls",
    "failover",
    "loading",
    "pool",
    "rolling",
    "spark",
    "monitor",
)


class Benchmark(Protocol):
    """A module of this package that measures something."""

    __doc__: str
    SPECS: Sequence[Spec]

    def run(self, figures: Figures, pace: Pace) -> None:
        """Fill the figures; what was measured before an exception is kept."""


def _stop(number: int, _: FrameType | None) -> None:
    """SIGTERM unwinds like Ctrl-C, so that peers are ended and folders removed."""
    sys.exit(128 + number)


def measure(name: str, pace: Pace) -> Part:
    """Run one part. Its exception becomes a failure of the part."""
    module = cast(Benchmark, importlib.import_module(f"benchmarks.{name}"))
    figures, began = Figures(module.SPECS), time.monotonic()
    try:
        module.run(figures, pace)
    except Exception as error:
        figures.fail("the rest", error)
    took = time.monotonic() - began
    note(f"{name}: {took:.0f} s")
    ended = time.strftime("%Y-%m-%d %H:%M")
    peer = f"Apache Kafka {KAFKA_VERSION}"
    return Part(name, module.__doc__.strip(), ended, took, tuple(figures.rows()), tuple(figures.failures), peer)


def machine() -> str:
    """The machine and the versions that all figures depend on, in a line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    linux = platform.release().partition("-")[0]
    cores = len(os.sched_getaffinity(0))
    return (
        f"{platform.machine()}, {cores} cores, {memory:.0f} GiB, Linux {linux}, "
        f"Python {platform.python_version()}, Apache Kafka with 512 MiB of heap a node"
    )


def _former(path: Path, quick: bool) -> Report:
    """The report that is there, unless it is of another machine or another pace."""
    fresh = Report(machine(), quick, ())
    if not path.exists():
        return fresh
    found = Report.decode(path.read_text())
    return found if (found.machine, found.quick) == (fresh.machine, fresh.quick) else fresh


def main() -> int:
    """The command."""
    signal.signal(signal.SIGTERM, _stop)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(ALL)}")
    parser.add_argument("--write", action="store_true", help="write the results and the page")
    parser.add_argument("--quick", action="store_true", help="only see that it works")
    given = parser.parse_args()
    if unknown := set(given.names) - set(ALL):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    for name in given.names or ALL:
        part = measure(name, QUICK if given.quick else Pace())
        print(page.section(part), flush=True)
        if given.write:  # after each part: what follows may not end
            report = _former(page.RESULTS, given.quick).with_part(part)
            page.RESULTS.write_text(report.encode())
            page.write(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
