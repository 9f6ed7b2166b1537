"""Doing the same again and again, as `--watch` does: what is printed takes the place of what was printed before."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime


def watched(show: Callable[[], None], interval_s: float, looks: int | None = None) -> None:
    """Call `show`, which prints, every `interval_s` seconds; without end unless `looks` says how often.

    On a terminal the text stands in place, under the time. Elsewhere each is printed as it is, for programs to read.
    """
    from rich.console import Console

    from actors.cli.screen import Screen, lines_of

    with Screen(Console()) as screen:
        while True:
            if screen.is_live:
                screen.show(lines_of(f"{datetime.now():%H:%M:%S}\n{_printed(show)}"))
            else:
                show()
                sys.stdout.flush()
            if looks is not None and (looks := looks - 1) <= 0:
                return
            time.sleep(interval_s)


def _printed(show: Callable[[], None]) -> str:
    """What `show` prints, its remarks on standard error included: they would tear the picture."""
    with redirect_stdout(io.StringIO()) as text, redirect_stderr(text):
        show()
    return text.getvalue()
