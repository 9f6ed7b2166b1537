"""Figures as people read them in tables: counts, rates, lengths of time, and lines made of blocks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

_BLOCKS = "▁▂▃▄▅▆▇█"
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def count(value: int | None) -> str | None:
    """`1,234,567`."""
    return None if value is None else f"{value:,}"


def rate(per_s: float | None) -> str | None:
    """`0.4`, `12`, `1,234`: things in a second."""
    if per_s is None:
        return None
    return f"{per_s:.1f}" if 0 < per_s < 10 else f"{per_s:,.0f}"


def seconds(value: float | None) -> str | None:
    """`0.4s`, `12s`, `3m10s`, `2h05m`, `4d02h`: how long something has lasted."""
    if value is None:
        return None
    if 0 < value < 10:
        return f"{value:.1f}s"
    whole = round(value)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02}h"


def moment(wall_ms: int | None) -> str | None:
    """A wall time in UTC, to the millisecond; outside of the years 1 to 9999 the number of milliseconds."""
    if wall_ms is None:
        return None
    try:
        return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(" ", "milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{wall_ms} ms"


def moment_near(wall_ms: int, now_ms: int) -> str:
    """A wall time in UTC: without its day if that is the present one."""
    whole, now = moment(wall_ms) or "", moment(now_ms) or ""
    day, blank, time = whole.partition(" ")
    return time[:8] if blank and now.startswith(f"{day} ") else whole


def sparkline(values: Sequence[float | None], highest: float | None = None) -> str:
    """A line of blocks from 0 up to `highest`, or else to the largest value; a blank where none is known."""
    top = highest if highest is not None else max((each for each in values if each is not None), default=0)
    return "".join(" " if each is None else _block(each, top) for each in values)


def _block(value: float, top: float) -> str:
    if top <= 0 or value <= 0:
        return _BLOCKS[0]
    return _BLOCKS[min(1 + int(value / top * (len(_BLOCKS) - 2)), len(_BLOCKS) - 1)]
