"""A picture that changes: redrawn in place on a terminal, else printed again and again; and the keys pressed."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from rich.console import Console, JustifyMethod, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from actors.cli.fitting import shortened
from actors.cli.output import heading, text
from actors.runtime.environment import Clock
from actors.runtime.escaping import escaped

_ARROWS = {b"\x1b[A": "up", b"\x1b[B": "down"}


class Screen:
    """The picture that is shown now. `full` takes the whole terminal and gives it back at the end, as editors do."""

    def __init__(self, console: Console, *, full: bool = False) -> None:
        self._console = console
        # By default it shows above itself what others write to standard output.
        self._live = (
            Live(console=console, auto_refresh=False, screen=full, redirect_stdout=False, redirect_stderr=False)
            if console.is_terminal
            else None
        )

    @property
    def is_live(self) -> bool:
        """True if this is a terminal, where a picture takes the place of the one before."""
        return self._live is not None

    def show(self, picture: RenderableType) -> None:
        """Show this now."""
        if self._live is not None:
            self._live.update(picture, refresh=True)
        else:
            self._console.print(picture)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()


def line_of(line: str = "", style: str = "") -> Text:
    """A line that is cut off at the screen's edge. Unprintable characters are escaped: rich lets ESC through."""
    return Text(escaped(line), style=style, no_wrap=True, overflow="ellipsis")


def lines_of(lines: str) -> Text:
    """Several of them, with line breaks between them."""
    return Text(escaped(lines, keep="\n"), no_wrap=True, overflow="ellipsis")


def table_of(
    columns: Iterable[str],
    rows: Iterable[Mapping[str, Any]],
    numbers: Container[str] = (),
    alarming: Container[str] = (),
    widths: Mapping[str, int] | None = None,
) -> Table:
    """Rows as a table for a screen; cells are never broken. A row whose `state` is `alarming` is red.

    `widths` says how wide names may be that are too long (`fitting`).
    """
    most = widths or {}
    columns = tuple(columns)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        side: JustifyMethod = "right" if column in numbers else "left"
        table.add_column(heading(column), justify=side, no_wrap=True, overflow="ellipsis")
    for row in rows:
        style = "red" if row.get("state") in alarming else ""
        table.add_row(*(Text(shortened(text(row[column]), most.get(column))) for column in columns), style=style)
    return table


class Keys:
    """The keys that are pressed on standard input, without Enter; none if it is no terminal."""

    def __init__(self, clock: Clock) -> None:
        self._sleep = clock.sleep
        self._input = sys.stdin.fileno() if sys.stdin.isatty() else None

    @contextmanager
    def listening(self) -> Iterator[Self]:
        """Keys are heard and not shown while the block runs. Ctrl-C stays what it is."""
        if self._input is None:
            yield self
            return
        before = termios.tcgetattr(self._input)
        try:
            tty.setcbreak(self._input)
            yield self
        finally:
            termios.tcsetattr(self._input, termios.TCSADRAIN, before)

    def wait(self, seconds: float) -> str | None:
        """The next key, `up` and `down` for arrows; None if there is none for so long."""
        if self._input is None:
            self._sleep(seconds)
            return None
        keys = select.poll()  # select.select knows no file descriptors above 1023
        keys.register(self._input, select.POLLIN)
        if not keys.poll(seconds * 1000):
            return None
        pressed = os.read(self._input, 8)
        return _ARROWS.get(pressed) or pressed[:1].decode(errors="replace")
