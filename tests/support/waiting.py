"""Waiting for what other processes do, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 150.0
"""The time that anything may take which takes seconds on a quiet machine."""

_SHORTEST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.5


def wait_until(condition: Callable[[], T], timeout_s: float = PATIENCE_SECONDS, what: str = "") -> T:
    """The first true result of `condition`; fails with its last result when `timeout_s` has passed.

    It asks the more seldom the longer it has waited: on a full machine, those it waits for need the CPU.
    """
    began = time.monotonic()
    while not (result := condition()):
        waited = time.monotonic() - began
        assert waited < timeout_s, f"waited {timeout_s:.0f} s for {what or condition}: {result!r}"
        time.sleep(min(max(_SHORTEST_PAUSE_SECONDS, waited / 20), _LONGEST_PAUSE_SECONDS))
    return result
