"""Turns the headers and the time that a program gives for a record into the form that builders of batches take."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any, Final

from actors.client.errors import SerializationError
from actors.client.settings import ProducerConfig
from actors.records.rows import name_of

_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1
_LENGTHS: Final = 10  # bytes for the lengths of a name and a value


def headers_of(given: Any) -> tuple[list[tuple[str | bytes, bytes | None]], int]:
    """The headers, and the most bytes they take. A name is str or bytes, a value bytes or None.

    A name is text in the result if it is UTF-8. Raises SerializationError, which names what is wrong.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise SerializationError(f"the headers are {_short(given)}, not a list of (name, value)")
    headers, size = [], 0
    for each in given:
        name, value = header = each if _is_plain(each) else _header(each)
        headers.append(header)
        size += _LENGTHS + 3 * len(name) + len(value or b"")
    return headers, size


def _is_plain(given: Any) -> bool:
    """True if a header is as most are, and needs no second look."""
    if type(given) is not tuple or len(given) != 2:
        return False
    name, value = given
    return type(name) is str and name.isascii() and (type(value) is bytes or value is None)


def _header(given: Any) -> tuple[str | bytes, bytes | None]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise SerializationError(f"a header is {_short(given)}, not a pair of name and value")
    name, value = given
    return _name(name, given), _value(value, given)


def _name(name: Any, header: Any) -> str | bytes:
    if isinstance(name, bytes | bytearray | memoryview):
        return name_of(bytes(name))
    if not isinstance(name, str):
        raise SerializationError(
            f"the name of the header {_short(header)} is of type {type(name).__name__}, not str or bytes"
        )
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError:
            raise SerializationError(f"the name of the header {_short(header)} is no text that UTF-8 has") from None
    return str(name)


def _value(value: Any, header: Any) -> bytes | None:
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise SerializationError(
        f"the value of the header {_short(header)} is of type {type(value).__name__}, not bytes or None"
    )


def limit_of(config: ProducerConfig, size: int) -> tuple[str, int]:
    """The setting that a record of so many bytes is too large for, and its value."""
    if size > config.max_request_size:
        return "max_request_size", config.max_request_size
    return "buffer_memory", config.buffer_memory


def time_of(given: Any) -> int:
    """A record's time in Unix ms, -1 for none, or any other number that 64 bits have. Raises SerializationError."""
    try:
        at = index(given)
    except TypeError:
        raise SerializationError(f"timestamp_ms is {_short(given)}, not a whole number of milliseconds") from None
    if not _LONG_MIN <= at <= _LONG_MAX:
        raise SerializationError(f"timestamp_ms is {_short(given)}, more than a number of 64 bits can say")
    return at


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:80]}..."
