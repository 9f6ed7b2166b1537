"""Checks that records of the topic `__coterie_pools` make sense: whoever may write there may write anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from actors.client.config import SECURITY_NAMES
from actors.client.errors import ConfigurationError
from actors.links.member_deaths import Note
from actors.members.autoscale import Autoscale
from actors.members.pools.plan import PoolError
from placement.names import topic_name_error

SIZE_MAX: Final = 10_000
"""Members of a pool. Nobody starts more processes by one record."""
_TOPICS_MAX: Final = 10_000
_TEXT_MAX: Final = 32_767
_VERSION_MAX: Final = 1 << 53
_OFFSET_MAX: Final = (1 << 63) - 1
_ID_BYTES: Final = 16
_LAST_MS: Final = 253_370_764_800_000
"""The beginning of the year 9999: in every time zone it can be shown."""


def check_size(size: int, least: int = 1) -> None:
    """Raise PoolError for a number of members that no pool has."""
    _require(least <= size <= SIZE_MAX, f"a size must be from {least} to {SIZE_MAX}, got {size}")


def check_slots(slots: Iterable[int]) -> None:
    """Raise PoolError unless these are places of members, each once."""
    found = list(slots)
    _require(all(0 <= slot < SIZE_MAX for slot in found) and len(found) == len(set(found)), "it has no such places")


def check_texts(*texts: str) -> None:
    """Raise PoolError for texts that are too long."""
    _require(all(len(text) <= _TEXT_MAX for text in texts), f"a text has more than {_TEXT_MAX} characters")


def check_version(version: int, deployed_at_ms: int) -> None:
    """Raise PoolError for a version that nobody counts, or a time that no clock shows."""
    _require(1 <= version <= _VERSION_MAX, f"versions count from 1, got {version}")
    _require(0 <= deployed_at_ms <= _LAST_MS, f"{deployed_at_ms} is no time in ms")


def check_topics(topics: tuple[str, ...]) -> None:
    """Raise PoolError unless these can be a pool's topics."""
    _require(1 <= len(topics) <= _TOPICS_MAX, f"a pool has 1 to {_TOPICS_MAX} topics, got {len(topics)}")
    for topic in topics:
        problem = topic_name_error(topic)
        _require(problem is None, str(problem))


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise PoolError unless these are settings of a client's logins and TLS."""
    for name, text in settings.items():
        _require(name in SECURITY_NAMES, f"{name!r} is no setting of a client's logins and TLS")
        check_texts(text)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise PoolError(f"the value of {name} is no JSON") from None
        _require(
            value is None or isinstance(value, str | int | float | list), f"the value of {name} is of no such kind"
        )


def check_policy(size: int | None, policy: Callable[[], Autoscale | None]) -> None:
    """Raise PoolError unless a pool can follow its load so, or have this size."""
    try:
        found = policy()
    except (TypeError, ValueError, OverflowError, ConfigurationError) as error:
        raise PoolError(f"it cannot follow its load so: {error}") from None
    if found is None:
        _require(size is not None, "it has no size")
    else:
        check_size(found.max_size)
    if size is not None:
        check_size(size, least=0 if found is not None else 1)


def check_notes(notes: Iterable[Note]) -> None:
    """Raise PoolError unless these can be notes of records that were in hand when processes died."""
    for note in notes:
        span = note.span
        problem = topic_name_error(span.topic)
        _require(problem is None, str(problem))
        _require(span.partition >= 0 and 0 <= span.first < span.next_offset <= _OFFSET_MAX, f"{span} has no records")
        _require(len(span.topic_id) in (0, _ID_BYTES), f"an id of a topic has {_ID_BYTES} bytes")
        _require(note.deaths >= 1, "of records that no process died of nothing is noted")
        check_texts(note.died or "")


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise PoolError(why)
