"""Messages as frozen dataclasses, and the one encoder and decoder of each link: a table from tag to class.

A message travels as an array, its tag first, then the values of its fields in their order; msgpack carries it. A
dataclass within a message is an array of its values alone, unless it has a tag as well. Fields are int, float, str,
bytes, bool, IntEnum, StrEnum, dataclasses, tuples and mappings of these, or None where the field allows it. A value of
a type that its field cannot hold raises a LinkError that names the field.

Builds differ in what they know (`versions`). Fields are only added at the end of a dataclass, and have a default. A
receiver ignores those that it does not know, and gives those that do not come their default. A message of a kind that
it does not know is an UnknownKindError. A sender leaves out the fields, and refuses to send the kinds, that are newer
than the version that both ends use: `since` marks such a field, and the argument of that name such kinds.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, is_dataclass
from enum import IntEnum, StrEnum
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgpack

from actors import CoterieError

M = TypeVar("M")
T = TypeVar("T")
_Read = Callable[[Any], Any]

_PLAIN = (int, str, bytes, bool, float)
_SINCE: Final = "since"
_NEWEST: Final = 1 << 31


class LinkError(CoterieError):
    """Bytes from a link are not one of its messages. The text names the message and the field."""


class UnknownKindError(LinkError):
    """A message, or something in it, is of a kind that this build does not know: a newer one may have sent it.

    `outer` and `values` are the class of the whole message, None if that is what is unknown, and its raw values.
    """

    def __init__(self, text: str, kind: int, outer: type | None = None, values: Sequence[Any] = ()) -> None:
        super().__init__(text)
        self.kind = kind
        self.outer = outer
        self.values = values


class NotSpokenError(LinkError):
    """A message cannot be sent, because its kind is newer than the version that both ends use."""


def since(version: int, default: Any) -> Any:
    """A field that is not sent to ends that use an older version than this one. They take it to be the default."""
    return field(default=default, metadata={_SINCE: version})


class Codec(Generic[M]):
    """Encodes and decodes the messages of one link.

    `packed`: for classes with a form of their own, a function that makes it and one that reads it.

    `quick`: for frequent messages, a function from the message to the values of its fields, and one back. They make and
    expect what the table would, but need not check types. If the one back raises TypeError, ValueError or LookupError,
    the values are read again field by field, so that the error says which is wrong. It must not change them.

    `since`: the version in which a kind of message came, for those that were not in the first one.

    `exact`: arrays have as many values as their classes have fields. For records that have a format of their own.

    `without_tag`: of several classes that a field of a base class may hold, the one that has no tag. Its first value is
    no integer.
    """

    def __init__(
        self,
        link: str,
        classes: Mapping[int, type[M]],
        packed: Mapping[type, tuple[Callable[[Any], object], Callable[[Any], object]]] | None = None,
        quick: Mapping[type[M], tuple[Callable[[Any], tuple[Any, ...]], Callable[[list[Any]], M]]] | None = None,
        since: Mapping[Any, int] | None = None,
        *,
        exact: bool = False,
        without_tag: Mapping[type, type] | None = None,
    ) -> None:
        self._exact = exact
        self._link = link
        self._classes = dict(classes)
        self._tags = {cls: tag for tag, cls in classes.items()}
        self._packed = packed or {}
        self._since: Mapping[type, int] = since or {}
        self._newest = max(self._since.values(), default=0)  # the first version in which all can be said
        self._older: dict[int, dict[type, Callable[[Any], object]]] = {}  # writers for versions before that
        self._without_tag = without_tag or {}
        self._writers: dict[type, Callable[[Any], object]] = {cls: write for cls, (write, _) in self._packed.items()}
        self._records: dict[type, _Row] = {}
        self._readers: dict[int, _Read] = {tag: self._record(cls).read for tag, cls in classes.items()}
        for cls, (values, made) in (quick or {}).items():
            tag = self._tags[cls]
            self._writers[cls] = _tagging(tag, values)
            self._readers[tag] = _quickly(made, self._readers[tag])

    @property
    def classes(self) -> dict[int, type[M]]:
        """The messages by their tags."""
        return dict(self._classes)

    def encode(self, message: M, version: int = _NEWEST) -> bytes:
        """The bytes of a message, for an end that uses `version`.

        Raises TypeError if its class does not belong to this link, and NotSpokenError if the version has none like it.
        """
        kind = type(message)
        if kind not in self._tags:
            raise TypeError(f"{kind.__name__} is no message of the {self._link} link")
        if version < self._newest:
            return self._encode_older(message, version)
        body: bytes = msgpack.packb(self._writers[kind](message), default=self._write)
        return body

    def _encode_older(self, message: M, version: int) -> bytes:
        writers = self._older.get(version)
        if writers is None:
            writers = self._older[version] = self._writers_of(version)

        def write(value: object) -> object:
            if self._since.get(type(value), 0) > version:
                raise NotSpokenError(f"{type(value).__name__} is not in version {version} of the {self._link} link")
            return self._write(value, writers)

        body: bytes = msgpack.packb(write(message), default=write)
        return body

    def read(self, wanted: type[T], body: bytes) -> T:
        """The message of these bytes, which has to be of the class `wanted`. Raises LinkError."""
        message = self.decode(body)
        if not isinstance(message, wanted):
            raise LinkError(f"{self._link} link: {type(message).__name__} is no {wanted.__name__}")
        return message

    def decode(self, body: bytes) -> M:
        """The message of these bytes. Raises LinkError."""
        values: Any = None
        try:
            values = msgpack.unpackb(body)
            return cast(M, self._tagged(values))
        except UnknownKindError as error:
            text = f"{self._link} link: {error}"
            raise UnknownKindError(text, error.kind, self._classes.get(values[0]), values[1:]) from None
        except LinkError as error:
            raise LinkError(f"{self._link} link: {error}") from None
        except ValueError as error:
            raise LinkError(f"{self._link} link: no msgpack: {error}") from error

    def _write(self, value: object, writers: Mapping[type, Callable[[Any], object]] | None = None) -> object:
        write = (writers or self._writers).get(type(value))
        if write is not None:
            return write(value)
        if isinstance(value, Mapping):
            return dict(value)
        raise TypeError(f"{type(value).__name__} is in no message of the {self._link} link")

    # --- made once, when the link's module is imported ---

    def _record(self, cls: type) -> _Row:
        """The reader of a dataclass. Its writer is entered in the table on the way."""
        found = self._records.get(cls)
        if found is None:
            found = self._records[cls] = _Row(cls.__name__, cls)
            names = [field.name for field in fields(cls)]
            known = get_type_hints(cls)  # evaluates all of them, each time
            hints = [known[name] for name in names]
            found.complete(
                names, hints, list(map(self._reader, hints)), required=None if self._exact else _required(cls)
            )
            self._writers[cls] = _writer(names, self._tags.get(cls))
            self._newest = max(self._newest, *(_version(each) for each in fields(cls)), 0)
        return found

    def _writers_of(self, version: int) -> dict[type, Callable[[Any], object]]:
        """Writers of all classes that leave out fields newer than a version. The quick ones write all fields."""
        writers: dict[type, Callable[[Any], object]] = {cls: write for cls, (write, _) in self._packed.items()}
        for cls in self._records:
            names = [each.name for each in fields(cls) if _version(each) <= version]
            writers[cls] = _writer(names, self._tags.get(cls))
        return writers

    def _reader(self, hint: Any) -> _Read:
        origin, arguments = get_origin(hint) or hint, get_args(hint)
        if origin in (Union, types.UnionType):
            return self._optional(arguments)
        if origin is tuple:
            return self._tuple(arguments)
        if origin in (Mapping, dict):
            return _mapping(*map(self._reader, arguments))
        if origin is float:
            return _float
        if origin in _PLAIN:
            return _exactly(origin)
        if origin in self._packed:
            return _packed(origin, self._packed[origin][1])
        if issubclass(origin, IntEnum | StrEnum):
            return _enum(origin)
        if origin not in self._tags and is_dataclass(origin):
            return self._record(cast(type, origin)).read
        return self._one_of(origin)

    def _optional(self, arguments: tuple[Any, ...]) -> _Read:
        (hint,) = (each for each in arguments if each is not types.NoneType)
        read = self._reader(hint)
        return lambda value: None if value is None else read(value)

    def _tuple(self, arguments: tuple[Any, ...]) -> _Read:
        if arguments[-1] is Ellipsis:
            return _sequence(self._reader(arguments[0]))
        names = [str(number) for number in range(len(arguments))]
        return _Row("tuple", _as_tuple).complete(names, arguments, list(map(self._reader, arguments))).read

    def _one_of(self, base: type) -> _Read:
        """The reader of a field that holds one of several messages: those of class `base`."""
        plain = self._without_tag.get(base)
        read_plain = self._record(plain).read if plain is not None else None

        def read(value: Any) -> Any:
            if read_plain is not None and not _has_tag(value):
                return read_plain(value)
            found = self._tagged(value)
            if not isinstance(found, base):
                raise LinkError(f"{type(found).__name__} is no {base.__name__}")
            return found

        return read

    def _tagged(self, values: Any) -> Any:
        if type(values) is not list or not values:
            raise LinkError(f"a message is an array with a tag, not {_shown(values)}")
        read = self._readers.get(values[0]) if type(values[0]) is int else None
        if read is None:
            text = f"unknown tag {_shown(values[0])}"
            raise UnknownKindError(text, values[0]) if type(values[0]) is int else LinkError(text)
        return read(values[1:])


def _has_tag(values: Any) -> bool:
    return type(values) is list and len(values) > 0 and type(values[0]) is int


class _Row:
    """Reads an array, each value by the reader of its type, and calls `make` with the values."""

    def __init__(self, what: str, make: Callable[..., Any]) -> None:
        self._what = what
        self._make = make
        self._required: int | None = None  # the fewest values that may come; None: one for each field
        self._types: tuple[type, ...] = ()
        self._names: Sequence[str] = ()
        self._all: list[tuple[int, _Read]] = []
        self._others: list[tuple[int, _Read]] = []

    def complete(
        self, names: Sequence[str], hints: Sequence[Any], readers: Sequence[_Read], required: int | None = None
    ) -> _Row:
        self._names, self._all, self._required = names, list(enumerate(readers)), required
        # One comparison checks all values of which nothing but the type has to be checked.
        self._types = tuple(map(_carrier, hints))
        self._others = [each for each, hint in zip(self._all, hints, strict=True) if hint not in _PLAIN]
        return self

    def read(self, values: Any) -> Any:
        if type(values) is not list or len(values) != len(self._all):
            return self._read_others(values)
        i = 0
        try:
            for i, read in self._others if tuple(map(type, values)) == self._types else self._all:
                values[i] = read(values[i])
        except LinkError as error:
            raise self._at(i, error) from None
        return self._make(*values)

    def _read_others(self, values: Any) -> Any:
        """Read an array of another build, which lacks fields that came later, or has some that are not known here."""
        if type(values) is not list or self._required is None or len(values) < self._required:
            raise LinkError(f"{self._what} is an array of {len(self._all)}, not {_shown(values)}")
        known = []
        for (i, read), value in zip(self._all, values, strict=False):
            try:
                known.append(read(value))
            except LinkError as error:
                raise self._at(i, error) from None
        return self._make(*known)

    def _at(self, i: int, error: LinkError) -> LinkError:
        """The error, which came up in this field."""
        text = f"{self._what}.{self._names[i]}: {error}"
        return UnknownKindError(text, error.kind) if isinstance(error, UnknownKindError) else LinkError(text)


def _required(cls: type) -> int:
    """The number of fields without a default. Raises TypeError for a late field that would break others."""
    own = fields(cls)
    versions = [_version(each) for each in own]
    if versions != sorted(versions):
        raise TypeError(f"{cls.__name__}: fields that came later stand at its end")
    return sum(each.default is MISSING and each.default_factory is MISSING for each in own)


def _version(of: Field[Any]) -> int:
    version: int = of.metadata.get(_SINCE, 0)
    return version


def _writer(names: list[str], tag: int | None) -> Callable[[Any], object]:
    """A function from a dataclass to the array of its values, which msgpack can pack."""
    if not names:
        return lambda value: () if tag is None else (tag,)
    if len(names) == 1:
        (name,) = names
        return lambda value: (getattr(value, name),) if tag is None else (tag, getattr(value, name))
    values = attrgetter(*names)
    return values if tag is None else _tagging(tag, values)


def _tagging(tag: int, values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], object]:
    return lambda value: (tag, *values(value))


def _quickly(made: Callable[[list[Any]], Any], carefully: _Read) -> _Read:
    def read(values: list[Any]) -> Any:
        try:
            return made(values)
        except (TypeError, ValueError, LookupError):
            return carefully(values)

    return read


def _carrier(hint: Any) -> type:
    """The type in which msgpack mostly gives back a value of this type."""
    origin = get_origin(hint) or hint
    if origin in _PLAIN:
        return cast(type, origin)
    if isinstance(origin, type) and issubclass(origin, IntEnum | StrEnum):
        return int if issubclass(origin, IntEnum) else str
    return dict if origin in (Mapping, dict) else list


def _as_tuple(*values: Any) -> tuple[Any, ...]:
    return values


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _exactly(wanted: type) -> _Read:
    def read(value: Any) -> Any:
        if type(value) is not wanted:
            raise LinkError(f"{_shown(value)} is no {wanted.__name__}")
        return value

    return read


def _float(value: Any) -> float:
    if type(value) not in (float, int):
        raise LinkError(f"{_shown(value)} is no float")
    return float(value)


def _enum(wanted: type[IntEnum] | type[StrEnum]) -> _Read:
    def read(value: Any) -> IntEnum | StrEnum:
        try:
            return wanted(value)
        except ValueError:
            raise LinkError(f"{_shown(value)} is no {wanted.__name__}") from None

    return read


def _packed(wanted: type, unpack: Callable[[Any], object]) -> _Read:
    def read(value: Any) -> object:
        try:
            return unpack(value)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise LinkError(f"{_shown(value)} is no {wanted.__name__}: {error}") from error

    return read


def _sequence(item: _Read) -> _Read:
    def read(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise LinkError(f"{_shown(value)} is no array")
        return tuple(map(item, value))

    return read


def _mapping(key: _Read, item: _Read) -> _Read:
    def read(value: Any) -> dict[Any, Any]:
        if type(value) is not dict:
            raise LinkError(f"{_shown(value)} is no map")
        return {key(k): item(v) for k, v in value.items()}

    return read
