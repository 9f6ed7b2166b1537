r"""Text of others, made harmless: what a client has named cannot move a terminal's cursor or begin a line of a log.

All that is not printable is written as Python writes it in a literal: control characters such as ESC (`\x1b`), line
breaks (`\n`, U+2028, U+2029), marks that turn the direction of text (U+202E), and halves of surrogate pairs. Logs
escape by their formatter (`logs.py`), commands by `actors/cli/output.py`: whoever calls these need not think of it.
"""

from __future__ import annotations

import json
from typing import Any


def escaped(text: str, keep: str = "") -> str:
    """The text with escapes for all that is not printable, except for the characters in `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def indented(text: str) -> str:
    """The lines of a traceback, each after two blanks: a line break in an error's text begins no line of a log."""
    return "\n".join("  " + escaped(line, keep="\t") for line in text.split("\n"))


def escaped_json(value: Any, indent: int | None = None, *, ascii_only: bool = True) -> str:
    r"""The value as JSON in which all that is not printable is an escape of JSON's own, such as `\u001b`.

    It is read as what it was. The only line breaks are those of `indent`. With `ascii_only` all letters but those of
    ASCII are escapes as well.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    return "".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in text)


def _json_escape(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
