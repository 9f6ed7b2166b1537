"""All pools of the topic `__coterie_pools`, by its records in the order of their offsets."""

from __future__ import annotations

import logging
from typing import Any, Final

from actors.members.deployment.names import TOPIC
from actors.members.deployment.records import (
    KINDS,
    Deaths,
    Deployment,
    Good,
    Pause,
    PoolRecord,
    Progress,
    Record,
    Restart,
    Size,
    Term,
    check_name,
    decode,
    is_name,
)
from actors.members.pools.plan import PoolError

log = logging.getLogger(__name__)

_ENDED_MAX: Final = 1_000
"""Incarnations of one name that are known to be over."""
_SAID_MAX: Final = 20
"""Lines of the log about records that are refused: anybody may write a million of them."""


class Book:
    """All pools of a topic, or the one called `only`, by its records in the order of their offsets."""

    def __init__(self, only: str | None = None) -> None:
        self._only = only
        self._found: dict[str, dict[str, tuple[int, Record]]] = {}
        self._unread: dict[str, PoolError] = {}
        self._ended: dict[str, dict[str, None]] = {}  # incarnations that were stopped
        self._said = 0

    def apply(self, offset: int, key: bytes, value: bytes | None) -> str:
        """Take in a record; returns the name of its pool.

        One that makes no sense is as if it had not been written. One that cannot be read makes `pool` raise, unless a
        version that can be was written before it.
        """
        name, _, kind = key.decode(errors="backslashreplace").partition("/")
        if self._only not in (None, name):
            return name
        if value is None:
            self._forget(name, kind)
            return name
        try:
            record = _sensible(name, kind, value)
        except PoolError as error:
            self._refuse(name, kind, error)
            return name
        if not kind:
            self._unread.pop(name, None)
        if record.incarnation not in self._ended.get(name, ()):
            self._found.setdefault(name, {})[kind] = (offset, record)
        return name

    def _forget(self, name: str, kind: str) -> None:
        _, before = self._found.get(name, {}).pop(kind, (0, None))
        if kind:
            return
        self._unread.pop(name, None)
        if before is not None:
            ended = self._ended.setdefault(name, {})
            ended[before.incarnation] = None
            while len(ended) > _ENDED_MAX:
                del ended[next(iter(ended))]

    def _refuse(self, name: str, kind: str, error: PoolError) -> None:
        if self._said < _SAID_MAX:
            self._said += 1
            log.warning("%s: a record %r of pool %s is not obeyed: %s", TOPIC, kind or "version", name, error)
        if not kind and is_name(name) and "" not in self._found.get(name, {}):
            self._unread[name] = error

    def names(self) -> list[str]:
        """The pools that there are, sorted, with those that cannot be read."""
        return sorted(self._unread.keys() | {name for name, records in self._found.items() if "" in records})

    def pool(self, name: str) -> PoolRecord | None:
        """A pool; None if there is none. Raises PoolError if a record of it cannot be read."""
        if name in self._unread:
            raise self._unread[name]
        records = self._found.get(name, {})
        newest = records.get("")
        if newest is None or not isinstance(newest[1], Deployment):
            return None
        deployment = newest[1]
        found: dict[str, Any] = {}
        for offset, record in records.values():
            if record.incarnation != deployment.incarnation:
                continue  # of a pool that was stopped
            match record:
                case Size(_, size):
                    found |= {"scaled": size, "scaled_last": offset > newest[0]}
                case Pause(_, paused):
                    found["paused"] = paused
                case Restart(_, restart):
                    found["restart"] = restart
                case Term(_, supervisor):
                    found["term"] = supervisor
                case Good(_, good):
                    found["good"] = good
                case Progress():
                    found["progress"] = record
                case Deaths():
                    found["deaths"] = record
        return PoolRecord(deployment, **found)


def _sensible(name: str, kind: str, value: bytes) -> Record:
    """The record of a value. Raises PoolError also for what no program of ours would have written there."""
    check_name(name)
    record = decode(value)
    try:
        if KINDS[type(record)] != kind:
            raise PoolError(f"it is a {type(record).__name__}")
        record.check()
    except PoolError as error:
        raise PoolError(f"{TOPIC} has a record that makes no sense: {error}") from None
    return record
