"""Lengths of time as people write them: ISO 8601 ("P7DT12H") and Spark's way ("15m", "5 seconds")."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_ISO_8601: Final = re.compile(
    r"P(?=.)(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_NUMBER_AND_UNIT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_UNITS: Final = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), "microseconds"),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), "milliseconds"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "seconds"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "minutes"),
    **dict.fromkeys(("h", "hour", "hours"), "hours"),
    **dict.fromkeys(("d", "day", "days"), "days"),
}


def parse_duration(text: str, bare_unit: str = "") -> timedelta:
    """The length of time that `text` stands for. A number without a unit is in `bare_unit`, if one is given.

    ISO 8601 is written in capitals, units in small letters. Raises ValueError, also for more than timedelta holds.
    """
    if iso := _ISO_8601.fullmatch(text):
        parts = {unit: float(number) for unit, number in iso.groupdict().items() if number}
    elif (match := _NUMBER_AND_UNIT.fullmatch(text)) and (unit := _UNITS.get(match[2] or bare_unit)):
        parts = {unit: float(match[1])}
    else:
        raise ValueError(f"{text!r} is not a length of time")
    try:
        return timedelta(**parts)
    except OverflowError:
        raise ValueError(f"{text!r} is too long a time") from None
