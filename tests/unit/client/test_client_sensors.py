"""A consumer's metrics of its rebalances and heartbeats: their durations, over a window."""

from __future__ import annotations

from typing import Any

from actors.client.group.sensors import SAMPLE_MS, Window
from actors.wire import messages as m
from tests.support.membership_script import Script, joining


def measured(script: Script) -> dict[str, Any]:
    return script.member.stats.times.describe(script.now)


def later(script: Script, ms: int) -> Script:
    script.now += ms
    return script


def test_a_rebalance_shows_the_latency_of_its_join_its_sync_and_the_whole():
    script = joining()
    assert set(measured(script).values()) == {None}
    later(script, 40).join_error(14)  # its latency is no join's, but the rebalance has begun
    script.poll(200)
    later(script, 30).joined()
    later(script, 7).synced("t-0")
    script.poll()
    found = measured(script)
    assert (found["join_time_avg"], found["join_time_max"]) == (30, 30)
    assert (found["sync_time_avg"], found["sync_time_max"]) == (7, 7)
    assert (found["rebalance_latency_avg"], found["rebalance_latency_max"]) == (277, 277)


def test_averages_and_maxima_are_of_all_rebalances_and_heartbeats_within_the_window():
    script = joining()
    for generation, (join_ms, sync_ms) in enumerate([(10, 1), (50, 3), (30, 2)], 1):
        later(script, join_ms).joined(generation)
        later(script, sync_ms).synced("t-0")
        script.poll()
        script.member.request_rejoin("again")
        script.poll()
    for latency in (4, 8):
        script.joined(9)
        script.synced("t-0")
        script.tick(script.member.live.next_heartbeat_ms - script.now)
        later(script, latency).answer("Heartbeat", m.HeartbeatResponse())
        script.member.request_rejoin("again")
        script.poll()
    found = measured(script)
    assert (found["join_time_avg"], found["join_time_max"]) == (90 / 5, 50)
    assert (found["sync_time_avg"], found["sync_time_max"]) == (6 / 5, 3)
    assert (found["rebalance_latency_avg"], found["rebalance_latency_max"]) == (96 / 5, 53)
    assert (found["heartbeat_response_time_avg"], found["heartbeat_response_time_max"]) == (6, 8)
    later(script, 2 * SAMPLE_MS)
    assert set(measured(script).values()) == {None}, "all of that was long ago"


def test_a_window_forgets_its_oldest_sample_first():
    window = Window()
    window.record(90, 0)
    window.record(10, SAMPLE_MS - 1)
    assert (window.average(SAMPLE_MS), window.maximum(SAMPLE_MS)) == (50, 90)
    window.record(20, SAMPLE_MS)
    assert (window.average(SAMPLE_MS), window.maximum(SAMPLE_MS)) == (40, 90)
    window.record(30, 2 * SAMPLE_MS)
    assert (window.average(2 * SAMPLE_MS), window.maximum(2 * SAMPLE_MS)) == (25, 30)
