"""What the compat tests share: the choice of broker, waiting with a deadline, and data to send."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def against(*kinds: str) -> pytest.MarkDecorator:
    """Run a test once against each of these kinds of broker (kfake, kafka, coterie)."""
    return pytest.mark.parametrize("kafka", kinds, indirect=True)


def wait_until(condition: Callable[[], T], timeout_s: float = 30.0, what: str = "") -> T:
    """The first true result of `condition`; fails with its last result when `timeout_s` has passed."""
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s for {what or condition}: {result!r}")
        time.sleep(0.02)
    return result


def numbered_records(count: int, start: int = 0) -> list[tuple[bytes, bytes]]:
    """Keys and values that compress, are told apart, and spread over partitions."""
    return [(b"key-%05d" % i, b"value-%05d " % i + b"abcdefgh" * 8) for i in range(start, start + count)]
