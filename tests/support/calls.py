"""Calls to the controller in short: operations from plain values, results as plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from actors.links.control import CODEC
from actors.links.operations import Operation, Result

_OPERATIONS = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower(): cls
    for cls in CODEC.classes.values()
    if issubclass(cls, Operation)
}


def operation(name: str, **arguments: Any) -> Operation[Result]:
    """An operation by its name in snake case; maps and rows stand for what it is made of, lists for tuples."""
    made: Operation[Result] = _made(_OPERATIONS[name], arguments)
    return made


def name_of(asked: Operation[Result]) -> str:
    """The operation's name in snake case."""
    return next(name for name, cls in _OPERATIONS.items() if cls is type(asked))


def plain(result: Any) -> Any:
    """A result as a map, or as a list of maps where it is nothing but rows."""
    found = asdict(result)
    values = list(found.values())
    return list(values[0]) if len(values) == 1 and isinstance(values[0], tuple) else found


_hints = cache(get_type_hints)


def _made(hint: Any, value: Any) -> Any:
    if value is None or is_dataclass(value):
        return value
    options = [each for each in get_args(hint) if each is not type(None)]
    if get_origin(hint) is tuple:
        return tuple(_made(options[0] if options[-1] is Ellipsis else options[i], each) for i, each in enumerate(value))
    if options and get_origin(hint) is not Mapping:
        return _made(options[0], value)
    if is_dataclass(hint):
        hints = _hints(hint)
        given = value if isinstance(value, Mapping) else dict(zip((f.name for f in fields(hint)), value, strict=True))
        cls: Any = hint
        return cls(**{name: _made(hints[name], each) for name, each in given.items()})
    return value
