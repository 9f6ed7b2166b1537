"""Checks the arguments of callers and brings them into the form that orders have.

A text for people says which of them is wrong.

All of it is checked before anything is sent: a cluster that a whole run has does not end by a wrong argument.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from operator import index
from pathlib import Path
from typing import Any, Final

from actors.one_process.orders import OrderError

COUNT_MAX: Final = (1 << 31) - 1
"""Of partitions, and of what Kafka counts by an int32."""
_SECONDS_MAX: Final = 100 * 365 * 24 * 3600.0


def text(name: str, value: Any) -> str:
    """A text. Raises OrderError, as all of these do."""
    if not isinstance(value, str):
        raise OrderError(f"{name} is a text, not {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise OrderError(f"{name} is no text: {value!r}") from None
    return str(value)


def whole(name: str, value: Any, least: int, most: int = COUNT_MAX) -> int:
    """A whole number within these bounds."""
    try:
        number = index(value)
    except TypeError:
        raise OrderError(f"{name} is a whole number, not {value!r}") from None
    if isinstance(value, bool):
        raise OrderError(f"{name} is a whole number, not {value!r}")
    if not least <= number <= most:
        raise OrderError(f"{name} is at least {least}" if number < least else f"{name} is at most {most}")
    return number


def seconds(name: str, value: Any) -> float:
    """A time: no less than none, and no more than a hundred years."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OrderError(f"{name} is a number of seconds, not {value!r}")
    if not 0 <= value <= _SECONDS_MAX:  # as nothing is that compares to nan
        raise OrderError(f"{name} is from 0 to {_SECONDS_MAX:.0f}, a hundred years, not {value!r}")
    return float(value)


def settings(name: str, given: Any) -> dict[str, str]:
    """Settings as Kafka has them, in texts. Their values may be numbers, and True or False."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise OrderError(f"{name} are a mapping from names to values, not {given!r}")
    return {text(f"a name in {name}", key): _setting(f"{name}[{key!r}]", value) for key, value in given.items()}


def _setting(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    return text(name, value)


def folder(name: str, value: Any) -> Path | None:
    """The path of a folder; None if none is given."""
    if value is None:
        return None
    try:
        return Path(os.fsdecode(value))
    except TypeError:
        raise OrderError(f"{name} is the path of a folder, not {value!r}") from None
