"""The output of commands: tables for people, JSON for programs, progress on stderr. The commands make its contents.

Names come from others. All that commands print goes through here, where whatever is not printable is escaped: nothing
moves the cursor of the terminal that shows it, and a name with a line break does not make a second line.

Rows are dicts with Kafka's column names in lower case as keys (`log_end_offset`); None is "-" in a table and null in
JSON. On a terminal tables are rich's; into a pipe they are plain columns, never cut off.
"""

from __future__ import annotations

import logging
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

import click

from actors.runtime.escaping import escaped, escaped_json

Row = Mapping[str, Any]


class Progress(Protocol):
    """The handle by which a block of `progress` says how far it is."""

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
    say(escaped_json(value, indent=2), keep="\n")


def say(line: str = "", *, keep: str = "", file: IO[str] | None = None) -> None:
    """Print a line of the result. Unprintable characters are escaped, but for those in `keep`."""
    click.echo(escaped(line, keep), file)


def emit_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print columns under Kafka's headings: `log_end_offset` is LOG-END-OFFSET."""
    head = [heading(column) for column in columns]
    cells = [[text(row.get(column)) for column in columns] for row in rows]
    if sys.stdout.isatty():
        _rich_table(head, cells)
        return
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    for line in [head, *cells]:
        say("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def heading(column: str) -> str:
    """A column's heading as Kafka writes it: `log_end_offset` is LOG-END-OFFSET."""
    return column.replace("_", "-").upper()


def text(value: Any) -> str:
    """A value as the text of a cell: "-" for None and empty values, lists with commas, no control characters."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(text, value)) or "-"
    return escaped(str(value))


def size(size_bytes: int | None) -> str | None:
    """Bytes for people: `1.2 MB`; None if they are not known."""
    from rich.filesize import decimal

    return None if size_bytes is None else decimal(size_bytes)


def note(message: str, *, keep: str = "") -> None:
    """Print a line that is not part of the result: to stderr, so that it does not get into a pipe."""
    click.echo(escaped(message, keep), err=True)


class Remarks(logging.Handler):
    """Prints what is logged by what a command uses, as notes."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record's text; its traceback is for those who set up logging."""
        try:
            note(record.getMessage())
        except Exception:  # the arguments do not fit the message
            self.handleError(record)


def warn_of_readers(path: Path) -> None:
    """Print a line if others can read a file with secrets. Errors are left to the code that reads it."""
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
    from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    shape = (_label_column(), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with RichProgress(*shape, console=Console(stderr=True), transient=True) as bars:
        yield _Bar(bars, bars.add_task(escaped(label), total=total))


@contextmanager
def working(label: str) -> Iterator[None]:
    """Show a spinner and the seconds so far on stderr while the block runs; nothing if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import SpinnerColumn, TimeElapsedColumn

    shape = (SpinnerColumn(), _label_column(), TimeElapsedColumn())
    # Else rich would put standard output back at the end, though the block may have exchanged it meanwhile.
    with RichProgress(*shape, console=Console(stderr=True), transient=True, redirect_stdout=False) as bars:
        bars.add_task(escaped(label), total=None)
        yield


def plural(count: int, thing: str) -> str:
    """A count of things as text: `1 topic`, `2 topics`."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


class _Silent:
    def advance(self, steps: int = 1) -> None:
        """Do nothing: stderr is not a terminal."""


class _Bar:
    def __init__(self, bars: Any, task: Any) -> None:
        self._bars, self._task = bars, task

    def advance(self, steps: int = 1) -> None:
        self._bars.advance(self._task, steps)


def _label_column() -> Any:
    from rich.progress import TextColumn

    return TextColumn("{task.description}", markup=False)


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
