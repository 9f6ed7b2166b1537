"""Bugs of the controller's own: who hears of them."""

from __future__ import annotations

import logging
from typing import Protocol

log = logging.getLogger(__name__)


class Faults(Protocol):
    """Hears of an exception that nothing but a bug explains. The decision under way is dropped; the controller goes on.

    A test's raises it, at once or at its end.
    """

    def __call__(self, what: str, error: Exception) -> None: ...


def logged(what: str, error: Exception) -> None:
    """A live controller's: it says so, with the traceback."""
    log.error("%s: a bug of the controller's (%s)", what, type(error).__name__, exc_info=error)
