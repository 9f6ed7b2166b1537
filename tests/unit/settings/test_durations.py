"""Lengths of time, in the two ways people write them."""

from datetime import timedelta

import pytest

from actors.settings.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P7DT12H", timedelta(days=7, hours=12)),
        ("P2W", timedelta(weeks=2)),
        ("PT0.5S", timedelta(milliseconds=500)),
        ("15m", timedelta(minutes=15)),
        ("15 min", timedelta(minutes=15)),
        ("5 seconds", timedelta(seconds=5)),
        ("0.5 seconds", timedelta(milliseconds=500)),
        ("500ms", timedelta(milliseconds=500)),
        ("250us", timedelta(microseconds=250)),
        ("7d", timedelta(days=7)),
        ("1 hour", timedelta(hours=1)),
        ("0s", timedelta()),
    ],
)
def test_a_length_of_time_is_read(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "7D", "pt5m", "-5s", "5", "s", "5 moons", "5s 3ms"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a length of time"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["P9999999999D", "9" * 400 + "s", "9999999999999999d"])
def test_more_than_a_timedelta_holds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is too long a time"):
        parse_duration(text)


def test_a_bare_number_is_in_the_unit_the_caller_names() -> None:
    assert parse_duration("500", bare_unit="ms") == timedelta(milliseconds=500)
