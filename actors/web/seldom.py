"""A logger that says one thing a second, and how much it has left out: for what strangers can cause at will."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

_LINE_SECONDS: Final = 1.0

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class Seldom(_Adapter):
    """Passes on at most one message a second."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float]) -> None:
        super().__init__(logger, None)
        self._clock = clock
        self._said = -_LINE_SECONDS
        self._left_out = 0

    @property
    def level(self) -> int:
        """That of the logger."""
        return self.logger.level

    def log(self, level: int, msg: object, *args: object, **more: Any) -> None:
        """Say it, unless something was said a moment ago."""
        if not self.isEnabledFor(level):
            return
        now = self._clock()
        if now - self._said < _LINE_SECONDS:
            self._left_out += 1
            return
        self._said, left_out, self._left_out = now, self._left_out, 0
        if left_out:
            self.logger.log(level, "%d more that were not logged", left_out)
        self.logger.log(level, msg, *args, **more)
