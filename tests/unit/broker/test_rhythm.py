"""The rhythm of a broker's heartbeats to the controller."""

from __future__ import annotations

import pytest

from actors.broker.rhythm import Rhythm, heartbeat_seconds
from actors.settings import BrokerConfig

TICK = 0.25


@pytest.mark.parametrize(("seconds", "ticks"), [(1.0, 4), (0.9, 3), (0.25, 1), (0.1, 1)])
def test_it_is_time_at_each_so_many_ticks(seconds: float, ticks: int) -> None:
    rhythm = Rhythm(seconds, TICK)
    assert [rhythm.beats() for _ in range(3 * ticks)] == [*[False] * (ticks - 1), True] * 3


def test_what_is_done_unasked_is_not_due_at_once_again() -> None:
    rhythm = Rhythm(1.0, TICK)
    assert [rhythm.beats() for _ in range(3)] == [False] * 3
    rhythm.begin()
    assert [rhythm.beats() for _ in range(4)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 1.0),
        ({"broker.heartbeat.interval.ms": "500"}, 0.5),
        ({"broker.heartbeat.interval.ms": "5000"}, 1.5),
        ({"broker.session.timeout.ms": "1200"}, 0.3),
    ],
)
def test_a_lease_has_room_for_three_heartbeats_that_are_lost(settings: dict[str, str], seconds: float) -> None:
    assert heartbeat_seconds(BrokerConfig.from_mapping(settings)) == seconds
