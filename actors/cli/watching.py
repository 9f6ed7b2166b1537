"""Doing the same again and again, as `--watch` does: what is printed takes the place of what was printed before."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.runtime.environment import Clock


def watched(show: Callable[[], None], interval_s: float, clock: Clock, looks: int | None = None) -> None:
    """Call `show`, which prints, every `interval_s` seconds; without end unless `looks` says how often.

    On a terminal the text stands in place, under the time. Elsewhere each is printed as it is, for programs to read.
    """
    from rich.console import Console

    from actors.cli.screen import Screen, lines_of

    with Screen(Console()) as screen:
        while True:
            if screen.is_live:
                now = datetime.fromtimestamp(clock.wall_ms() / 1000)
                screen.show(lines_of(f"{now:%H:%M:%S}\n{_printed(show)}"))
            else:
                show()
                sys.stdout.flush()
            if looks is not None and (looks := looks - 1) <= 0:
                return
            clock.sleep(interval_s)


def _printed(show: Callable[[], None]) -> str:
    """The text that `show` prints, its remarks on standard error included: they would tear the picture."""
    with redirect_stdout(io.StringIO()) as text, redirect_stderr(text):
        show()
    return text.getvalue()
