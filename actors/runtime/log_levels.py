"""The levels of this process's loggers, by the names that Kafka has for levels, as they are changed while it runs.

A change lasts until the process ends (KIP-412).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from actors.runtime.logs import WRITTEN

ROOT: Final = "root"
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
"""Kafka's levels, the most severe first, and Python's. Python has none below DEBUG."""


class LogLevels:
    """The loggers that the process's log has, and the packages above them, each of which passes on its level."""

    def __init__(self, manager: logging.Manager) -> None:
        self._manager = manager
        self._changed: dict[str, int] = {}
        self._before: dict[str, int] = {}  # of those that were changed

    def shown(self) -> dict[str, str]:
        """The level in force of each logger, by its name."""
        names = sorted(name for name in self._manager.loggerDict if name.partition(".")[0] in WRITTEN)
        return {name: _word(self._logger(name).getEffectiveLevel()) for name in (ROOT, *names)}

    def knows(self, name: str) -> bool:
        """True if there is such a logger or package."""
        return name == ROOT or (name.partition(".")[0] in WRITTEN and name in self._manager.loggerDict)

    def set(self, name: str, level: str) -> None:
        """Give a logger one of `LEVELS`."""
        self._set(name, LEVELS[level])

    def inherit(self, name: str) -> None:
        """Have a logger take the level of the package above it, or of the root."""
        self._set(name, logging.NOTSET)

    @property
    def changed(self) -> Mapping[str, int]:
        """Python's level of each logger that was changed; 0 if it inherits."""
        return dict(self._changed)

    def take_over(self, changed: Mapping[str, int]) -> None:
        """Have the levels that another process has changed; those that it has not are what they were here."""
        for name in self._changed.keys() - changed.keys():
            self._logger(name).setLevel(self._before[name])
            del self._changed[name]
        for name, level in changed.items():
            self._set(name, level)

    def _set(self, name: str, level: int) -> None:
        logger = self._logger(name)
        self._before.setdefault(name, logger.level)
        self._changed[name] = level
        logger.setLevel(level)

    def _logger(self, name: str) -> logging.Logger:
        return self._manager.root if name == ROOT else self._manager.getLogger(name)


def _word(level: int) -> str:
    """The most severe level that shows no less than this one."""
    return next((word for word, number in LEVELS.items() if number <= level), "TRACE")


THIS_PROCESS: Final = LogLevels(logging.root.manager)
"""The levels of the loggers of this process."""
