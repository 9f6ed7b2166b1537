"""An error names the object that cannot be sent to a pool's actors, however deep it lies."""

from __future__ import annotations

import functools
import threading
from typing import Any

import pytest
from ray import cloudpickle

from actors.members.pools.pickling import problem


class Holder:
    def __init__(self, lock: Any) -> None:
        self.lock = lock

    def handle(self, record: Any) -> None: ...


def _with_variable() -> Any:
    connection = threading.Lock()

    def handle(record: Any) -> None:
        with connection:
            pass

    return handle


def _with_helper() -> Any:
    connection = threading.Lock()

    def helper() -> None:
        connection.acquire()

    def handle(record: Any) -> None:
        helper()

    return handle


def _class() -> Any:
    connection = threading.Lock()

    class Handler:
        def __call__(self, record: Any) -> None:
            connection.acquire()

    return Handler


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (_with_variable(), "variable connection of handler"),
        (_with_helper(), "variable connection of variable helper of handler"),
        (functools.partial(max, threading.Lock()), "argument 1 of handler"),
        (functools.partial(max, end=threading.Lock()), "argument end of handler"),
        (Holder(threading.Lock()), "attribute lock of handler"),
        (Holder(threading.Lock()).handle, "attribute lock of object of handler"),
        (Holder({"a": [threading.Lock()]}), "element 1 of entry 'a' of attribute lock of handler"),
        (_class(), "variable connection of attribute __call__ of handler"),
        (threading.Lock(), "handler"),
    ],
)
def test_what_cannot_be_pickled_was_not_named(value: Any, said: str) -> None:
    text = problem("handler", value, cloudpickle.dumps)
    assert text is not None
    assert text.startswith(f"{said} cannot be pickled, so it cannot be sent to the actors: "), text
    assert "lock" in text
    assert "`setup` or `__init__`" in text, "where to make it"


def test_what_can_be_pickled_is_no_problem() -> None:
    assert problem("handler", print, cloudpickle.dumps) is None
