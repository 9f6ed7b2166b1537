"""Handlers that would never do their work are refused before anything is started: no record is lost by them.

A function with `yield` returns at once, whatever is in it, and its records would be committed. One that cannot be
called with what it gets, or a class without `__call__`, would fail for every record. Where that shows only in what a
call returns, `handler` treats it as a failure of the record.
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Mapping
from typing import Any, Final

from actors.members.pools.handling.spec import DESERIALIZERS, BatchFormat
from actors.runtime import functions

HOOKS: Final[Mapping[str, tuple[str, ...]]] = {
    "setup": (),
    "on_assigned": ("partitions",),
    "on_revoked": ("partitions",),
    "teardown": (),
    "close": (),
}
"""The optional methods of a handler, and what they get."""


def wants_context(function: Any) -> bool:
    """True if the handler's second parameter is there for a context: it must be given, or is called `context`."""
    signature = functions.signature(function)
    parameters = [] if signature is None else list(signature.parameters.values())
    if len(parameters) < 2 or parameters[1].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        return False
    return parameters[1].default is inspect.Parameter.empty or parameters[1].name == "context"


def problem(handler: Any, arguments: tuple[Any, ...], batch_format: BatchFormat) -> str | None:
    """The reason why this handler cannot do its work, and what to do about it; None if there is none to be seen."""
    what = "record" if batch_format == "record" else "records" if batch_format == "records" else "batch"
    if type(handler).__module__ == "builtins" and not callable(handler):
        return f"handler={reprlib.repr(handler)} cannot be called. {_ADVICE}"
    name = functions.name_of(handler)
    if not inspect.isclass(handler):
        return _of_call(name, handler, what) or _of_hooks(type(handler))
    function = functions.method_of(handler, "__call__")
    if function is None:
        return f"handler {name} has no `__call__`: a class handles records by a method `__call__(self, {what})`"
    if why := functions.refusal(handler, arguments):
        return f"handler {name} cannot be made with these handler_args: {why}"
    return _of_call(f"{name}.__call__", function, what) or _of_hooks(handler)


def _of_call(name: str, function: Any, what: str) -> str | None:
    gets = (what, "context") if wants_context(function) else (what,)
    why = functions.problem(function, gets, awaited=True)
    return None if why is None else f"handler {name} {why}. {_ADVICE}"


_ADVICE: Final = (
    "A handler is called as handler(record), or handler(record, context), and has done its work when it returns. It "
    "writes records with context.produce; what else it needs it gets by functools.partial, or as a class by "
    "handler_args"
)


def _of_hooks(cls: type) -> str | None:
    for name, gets in HOOKS.items():
        function = functions.method_of(cls, name)
        if callable(function) and (why := functions.problem(function, gets, awaited=True)):
            return f"handler {cls.__qualname__}: its method `{name}` {why}"
    return None


def deserializer_problem(options: Mapping[str, Any]) -> str | None:
    """The reason why a deserializer cannot return a value; None if there is none to be seen."""
    for option in DESERIALIZERS:
        given = options.get(option)
        for each in given.values() if isinstance(given, Mapping) else (given,):
            function = getattr(each, "deserialize", each)
            if callable(function) and (kind := functions.lazy_kind(function, awaited=False)):
                return f"{option} {functions.name_of(function)} is {kind}: it has to return the value"
    return None
