"""Checks that a user's function does its work when it is called, as far as one can see before, and by its result.

It may be a function, a method, a partial of one, or an object with `__call__`. No wrapper of a decorator's is looked
through for what a call does: a wrapper may well run the generator that it wraps.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Sequence
from typing import Any, Final

_KINDS: Final = (
    (inspect.isasyncgenfunction, "an async generator function (its body has a `yield`)"),
    (inspect.isgeneratorfunction, "a generator function (its body has a `yield`)"),
    (inspect.iscoroutinefunction, "a coroutine function (`async def`)"),
)
_LAZY: Final = (types.GeneratorType, types.AsyncGeneratorType, map, filter)


def name_of(function: Any) -> str:
    """The user's name for it."""
    inner = function.func if isinstance(function, functools.partial) else function
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return name if inner is function else f"partial of {name_of(inner)}"


def called(function: Any) -> Any:
    """The code that a call of it runs: without partials, and without the object that a method belongs to."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif inspect.isroutine(function) or isinstance(function, type):
            return function
        else:
            inner = _bound_call(type(function))
            if inner is None or inspect.ismethodwrapper(inner) or inspect.isbuiltin(inner):
                return function
            function = inner


def makes_awaitable(function: Any) -> bool:
    """True if a call makes a coroutine, as far as one can see."""
    return inspect.iscoroutinefunction(called(function))


def lazy_kind(function: Any, *, awaited: bool) -> str | None:
    """The kind of a function that a call does not run, or None; `awaited`: the caller awaits coroutines."""
    code = called(function)
    if getattr(getattr(code, "__code__", None), "co_flags", 0) & inspect.CO_ITERABLE_COROUTINE:
        return None if awaited else "a coroutine function (`types.coroutine`)"
    for is_such, kind in _KINDS[: 2 if awaited else 3]:
        if is_such(code):
            return kind
    return None


def refuse_lazy(result: Any, what: str) -> None:
    """Raise TypeError if what a call has returned is work that nobody does."""
    if not isinstance(result, _LAZY) and not inspect.isawaitable(result):
        return
    if isinstance(result, types.CoroutineType | types.GeneratorType):
        result.close()  # a coroutine would warn that nobody has awaited it
    raise TypeError(
        f"{what} has returned a {type(result).__name__} instead of doing its work: nobody runs, or awaits, what it "
        "returns"
    )


def signature(function: Any) -> inspect.Signature | None:
    """The parameters of a call; None for builtins that do not tell.

    A decorator's wrapper that passes on any positional arguments takes what the function takes that it wraps.
    """
    try:
        own = inspect.signature(function, follow_wrapped=False)
        passes_on = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in own.parameters.values())
        return inspect.signature(function) if passes_on else own
    except (TypeError, ValueError):
        return None


def refusal(function: Any, arguments: Sequence[Any]) -> str | None:
    """The reason why a call with these arguments would fail, in Python's words; None if there is none."""
    try:
        inspect.signature(function, follow_wrapped=False).bind(*arguments)
    except TypeError as error:
        return str(error)
    except ValueError:  # a builtin that does not tell
        return None
    return None


def problem(function: Any, arguments: Sequence[str], *, awaited: bool) -> str | None:
    """The reason why a call with arguments of these names would do no work; `awaited`: the caller awaits coroutines."""
    if not callable(function):
        return "cannot be called"
    if kind := lazy_kind(function, awaited=awaited):
        return f"is {kind}: a call of it runs nothing of its body. Make it a plain function that does its work"
    made = called(function)
    if isinstance(made, type) and method_of(made, "__call__") is not None:
        return f"makes a new {made.__qualname__} of each call, whose `__call__` never runs"
    if why := refusal(function, arguments):
        return f"cannot be called with ({', '.join(arguments)}): {why}"
    return None


def method_of(cls: type, name: str) -> Any:
    """A method as it is called on an instance that has not been made; None if instances of the class have none.

    `cls.__call__` would not do: a class that has none is itself called by its metaclass's.
    """
    for each in cls.__mro__:
        if name in vars(each):
            found = vars(each)[name]
            return found.__get__(_Nobody(), cls) if hasattr(found, "__get__") else found
    return None


def _bound_call(cls: type) -> Any:
    try:
        return method_of(cls, "__call__")
    except TypeError:  # a builtin's method does not take Nobody for an instance
        return None


class _Nobody:
    """In place of an instance that has not been made yet."""
