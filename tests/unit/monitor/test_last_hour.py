"""The last hour as a Monitor shows it that has just begun, and peaks that fall between the points of a curve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.coordinator.classic.records import GroupMetadata, MemberMetadata
from actors.links.observations import ClusterObserved, Happenings, NumberedRebalance
from actors.links.pools import PoolFigures
from actors.links.status import ClusterStatus
from actors.links.views import ClassicRebalanceView, LagPoint
from actors.monitor.curves import thinned
from actors.monitor.history import History
from actors.monitor.kinds import Kinds, kind_of
from actors.monitor.observed import Observed
from actors.monitor.offsets_log import FollowedGroup
from actors.monitor.trends import POINTS, STEP_MS, Trends
from tests.support.monitor_histories import forgets

NOW_MS = 1_700_000_000_000
MINUTE = 60_000


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History.open(tmp_path / "monitor", NOW_MS, 168, 1 << 28)
    yield made
    made.close()


def rebalance(minutes_ago: int, group: str = "billing") -> ClassicRebalanceView:
    began = NOW_MS - minutes_ago * MINUTE
    return ClassicRebalanceView(group, began, 60 - minutes_ago, "member joined", "m", replaced=("older",))


def group(name: str, *members: MemberMetadata, protocol: str = "consumer") -> FollowedGroup:
    return FollowedGroup(name, GroupMetadata(protocol, 3, "range", None, NOW_MS, members))


def member(client: str, instance: str | None = None) -> MemberMetadata:
    return MemberMetadata("m", instance, client, "/10.0.0.1", 1, 1, b"", b"")


POOLED = group("g", member("coterie-0", "g-1-0"))
SPARK = group("g", member("g-0a1b2c3d-0"))


# --- the next Monitor -----------------------------------------------------------------------------------------------


def test_the_rebalances_of_the_last_hour_outlive_the_monitor(history: History) -> None:
    history.write(NOW_MS, [], [rebalance(90), rebalance(50), rebalance(20), rebalance(30, "shipping")])
    seeds = history.seeds(NOW_MS)
    assert seeds.rebalances == (rebalance(50), rebalance(30, "shipping"), rebalance(20))


def test_a_rebalance_that_a_broker_tells_of_again_is_counted_once() -> None:
    observed = Observed((), [rebalance(20)])
    told = (NumberedRebalance(1, rebalance(20)), NumberedRebalance(2, rebalance(10)))
    observed.take(ClusterObserved(NOW_MS, ClusterStatus("c1", 1, ()), Happenings(1, 2, 2, rebalances=told)))
    assert observed.reports.rebalances["billing"] == (rebalance(20), rebalance(10))


def test_a_group_that_lagged_before_the_monitor_began_is_no_flat_line(history: History) -> None:
    lags = [0] * 20 + [900, 400] + [0] * 20
    for number, lag in enumerate(lags):
        at = NOW_MS - (len(lags) - number) * MINUTE
        history.write(at, [("billing", LagPoint(at, lag, float(lag), 7))])
    trends = Trends(history.seeds(NOW_MS).trends)
    trends.seen(NOW_MS, [("billing", 0), ("new", 3)])
    found = trends.all()
    assert max(value or 0 for value in found["billing"]) == 900
    assert 20 <= len(found["billing"]) <= POINTS
    assert None not in found["billing"][:15], "what stayed the same was not written, and is known"
    assert found["new"] == (3,)


# --- peaks ----------------------------------------------------------------------------------------------------------


def test_a_lag_of_a_moment_is_seen_in_the_last_hour() -> None:
    trends, began = Trends(), NOW_MS - NOW_MS % STEP_MS
    for number, lag in enumerate([0, 0, 700, 0, None, 0]):
        trends.seen(began + number * STEP_MS // 6, [("billing", lag)])
    assert trends.all() == {"billing": (700,)}


def test_while_nobody_looked_nothing_is_known() -> None:
    trends = Trends()
    trends.seen(NOW_MS, [("billing", 4)])
    trends.seen(NOW_MS + 3 * STEP_MS, [("billing", 5)])
    assert trends.all()["billing"] == (4, None, None, 5)


@pytest.mark.parametrize("points", [2, 10, 50, 99])
def test_a_curve_with_fewer_points_keeps_its_peak_and_its_end(points: int) -> None:
    whole = [LagPoint(NOW_MS + number * 1_000, 900 if number == 41 else number % 3, 0.0, 1) for number in range(100)]
    found = thinned(whole, NOW_MS, NOW_MS + 99_000, points)
    assert len(found) <= points
    assert found[-1] == whole[-1]
    assert 900 in [each.lag for each in found]
    assert list(found) == sorted(found, key=lambda each: each.wall_ms)


def test_a_peak_between_two_minutes_is_in_the_points_that_are_kept_for_days(history: History) -> None:
    for number in range(48):
        at = NOW_MS + number * 5_000
        history.write(at, [("billing", LagPoint(at, 900 if number == 17 else 3, 0.0, 7))])
    forgets(history, NOW_MS + 86_400_000)  # the points of each look are kept for two hours
    assert [each.lag for each in history.lag("billing", 0, NOW_MS + 86_400_000, 100)].count(900) == 1


# --- kinds of groups ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("made", "kind"), [(POOLED, "pool"), (SPARK, "spark"), (group("g", member("x")), "consumer")])
def test_a_group_whose_members_have_gone_stays_what_it_was(made: FollowedGroup, kind: str, history: History) -> None:
    kinds = Kinds()
    for seen in (made, group("g")):
        kinds.seen([seen], [])
        assert kind_of(seen, kinds.known) == kind
    history.write(NOW_MS, [("g", LagPoint(NOW_MS, 0, 0.0, 0))], kinds=kinds.unsafe())
    kinds.written(kinds.unsafe())
    assert kinds.unsafe() == {}
    after = Kinds(history.seeds(NOW_MS).kinds)
    after.seen([group("g")], [])
    assert kind_of(group("g"), after.known) == kind, "of the next Monitor, too"


def test_a_group_becomes_what_its_next_members_are(history: History) -> None:
    kinds = Kinds({"g": "pool"})
    kinds.seen([SPARK], [])
    assert (kind_of(group("g"), kinds.known), kinds.unsafe()) == ("spark", {"g": "spark"})
    kinds.seen([group("g", member("x"))], [])
    assert kinds.unsafe() == {"g": "consumer"}
    kinds.seen([], [])
    assert kinds.known == {}


def test_a_pool_that_has_not_begun_yet_is_known_by_what_it_tells() -> None:
    kinds = Kinds()
    kinds.seen([group("g"), group("h")], [PoolFigures("g-1", "g", ())])
    assert [kind_of(group(name), kinds.known) for name in ("g", "h")] == ["pool", "consumer"]


def test_a_group_that_only_commits_is_no_pool() -> None:
    assert kind_of(group("g", protocol=""), {"g": "pool"}) == "simple"


def test_of_groups_that_are_forgotten_not_even_the_kind_stays(history: History) -> None:
    history.write(NOW_MS, [("g", LagPoint(NOW_MS, 0, 0.0, 0))], kinds={"g": "pool"})
    forgets(history, NOW_MS + 30 * 86_400_000)
    assert history.seeds(NOW_MS).kinds == {}
