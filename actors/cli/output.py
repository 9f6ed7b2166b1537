"""How commands print: tables for people, JSON for programs, progress on stderr. What they print is theirs to know.

Rows are dicts with Kafka's column names in lower case as keys (`log_end_offset`); None is "-" in a table and null in
JSON. On a terminal tables are rich's; into a pipe they are plain columns, never cut off.
"""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import click

Row = Mapping[str, Any]


class Progress(Protocol):
    """What a block of `progress` gets, to say how far it is."""

    def advance(self, steps: int = 1) -> None:
        """`steps` more are done."""


def emit(rows: Sequence[Row], columns: Sequence[str], output_format: str) -> None:
    """Print rows; `columns` are the keys shown, in order. JSON shows every key a row has."""
    if output_format == "json":
        emit_json([dict(row) for row in rows])
    elif rows:
        emit_table(rows, columns)


def emit_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=2))


def emit_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print columns under Kafka's headings: `log_end_offset` is LOG-END-OFFSET."""
    head = [column.replace("_", "-").upper() for column in columns]
    cells = [[text(row.get(column)) for column in columns] for row in rows]
    if sys.stdout.isatty():
        _rich_table(head, cells)
        return
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    for line in [head, *cells]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def text(value: Any) -> str:
    """A value as the text of a cell: "-" for None and empty values, lists with commas, no control characters."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(text, value)) or "-"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(value))


def note(message: str) -> None:
    """Print a line that is not part of the result: to stderr, so that it does not get into a pipe."""
    click.echo(message, err=True)


def warn_of_readers(path: Path) -> None:
    """Print a line if others can read a file with secrets. Whether it can be read at all shows who reads it."""
    with suppress(OSError):
        if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            note(f"warning: others can read {path}; chmod 600 keeps it to you")


@contextmanager
def progress(label: str, total: int | None = None, *, shown: bool = True) -> Iterator[Progress]:
    """Show a progress bar on stderr while the block runs; nothing if stderr is not a terminal."""
    if not (shown and sys.stderr.isatty()):
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    shape = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with RichProgress(*shape, console=Console(stderr=True), transient=True) as bars:
        yield _Bar(bars, bars.add_task(label, total=total))


@contextmanager
def working(label: str) -> Iterator[None]:
    """Show a spinner and the seconds so far on stderr while the block runs; nothing if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    shape = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    # Else rich would put standard output back at the end, though the block may have exchanged it meanwhile.
    with RichProgress(*shape, console=Console(stderr=True), transient=True, redirect_stdout=False) as bars:
        bars.add_task(label, total=None)
        yield


def plural(count: int, thing: str) -> str:
    """How many of a thing as text: `1 topic`, `2 topics`."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


class _Silent:
    def advance(self, steps: int = 1) -> None:
        """Do nothing: stderr is not a terminal."""


class _Bar:
    def __init__(self, bars: Any, task: Any) -> None:
        self._bars, self._task = bars, task

    def advance(self, steps: int = 1) -> None:
        self._bars.advance(self._task, steps)


def _rich_table(head: Iterable[str], cells: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in head:
        table.add_column(name, overflow="fold")
    for line in cells:
        table.add_row(*(Text(cell) for cell in line))  # Text, so that a group called "[red]" is not taken for markup
    Console().print(table)
