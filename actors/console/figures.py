"""Numbers, sizes and times as people read them. An unknown value is a dash, never a zero."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

_DASH: Final = "\u2013"
"""Between two ends."""
UNKNOWN: Final = _DASH
_THIN: Final = "\u202f"
"""A narrow blank that does not break: between thousands, and before a unit."""


def count(value: int | None) -> str:
    """A whole number with its thousands apart: 1 234 567."""
    return UNKNOWN if value is None else f"{value:,}".replace(",", _THIN)


def short(value: float | None) -> str:
    """A number in at most four characters and a unit: 950, 12.3 k, 4.56 M."""
    if value is None:
        return UNKNOWN
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{_three(value / (1e3 if unit == 'k' else limit))}{_THIN}{unit}"
    return count(round(value)) if abs(value) >= 100 or value == round(value) else _three(value)


def size(value: float | None) -> str:
    """Bytes in binary units: 12.3 MiB."""
    if value is None:
        return UNKNOWN
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if value >= 1024**power:
            return f"{_three(value / 1024**power)}{_THIN}{unit}"
    return f"{value:.0f}{_THIN}B"


def rate(value: float | None) -> str:
    """Something in a second: 12.3 k/s."""
    return UNKNOWN if value is None else f"{short(value)}/s"


def seconds(value: float | None) -> str:
    """A duration, in its two greatest units: 0 s, 850 ms, 12.4 s, 3 min 20 s, 2 h 5 min."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return f"0{_THIN}s"
    if value < 1:
        return f"{value * 1000:.0f}{_THIN}ms"
    if value < 60:
        return f"{_three(value)}{_THIN}s"
    return _two_units(int(value))


def ago(then_ms: int | None, now_ms: int) -> str:
    """The time since a moment: now, 12 s ago, 3 h 2 min ago."""
    if then_ms is None:
        return UNKNOWN
    passed = (now_ms - then_ms) // 1000
    if passed < 2:
        return "now"
    return f"{f'{passed}{_THIN}s' if passed < 60 else _two_units(passed)} ago"


def clock(wall_ms: int) -> str:
    """A moment's time of day, UTC."""
    found = _moment(wall_ms)
    return _undated(wall_ms) if found is None else found.strftime("%H:%M:%S")


def moment(wall_ms: int) -> str:
    """A moment with its day, UTC."""
    found = _moment(wall_ms)
    return _undated(wall_ms) if found is None else found.strftime("%Y-%m-%d %H:%M:%S UTC")


def iso(wall_ms: int) -> str:
    """A moment as machines read it."""
    found = _moment(wall_ms)
    return _undated(wall_ms) if found is None else found.isoformat().replace("+00:00", "Z")


def plural(number: int, thing: str) -> str:
    """The number of a thing with its noun: 1 member, 3 members."""
    return f"{count(number)} {thing}{'' if number == 1 else 's'}"


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers, runs as ranges: 0 to 3, 7."""
    runs = []
    for _, run in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        found = [number for _, number in run]
        runs.append(str(found[0]) if len(found) == 1 else f"{found[0]}{_DASH}{found[-1]}")
    return ", ".join(runs)


def _three(value: float) -> str:
    """Three digits at most, none of them an empty decimal."""
    text = f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _two_units(whole: int) -> str:
    parts = ((whole // 86_400, "d"), (whole % 86_400 // 3600, "h"), (whole % 3600 // 60, "min"), (whole % 60, "s"))
    first = next(place for place, (number, _) in enumerate(parts) if number)
    return " ".join(f"{number}{_THIN}{unit}" for number, unit in parts[first : first + 2] if number)


def _moment(wall_ms: int) -> datetime | None:
    """None outside of the years 1 to 9999: clients may give any timestamp."""
    try:
        return datetime.fromtimestamp(wall_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _undated(wall_ms: int) -> str:
    return f"{wall_ms} ms"
