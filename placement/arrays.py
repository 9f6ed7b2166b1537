"""Dataclasses as arrays of their fields' values, in the fields' order, for msgpack to carry.

The rules by which a class may grow, so that each release reads what another has written:

- A field is added at the end, with a default. It may be left out: a reader takes the default for what is not there.
- A reader leaves out values beyond the fields that it knows. So a field may be added only if its loss does no harm;
  any other change is a new version of the record that the class is part of (`placement.records`).
- The array of a record or an image ends with the last value that is not its field's default.

Fields are int, float, str, bytes, bool, dataclasses, named tuples, tuples and mappings of these, or None where the
field allows it. The last field of a class may be an `Annotated[..., IN_PLACE]`, a dataclass or named tuple that has no
array of its own: its values follow those of the other fields.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from operator import attrgetter, itemgetter
from typing import Annotated, Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from actors import CoterieError

T = TypeVar("T")
_Convert = Callable[[Any], Any]
_Both = tuple[_Convert | None, _Convert | type]

_PLAIN: Final = (int, str, bytes, bool)
IN_PLACE: Final = object()


class ArrayError(CoterieError, ValueError):
    """An array is not one of the class that was expected. The text names the field."""


class Arrays:
    """Writes and reads dataclasses. `packed`: for types with a form of their own, what makes it and what reads it."""

    def __init__(self, packed: Mapping[Any, tuple[_Convert, _Convert]] | None = None) -> None:
        self._packed: dict[Any, _Both] = dict(packed or {})
        self._rows: dict[type, _Row] = {}

    def write(self, value: Any) -> list[Any]:
        """The array of a dataclass, without the defaults at its end."""
        return self._row(type(value)).write_short(value)

    def read(self, cls: type[T], values: Any) -> T:
        """The dataclass of an array. Raises ArrayError."""
        return cast(T, self._row(cls).read(values))

    def _row(self, cls: type) -> _Row:
        found = self._rows.get(cls)
        if found is None:
            hints = get_type_hints(cls, include_extras=True)
            columns = [(name, *self._both(hints[name])) for name in _names(cls)]
            found = self._rows[cls] = _Row(cls, columns, _is_in_place(hints))
        return found

    def _both(self, hint: Any) -> _Both:
        """Writer and reader of a value of this type: no writer if msgpack writes it, its type if that reads it."""
        if hint in self._packed:
            return self._packed[hint]
        if get_origin(hint) is Annotated:
            both: _Both = self._both(get_args(hint)[0])
            return both
        origin, arguments = get_origin(hint) or hint, get_args(hint)
        if origin in _PLAIN:
            return None, origin
        if origin is float:
            return None, _float
        if origin in (Union, types.UnionType):
            (inner,) = (each for each in arguments if each is not types.NoneType)
            return _optional(*self._both(inner))
        if origin is tuple:
            return self._tuple(arguments)
        if origin is Mapping:
            return _mapping(self._both(arguments[0])[1], *self._both(arguments[1]))
        row = self._row(origin)
        return row.write, row.read

    def _tuple(self, arguments: tuple[Any, ...]) -> tuple[_Convert | None, _Convert]:
        if arguments[-1] is Ellipsis:
            write, read = self._both(arguments[0])
            if read in _PLAIN:
                return None, _plain_sequence
            return (None if write is None else partial(_each, write)), partial(_sequence, _reading(read))
        readers = [_reading(self._both(each)[1]) for each in arguments]
        return None, partial(_fixed, readers)


class _Row:
    """Writes and reads one class."""

    def __init__(self, cls: type, columns: list[tuple[str, _Convert | None, _Convert | type]], in_place: bool) -> None:
        """`columns`: the name of each field, what writes it and what reads it."""
        self._cls = cls
        self._defaults = _defaults(cls)
        self._names = [name for name, _, _ in columns]
        self._values = _getter(self._names)
        self._in_place = in_place
        self._writers = [(i, write) for i, (_, write, _) in enumerate(columns) if write is not None]
        self._readers = [_reading(read) for _, _, read in columns]
        self._least = len(columns) - len(self._defaults)
        self.read = self._read if in_place else _quickly(cls, [read for _, _, read in columns], self._read)

    def write(self, value: Any) -> list[Any]:
        made = list(self._values(value))
        for i, write in self._writers:
            made[i] = write(made[i])
        return [*made[:-1], *made[-1]] if self._in_place else made

    def write_short(self, value: Any) -> list[Any]:
        made, own = self.write(value), self._values(value)
        for default in reversed(self._defaults):
            if own[len(made) - 1] != default():
                break
            made.pop()
        return made

    def _read(self, values: Any) -> Any:
        if type(values) not in (list, tuple):
            raise ArrayError(f"{self._cls.__name__} is an array, not {_shown(values)}")
        if self._in_place:
            last = len(self._names) - 1
            values = [*values[:last], values[last:]]
        if len(values) < self._least:
            raise ArrayError(f"{self._cls.__name__} is an array of at least {self._least}, not {_shown(values)}")
        made = []
        try:
            for read, value in zip(self._readers, values, strict=False):  # it may be shorter or longer
                made.append(read(value))
        except ArrayError as error:
            raise ArrayError(f"{self._cls.__name__}.{self._names[len(made)]}: {error}") from None
        return self._cls(*made)


def _quickly(cls: type, readers: list[_Convert | type], carefully: _Convert) -> _Convert:
    """Reads arrays as most of them are: no value is missing, and one look tells that all plain ones are right."""
    carriers: dict[_Convert | type, type] = {each: each for each in _PLAIN} | {_plain_sequence: list}
    looked_at = [i for i, read in enumerate(readers) if read in carriers]
    plain, types = _items(looked_at), tuple(carriers[readers[i]] for i in looked_at)
    others = [(i, _converter(read)) for i, read in enumerate(readers) if read not in _PLAIN]
    count = len(readers)

    def read(values: Any) -> Any:
        if type(values) is not list or len(values) != count or tuple(map(type, plain(values))) != types:
            return carefully(values)
        made = values.copy()
        try:
            for i, convert in others:
                made[i] = convert(made[i])
        except ArrayError:
            return carefully(values)  # it says where the error is
        return cls(*made)

    return read


def _converter(read: _Convert) -> _Convert:
    """The converter for values whose type has already been checked."""
    return tuple if read is _plain_sequence else read


def _names(cls: Any) -> list[str]:
    return [each.name for each in fields(cls)] if is_dataclass(cls) else list(cls._fields)


def _defaults(cls: Any) -> list[Callable[[], Any]]:
    """Factories of the default values of a class's last fields."""
    if not is_dataclass(cls):
        return []
    made: list[Callable[[], Any]] = []
    for each in fields(cls):
        if each.default is not MISSING:
            made.append(partial(_same, each.default))
        elif each.default_factory is not MISSING:
            made.append(each.default_factory)
    return made


