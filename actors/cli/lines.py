"""Records as lines of text: what `produce` reads and `consume` writes. Pure; no client here.

As text a line is the value, or key, separator, value. As JSON it is an object with `key`, `value` and `headers`
(a list of [name, value]), `partition` and `timestamp` (-1: it has none); bytes that are not UTF-8 are written as
{"base64": "..."}, also as the name of a header. So produce reads back what consume writes.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from actors.cli.errors import CliError
from actors.records.rows import name_of
from actors.runtime.escaping import escaped, escaped_json

Headers = list[tuple[str | bytes, bytes | None]]
_KNOWN = {"key", "value", "headers", "partition", "timestamp", "topic", "offset"}


class Record(Protocol):
    """The part of a consumed record that is written as a line. Keys and values are raw bytes."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str | bytes, bytes | None]]: ...


@dataclass(frozen=True, slots=True)
class ToSend:
    """One record to produce. `timestamp_ms` is Unix time, -1 for none; None: the time of sending."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None = None
    timestamp_ms: int | None = None


def from_text(line: bytes, separator: bytes | None, headers: Headers) -> ToSend:
    """The record that a line (without its line break) stands for. Raises CliError if the separator is missing."""
    if separator is None:
        return ToSend(None, line, headers)
    key, found, value = line.partition(separator)
    if not found:
        raise CliError(f"a line has no key separator {separator.decode(errors='replace')!r}: {_short(line)}")
    return ToSend(key, value, headers)


def from_json(line: bytes, headers: Headers) -> ToSend:
    """The record that a line with one JSON object stands for. Raises CliError if it is not such an object."""
    try:
        found = json.loads(line)
    except ValueError as error:
        raise CliError(f"a line is not JSON ({error}): {_short(line)}") from None
    if not isinstance(found, dict) or found.keys() - _KNOWN:
        raise CliError(
            f"a line must be an object with only key, value, headers, partition and timestamp: {_short(line)}"
        )
    own = [(_name(each, line), _to_bytes(each[1], line)) for each in found.get("headers") or []]
    return ToSend(
        _to_bytes(found.get("key"), line),
        _to_bytes(found.get("value"), line),
        headers + own,
        _number(found, "partition", line),
        _number(found, "timestamp", line, -(2**63)),
    )


def parse_headers(texts: Iterable[str]) -> Headers:
    """The headers of `name=value` options; a name without `=` is a header whose value is null."""
    parts = [text.partition("=") for text in texts]
    return [(name_of(_typed(name)), _typed(value) if separator else None) for name, separator, value in parts]


def _typed(text: str) -> bytes:
    """The bytes of an argument, which Python decoded when the program began."""
    return text.encode("utf-8", "surrogateescape")


def to_text(record: Record, separator: bytes | None, *, headers: bool = False) -> bytes:
    """A record as a line with its line break: `[headers TAB] [key separator] value`; null is written `null`."""
    parts = []
    if headers:
        listed = b",".join(_name_bytes(name) + b":" + _or_null(value) for name, value in record.headers)
        parts += [listed or b"NO_HEADERS", b"\t"]
    if separator is not None:
        parts += [_or_null(record.key), separator]
    return b"".join([*parts, _or_null(record.value), b"\n"])


def to_json(record: Record) -> bytes:
    """A record as a line with its line break: one JSON object."""
    shown = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _to_json(record.key),
        "value": _to_json(record.value),
        "headers": [[_to_json(_name_bytes(name)), _to_json(value)] for name, value in record.headers],
    }
    return escaped_json(shown, ascii_only=False).encode() + b"\n"


def for_terminal(line: bytes) -> bytes:
    """A line of `to_text` for a terminal, which control characters in it do not reach: only line breaks and tabs do."""
    return escaped(line.decode(errors="backslashreplace"), keep="\n\t").encode()


def separator_bytes(text: str | None) -> bytes | None:
    r"""The bytes of a separator as it was typed, where `\t` is a tab."""
    return None if text is None else text.replace("\\t", "\t").encode()


def _or_null(value: bytes | None) -> bytes:
    return b"null" if value is None else value


def _to_json(value: bytes | None) -> str | dict[str, str] | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def _to_bytes(value: Any, line: bytes) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _encoded(value, line)
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return b64decode(value["base64"], validate=True)
        except (ValueError, TypeError):
            raise CliError(f"a line has base64 that cannot be read: {_short(line)}") from None
    return json.dumps(value).encode()  # numbers, lists and objects go as the JSON they are


def _encoded(text: str, line: bytes) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise CliError(f"a line has half of a character, which UTF-8 cannot write: {_short(line)}") from None


def _name_bytes(name: str | bytes) -> bytes:
    return name if isinstance(name, bytes) else name.encode()


def _name(header: Any, line: bytes) -> str | bytes:
    if isinstance(header, list) and len(header) == 2 and isinstance(header[0], str | dict):
        name = _to_bytes(header[0], line)
        if name is not None and (isinstance(header[0], str) or header[0].keys() == {"base64"}):
            return name_of(name)
    raise CliError(f'headers must be pairs such as [["name", "value"]]: {_short(line)}')


def _number(found: dict[str, Any], key: str, line: bytes, least: int = 0) -> int | None:
    value = found.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63):
        return value
    raise CliError(f"{key} must be a whole number: {_short(line)}")


def _short(line: bytes) -> str:
    text = line[:80].decode(errors="replace")
    return repr(text + ("..." if len(line) > 80 else ""))
