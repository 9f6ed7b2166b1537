"""Properties files as Kafka has them: the part of Java's format that people use. Keys are not checked here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from actors.settings.kinds import SettingError

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SEPARATOR: Final = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)


class Property(NamedTuple):
    """A key and its value, and the number of the line where the key stands."""

    line: int
    key: str
    value: str


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of a properties file. Of two lines with the same key the last one holds, as in Java.

    Raises SettingError on a line without a key.
    """
    return {each.key: each.value for each in properties(text)}


def properties(text: str) -> Iterator[Property]:
    r"""The properties of a file, in its order.

    Understood are comments (`#` and `!`), `=`, `:` or blanks between key and value, a backslash at the end of a line
    that goes on in the next, and the escapes `\t \n \r \f \uXXXX`. Raises SettingError on a line without a key.
    """
    for number, line in _logical_lines(text):
        match = _SEPARATOR.fullmatch(line)
        if match is None or not match[1]:
            raise SettingError("", f"line {number} of the properties file names no setting")
        yield Property(number, _unescape(match[1]), _unescape(match[2]))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    held, start = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(" \t\f")
        if not held and (not line or line[0] in "#!"):
            continue
        start = start if held else number
        held += line
        if (len(held) - len(held.rstrip("\\"))) % 2:  # an odd number: the last one escapes the line's end
            held = held[:-1]
            continue
        yield start, held
        held = ""
    if held:
        yield start, held


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPES.get(found[2], found[2]), text)
