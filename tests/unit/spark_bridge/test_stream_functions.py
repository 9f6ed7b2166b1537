"""Functions given to a stream: those that would do nothing when they are called are refused before it starts."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from actors.members.autoscale import Autoscale
from spark_bridge.options import OptionError
from spark_bridge.stream import GroupStream


def generator(first: Any, second: Any) -> Iterator[Any]:
    yield first


async def async_generator(first: Any, second: Any) -> AsyncIterator[Any]:
    yield first


async def coroutine(first: Any, second: Any) -> None: ...


def plain(first: Any, second: Any) -> None: ...


class Called:
    def __init__(self, *given: Any) -> None: ...
    def __call__(self, first: Any, second: Any) -> None: ...


@pytest.fixture
def stream() -> GroupStream:
    return GroupStream(None, "t", "g", "localhost:1")  # type: ignore[arg-type]


REFUSED = [
    (generator, "is a generator function"),
    (async_generator, "is an async generator function"),
    (coroutine, "is a coroutine function"),
    (functools.partial(generator), "is a generator function"),
    (lambda first: None, "cannot be called with"),
    (lambda first, second, third: None, "cannot be called with"),
    (Called, "makes a new Called of each call"),
    ("plain", "cannot be called"),
]


@pytest.mark.parametrize(("function", "text"), REFUSED)
def test_a_batch_function_that_never_runs_committed_its_batches(stream: GroupStream, function: Any, text: str) -> None:
    with pytest.raises(OptionError, match=rf"foreach_batch=.*must be a function of \(df, batch\)\. It {text}"):
        stream.foreach_batch(function)


@pytest.mark.parametrize(("function", "text"), REFUSED)
def test_so_is_a_resize_that_never_runs(stream: GroupStream, function: Any, text: str) -> None:
    with pytest.raises(OptionError, match=rf"resize=.*must be a function of \(executors, reason\)\. It {text}"):
        stream.autoscale(Autoscale(max_size=2, target_lag=10), function)


@pytest.mark.parametrize("function", [plain, functools.partial(plain), Called(), Called().__call__, print])
def test_functions_that_run_are_taken(stream: GroupStream, function: Any) -> None:
    stream.foreach_batch(function).autoscale(Autoscale(max_size=2, target_lag=10), function)
