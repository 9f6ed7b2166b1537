"""Finds the variable of a handler that cannot be sent to an actor: pickle names a type, and users look for a name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any, Final

from actors.runtime.process import error_text

_DEPTH: Final = 8
_ADVICE: Final = "What each member needs of its own it makes itself: in `setup` or `__init__` of a class as its handler"


Dumps = Callable[[Any], bytes]


def problem(name: str, value: Any, dumps: Dumps) -> str | None:
    """The reason why a value cannot be pickled, and the innermost part of it that cannot; None if it can."""
    error = _error(value, dumps)
    if error is None:
        return None
    path = " of ".join([*reversed(_path(value, dumps)), name])
    return f"{path} cannot be pickled, so it cannot be sent to the actors: {error_text(error)}. {_ADVICE}"


def _error(value: Any, dumps: Dumps) -> Exception | None:
    try:
        dumps(value)
    except Exception as error:  # its parts decide what it raises
        return error
    return None


def _path(value: Any, dumps: Dumps) -> list[str]:
    """The parts that lead to what cannot be pickled, the outermost first."""
    found: list[str] = []
    for _ in range(_DEPTH):
        for part, inner in _parts(value):
            if _error(inner, dumps) is not None:
                found.append(part)
                value = inner
                break
        else:
            break
    return found


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    match value:
        case FunctionType():
            yield from _variables(value)
        case functools.partial():
            yield from ((f"argument {number}", each) for number, each in enumerate(value.args, 1))
            yield from ((f"argument {name}", each) for name, each in value.keywords.items())
            yield "function", value.func
        case MethodType():
            yield "object", value.__self__
        case list() | tuple() | set() | frozenset():
            yield from ((f"element {number}", each) for number, each in enumerate(value, 1))
        case Mapping():
            yield from ((f"entry {key!r}", each) for key, each in value.items())
        case type():
            yield from ((f"attribute {name}", each) for name, each in vars(value).items() if _is_the_users(name, each))
        case _:
            yield from ((f"attribute {name}", each) for name, each in getattr(value, "__dict__", {}).items())


def _variables(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables that a function takes along: those around it, those of its module, its defaults."""
    found = inspect.getclosurevars(function)
    yield from ((f"variable {name}", each) for name, each in found.nonlocals.items())
    yield from ((f"global variable {name}", each) for name, each in found.globals.items())
    yield from ((f"default {number}", each) for number, each in enumerate(function.__defaults__ or (), 1))


def _is_the_users(name: str, value: Any) -> bool:
    return inspect.isfunction(value) or not name.startswith("__")