def _same(value: Any) -> Any:
    return value


def _is_in_place(hints: Mapping[str, Any]) -> bool:
    return any(IN_PLACE in get_args(hint) for hint in hints.values() if get_origin(hint) is Annotated)


def _items(at: list[int]) -> Callable[[Any], Any]:
    """A getter of the values at these places, as a sequence."""
    return itemgetter(*at) if len(at) > 1 else lambda values: [values[i] for i in at]


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda value: ()
    if len(names) == 1:
        (name,) = names
        return lambda value: (getattr(value, name),)
    return attrgetter(*names)


def _reading(read: _Convert | type) -> _Convert:
    return partial(_exactly, read) if read in _PLAIN else read


def _exactly(wanted: type, value: Any) -> Any:
    if type(value) is not wanted:
        raise ArrayError(f"{_shown(value)} is no {wanted.__name__}")
    return value


def _float(value: Any) -> float:
    if type(value) not in (float, int):
        raise ArrayError(f"{_shown(value)} is no float")
    return float(value)


def _optional(write: _Convert | None, read: _Convert | type) -> tuple[_Convert | None, _Convert]:
    convert = _reading(read)
    return (
        None if write is None else lambda value: None if value is None else write(value),
        lambda value: None if value is None else convert(value),
    )


def _each(write: _Convert, values: Sequence[Any]) -> list[Any]:
    return [write(value) for value in values]


def _plain_sequence(values: Any) -> tuple[Any, ...]:
    """Checks the type of the sequence only: one of us wrote the items, and a partition has five of these."""
    if type(values) not in (list, tuple):
        raise ArrayError(f"{_shown(values)} is no array")
    return tuple(values)


def _sequence(read: _Convert, values: Any) -> tuple[Any, ...]:
    if type(values) not in (list, tuple):
        raise ArrayError(f"{_shown(values)} is no array")
    return tuple([read(value) for value in values])


def _fixed(readers: Sequence[_Convert], values: Any) -> tuple[Any, ...]:
    if type(values) not in (list, tuple) or len(values) != len(readers):
        raise ArrayError(f"{_shown(values)} is no array of {len(readers)}")
    return tuple([read(value) for read, value in zip(readers, values, strict=True)])


def _mapping(
    read_key: _Convert | type, write: _Convert | None, read: _Convert | type
) -> tuple[_Convert, Callable[[Any], dict[Any, Any]]]:
    key_of, value_of = _reading(read_key), _reading(read)

    def made(value: Mapping[Any, Any]) -> dict[Any, Any]:
        return dict(value) if write is None else {key: write(each) for key, each in value.items()}

    def found(value: Any) -> dict[Any, Any]:
        if type(value) is not dict:
            raise ArrayError(f"{_shown(value)} is no map")
        return {key_of(key): value_of(each) for key, each in value.items()}

    return made, found


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
