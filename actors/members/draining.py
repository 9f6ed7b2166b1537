"""A supervisor's way to another node before Ray takes its own one away. Its members go with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from actors.runtime.ray_nodes import is_left

DRAIN_LOOK_SECONDS: Final = 2.0
"""The time between two looks at which nodes are drained."""


def leave_when_drained(
    node_id: str,
    leave: Callable[[], None],
    *,
    is_left: Callable[[str], bool] = is_left,
    interval_s: float = DRAIN_LOOK_SECONDS,
) -> None:
    """Return once this node is drained and there is another one, and `leave` has been called."""
    while not is_left(node_id):
        threading.Event().wait(interval_s)
    leave()
