"""`python -m benchmarks [NAME...] [--json]`: run them all, or those named, and print one table of ratios."""

from __future__ import annotations

import importlib
import platform
import signal
import sys
import time
from types import FrameType

from benchmarks.common import Row, note, print_rows

ALL = ["startup", "commit_core", "formation", "groups", "records", "stalls", "failover", "spark"]


def _stop(number: int, _: FrameType | None) -> None:
    """SIGTERM unwinds like Ctrl-C, so that peers are ended and folders removed."""
    sys.exit(128 + number)


def main() -> int:
    signal.signal(signal.SIGTERM, _stop)
    chosen = [a for a in sys.argv[1:] if not a.startswith("-")] or ALL
    unknown = set(chosen) - set(ALL)
    if unknown:
        print(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(ALL)}", file=sys.stderr)
        return 2
    rows: list[Row] = []
    for name in chosen:
        started = time.monotonic()
        try:
            rows += importlib.import_module(f"benchmarks.{name}").run()
        except Exception as error:
            note(f"{name} failed: {type(error).__name__}: {error}")
            rows.append(Row(f"{name} could not be measured", str(error)[:120], met=False))
        note(f"{name}: {time.monotonic() - started:.0f} s")
    print(f"{platform.machine()}, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}\n")
    print_rows(rows)
    missed = [row.what for row in rows if row.met is False]
    if missed:
        print("\nMissed: " + "; ".join(missed) + ".")
    return 0


if __name__ == "__main__":
    sys.exit(main())
