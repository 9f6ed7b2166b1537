"""The kinds of handlers, and settings of a member that make no sense."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from actors.client.errors import ConfigurationError
from actors.members.pools.handling.handler import Handler
from actors.members.pools.handling.shape import wants_context
from actors.members.pools.handling.spec import MemberSpec


def one(_: Any) -> None: ...


def with_context(record: Any, context: Any) -> None: ...


def with_default(record: Any, context: Any = None) -> None: ...


def with_something_else(record: Any, table: str = "orders") -> None: ...


async def coroutine(record: Any) -> None: ...


class Called:
    def __call__(self, record: Any, context: Any) -> None: ...


class AsyncCalled:
    async def __call__(self, record: Any) -> None: ...

    def method(self, record: Any, context: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (one, False),
        (with_context, True),
        (with_default, True),
        (with_something_else, False),
        (print, False),
        (lambda record, _: None, True),
        (partial(with_context, context=1), False),
        (partial(with_something_else, table="x"), False),
        (Called(), True),
        (AsyncCalled(), False),
        (AsyncCalled().method, True),
    ],
)
def test_a_handler_with_a_second_parameter_gets_a_context(function: Any, wanted: bool) -> None:
    assert wants_context(function) is wanted


@pytest.mark.parametrize(
    ("given", "is_async"),
    [(one, False), (coroutine, True), (AsyncCalled, True), (Called, False), (partial(coroutine), True)],
)
def test_async_handlers_are_known_before_they_are_called(given: Any, is_async: bool) -> None:
    assert Handler(given).is_async is is_async


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"batch_max_ms": -1}, "batch_max_ms must be at least 0"),
        ({"batch_max_ms": 5}, "batch_max_ms is for batches"),
        ({"revoke_wait_ms": -1}, "revoke_wait_ms"),
        ({"setup_overlap": "no"}, "setup_overlap must be True or False"),
        ({"producer_options": {"acks": 1}}, "producer_options: 'acks'"),
        ({"producer_options": {"sasl_plain_password": "x"}}, "producer_options: 'sasl_plain_password'"),
        ({"producer_options": {"lingerms": 1}}, "producer_options: 'lingerms'"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings: dict[str, Any], problem: str) -> None:
    found = MemberSpec(("t",), "g", "host:1", **settings).problem()
    assert found is not None
    assert problem in found


def test_a_producers_settings_are_checked_where_the_pool_is_made() -> None:
    with pytest.raises(ConfigurationError, match="linger_ms"):
        MemberSpec(("t",), "g", "host:1", producer_options={"linger_ms": "soon"}).problem()
    assert MemberSpec(("t",), "g", "host:1", producer_options={"linger_ms": 5}).problem() is None
