"""Handlers that would never do their work are refused when the pool is made; those that would are not."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from actors.members.pools.handling.context import Context
from actors.members.pools.handling.handler import Handler
from actors.members.pools.handling.shape import wants_context
from actors.members.pools.plan import PoolError, PoolPlan


def plan(handler: Any, **settings: Any) -> PoolPlan:
    return PoolPlan.of("t", "g", handler, 1, bootstrap_servers="localhost:1", **settings)


# --- bodies that never run, each in every form a handler may have ---


def generator(record: Any, context: Any = None) -> Iterator[Any]:
    yield record


async def async_generator(record: Any, context: Any = None) -> AsyncIterator[Any]:
    yield record


def plain(record: Any, context: Any = None) -> None: ...


async def coroutine(record: Any, context: Any = None) -> None: ...


def as_it_is(function: Any) -> Any:
    return function


def partial(function: Any) -> Any:
    return functools.partial(function, context=None)


def partial_of_partial(function: Any) -> Any:
    return functools.partial(functools.partial(partial(function)))


def of_class(function: Any) -> Any:
    return type("Made", (), {"__call__": as_method(function)})


def as_method(function: Any) -> Any:
    """The function as a method: with a `self` before its parameters, and of its own kind."""
    return _methods[function]


def of_subclass(function: Any) -> Any:
    return type("Below", (of_class(function),), {})


def of_object(function: Any) -> Any:
    return of_class(function)()


def partial_of_object(function: Any) -> Any:
    return functools.partial(of_object(function))


def bound_method(function: Any) -> Any:
    return type("Made", (), {"handle": as_method(function)})().handle


def bound_call(function: Any) -> Any:
    return of_object(function).__call__


def static_call(function: Any) -> Any:
    return type("Made", (), {"__call__": staticmethod(function)})


def class_method_call(function: Any) -> Any:
    return type("Made", (), {"__call__": classmethod(as_method(function))})()


def static_method(function: Any) -> Any:
    return type("Made", (), {"handle": staticmethod(function)}).handle


def partial_method(function: Any) -> Any:
    return type("Made", (), {"__call__": functools.partialmethod(as_method(function))})


def call_that_is_an_object(function: Any) -> Any:
    return type("Made", (), {"__call__": of_object(function)})


def registered(function: Any) -> Any:
    """By a decorator that returns the function itself."""
    function.registered = True
    return function


def _generator_method(self: Any, record: Any, context: Any = None) -> Iterator[Any]:
    yield record


async def _async_generator_method(self: Any, record: Any, context: Any = None) -> AsyncIterator[Any]:
    yield record


def _plain_method(self: Any, record: Any, context: Any = None) -> None: ...


async def _coroutine_method(self: Any, record: Any, context: Any = None) -> None: ...


_methods: dict[Any, Any] = {
    generator: _generator_method,
    async_generator: _async_generator_method,
    plain: _plain_method,
    coroutine: _coroutine_method,
}
FORMS = [
    as_it_is,
    partial,
    partial_of_partial,
    of_class,
    of_subclass,
    of_object,
    partial_of_object,
    bound_method,
    bound_call,
    static_call,
    class_method_call,
    static_method,
    partial_method,
    call_that_is_an_object,
    registered,
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("function", [generator, async_generator])
def test_a_handler_with_yield_committed_records_that_it_never_looked_at(
    form: Callable[[Any], Any], function: Any
) -> None:
    """Called, it makes an object, and nothing of its body runs."""
    kind = "an async generator function" if function is async_generator else "a generator function"
    with pytest.raises(PoolError, match=rf"^handler .*(generator|Made|Below).* is {kind} .*`yield`.*context\.produce"):
        plan(form(function))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("function", [plain, coroutine])
def test_in_all_these_forms_a_handler_that_works_is_taken(form: Callable[[Any], Any], function: Any) -> None:
    given = form(function)
    plan(given)
    assert Handler(given).is_async is (function is coroutine)


@pytest.mark.parametrize("lazy", [generator, async_generator])
@pytest.mark.parametrize("hook", ["setup", "on_assigned", "on_revoked", "teardown", "close"])
def test_so_is_a_hook_with_yield(hook: str, lazy: Any) -> None:
    made = type("Made", (), {"__call__": _plain_method, hook: _methods[lazy]})
    with pytest.raises(PoolError, match=rf"handler Made: its method `{hook}` is an? (async )?generator function"):
        plan(made)
    with pytest.raises(PoolError, match=rf"handler Made: its method `{hook}` is"):
        plan(made())


# --- what cannot be called with what it gets ---


class Nothing:
    def handle(self, record: Any) -> None: ...


class Database(Nothing):
    def __init__(self, path: str) -> None: ...
    def __call__(self, record: Any) -> None: ...


class Taking:
    def __call__(self, record: Any, context: Any, database: Any) -> None: ...


class TakingNothing:
    def __call__(self) -> None: ...


class WrongHook(Database):
    def __init__(self) -> None: ...
    def on_assigned(self) -> None: ...


def nothing() -> None: ...


def three(record: Any, context: Any, database: Any) -> None: ...


def keyword_needed(record: Any, *, database: Any) -> None: ...


def only_keywords(*, record: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (nothing, r"handler nothing cannot be called with \(record\): too many positional arguments"),
        (three, r"handler three cannot be called with \(record, context\): missing a required argument: 'database'"),
        (keyword_needed, r"handler keyword_needed cannot .*'database'.*functools\.partial"),
        (only_keywords, r"handler only_keywords cannot"),
        (lambda: None, r"handler .*<lambda> cannot"),
        (functools.partial(plain, b"record", None), r"handler partial of plain cannot"),
        (Taking, r"handler Taking\.__call__ cannot .*'database'.*handler_args"),
        (Taking(), r"handler Taking cannot .*'database'"),
        (TakingNothing, r"handler TakingNothing\.__call__ cannot"),
        (Nothing, r"handler Nothing has no `__call__`.*`__call__\(self, record\)`"),
        (Nothing(), r"handler Nothing cannot be called"),
        (Database, r"handler Database cannot be made with these handler_args: missing a required argument: 'path'"),
        (functools.partial(Database), r"handler partial of Database makes a new Database of each call.*handler_args"),
        (WrongHook, r"handler WrongHook: its method `on_assigned` cannot be called with \(partitions\)"),
        (None, r"handler=None cannot be called"),
        ("handle", r"handler='handle' cannot be called"),
    ],
)
def test_a_handler_that_cannot_be_called_had_each_record_set_aside(handler: Any, text: str) -> None:
    with pytest.raises(PoolError, match=text):
        plan(handler)


def test_arguments_that_its_class_does_not_take_are_refused_at_once() -> None:
    with pytest.raises(PoolError, match="handler Database cannot be made with these handler_args: too many"):
        plan(Database, handler_args=("path", "mode"))
    plan(Database, handler_args=("path",))


@pytest.mark.parametrize("batch_format", ["record", "records", "pyarrow"])
def test_the_refusal_names_what_the_handler_would_get(batch_format: Any) -> None:
    wanted = {"record": "record", "records": "records", "pyarrow": "batch"}[batch_format]
    with pytest.raises(PoolError, match=rf"with \({wanted}, context\)"):
        plan(three, batch_format=batch_format)


# --- decorators ---


def passing_on(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return wrapper


def with_database(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(record: Any) -> Any:
        return function(record, Context, "database")

    return wrapper


def exhausting(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(record: Any) -> None:
        for _ in function(record):
            pass

    return wrapper


def test_a_decorator_that_gives_the_function_what_it_needs_is_no_mistake() -> None:
    """By its `__wrapped__` it seemed to take three parameters, and was given two."""
    plan(with_database(three))
    assert wants_context(with_database(three)) is False
    assert wants_context(passing_on(plain)) is True


def test_nor_is_one_that_runs_the_generator() -> None:
    plan(exhausting(generator))


@pytest.mark.parametrize(
    "handler",
    [
        passing_on(generator),
        lambda record: async_generator(record),
        lambda record: map(str, [record]),
        lambda record: waiting(record),
    ],
)
def test_work_that_a_handler_returns_undone_is_its_error(handler: Any) -> None:
    """It counted as handled, and its body had not run."""
    plan(handler)
    with pytest.raises(TypeError, match=r"the handler has returned a (\w+) instead of doing its work"):
        Handler(handler)(b"record", None)


async def waiting(record: Any) -> Any:
    """A coroutine in which an `await` was forgotten."""
    return coroutine(record)


@pytest.mark.parametrize("result", [None, 1, "text", [1], {}, object(), b""])
def test_any_other_result_is_left_alone(result: Any) -> None:
    Handler(lambda _: result)(b"record", None)


@pytest.mark.parametrize("hook", ["setup", "on_assigned", "on_revoked", "teardown", "close"])
def test_a_hook_that_returns_a_generator_is_an_error(hook: str) -> None:
    made = type("Made", (), {"__call__": _plain_method, hook: passing_on(_generator_method)})
    with pytest.raises(TypeError, match=rf"the handler's {hook} has returned a generator"):
        Handler(made).hook(hook, ["partitions"])


# --- deserializers ---


async def deserialize_later(data: bytes) -> Any: ...


def deserialize_lazily(data: bytes) -> Iterator[Any]:
    yield data


class Deserializer:
    async def deserialize(self, topic: str, data: bytes) -> Any: ...


@pytest.mark.parametrize("given", [deserialize_later, deserialize_lazily, Deserializer(), {"t": deserialize_later}])
def test_a_deserializer_that_returns_no_value_is_refused(given: Any) -> None:
    with pytest.raises(
        PoolError, match=r"value_deserializer \S+ is an? (generator|coroutine) function.*return the value"
    ):
        plan(plain, value_deserializer=given)
