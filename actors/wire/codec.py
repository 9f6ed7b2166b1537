"""Makes a message's class from schema.json. Its encoder and decoder for a version are made when first used.

Elsewhere: their source code (codegen.py), framing and headers (framing.py), classes by name (messages.py).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Self

from actors.wire.codegen import Layout, Row, Structs, default, make_decoder, make_encoder
from actors.wire.errors import TooManyEntriesError, WireError


class Message:
    """A struct of the protocol. Equality is by fields; a field a version lacks has its default."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self.__slots__)})"


class ApiMessage(Message):
    """A whole request or response body."""

    __slots__ = ()
    api_key: ClassVar[int]
    min_version: ClassVar[int]
    max_version: ClassVar[int]
    flexible_from: ClassVar[int]
    layout: ClassVar[Layout]
    _encoders: ClassVar[dict[int, Callable[[Any], list[bytes]]]]
    _decoders: ClassVar[dict[int, Callable[[bytes, int, int], Any]]]

    def encode(self, version: int) -> bytes:
        """The body's bytes in `version`. Raises WireError if the version is unknown or a value does not fit."""
        try:
            return b"".join(self.encode_parts(version))
        except TypeError as error:
            raise WireError(f"{type(self).__name__} v{version} cannot be encoded: {error}") from error

    def encode_parts(self, version: int) -> list[bytes]:
        """The same in parts: what is large in the message is one, and has not been copied."""
        encoder = self._encoders.get(version)
        if encoder is None:
            encoder = self._encoders[version] = make_encoder(self.layout, version)
        try:
            return encoder(self)
        except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
            raise WireError(f"{type(self).__name__} v{version} cannot be encoded: {error}") from error

    @classmethod
    def decode(cls, data: bytes, version: int, offset: int = 0, entries_max: int = sys.maxsize) -> Self:
        """The message at `data[offset:]`. Raises WireError on anything malformed; bytes after it are ignored.

        `entries_max` bounds the work: all its lists together may have so many entries, else TooManyEntriesError.
        """
        decoder = cls._decoders.get(version)
        if decoder is None:
            decoder = cls._decoders[version] = make_decoder(cls.layout, version)
        try:
            return decoder(data, offset, entries_max)  # type: ignore[no-any-return]
        except TooManyEntriesError:
            raise
        except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
            raise WireError(f"{cls.__name__} v{version} is malformed: {error}") from error


# --- classes ----------------------------------------------------------------------------------------------------

_UNSET: list[Any] = []  # a default that stands for a new empty list


def _make_struct(name: str, rows: list[Row], base: type) -> type:
    defaults = {row[0]: default(row) for row in rows}
    arguments = ", ".join(f"{field}={'_UNSET' if value == '[]' else value}" for field, value in defaults.items())
    body = [
        f"        self.{field} = [] if {field} is _UNSET else {field}"
        if value == "[]"
        else f"        self.{field} = {field}"
        for field, value in defaults.items()
    ] or ["        pass"]
    star = "*, " if rows else ""
    source = (
        f"class {name}(base):\n    __slots__ = {tuple(row[0] for row in rows)!r}\n"
        f"    def __init__(self, {star}{arguments}):\n" + "\n".join(body) + "\n"
    )
    scope: dict[str, Any] = {"base": base, "_UNSET": _UNSET, "__name__": "actors.wire.messages"}
    exec(source, scope)
    made: type = scope[name]
    return made


def make_message(name: str, spec: dict[str, Any]) -> type[ApiMessage]:
    """The class of one message; its structs are attributes of it."""
    structs: Structs = spec["structs"]
    cls = _make_struct(name, structs[name], ApiMessage)
    classes = {name: cls}
    for nested, rows in structs.items():
        if nested != name:
            classes[nested] = _make_struct(nested, rows, Message)
            classes[nested].__qualname__ = f"{name}.{nested}"
            setattr(cls, nested, classes[nested])
    first, last = spec["versions"]
    for attribute, value in {
        "api_key": spec["api_key"],
        "min_version": first,
        "max_version": last,
        "flexible_from": spec["flexible"],
        "layout": Layout(name, (first, last), spec["flexible"], structs, classes),
        "_encoders": {},
        "_decoders": {},
    }.items():
        setattr(cls, attribute, value)
    return cls
