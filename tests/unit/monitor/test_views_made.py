"""The views that a Monitor makes of what it knows."""

from __future__ import annotations

import asyncio

import pytest

from actors.client.group.assignors.protocol import Assignment
from actors.client.records import TopicPartition
from actors.coordinator.classic.records import GroupMetadata, MemberMetadata
from actors.coordinator.groups.offset_records import OffsetAndMetadata
from actors.links import views
from actors.links.operations import Operation, Result
from actors.links.reading import PartitionRow
from actors.links.views import (
    ClassicRebalanceView,
    GetGroup,
    GetGroupHistory,
    GetOverview,
    GetSeen,
    GetTopic,
    ListGroupRows,
    ListTopicRows,
    PartitionLag,
    Seen,
)
from actors.monitor.answers import Answers, Picture
from actors.monitor.group_views import Phase
from actors.monitor.memory import Memory
from actors.monitor.offsets_log import FollowedGroup, OffsetsLog, OffsetsPartition
from actors.monitor.reports import Reports
from actors.monitor.trends import POINTS, STEP_MS, Trends
from placement.metadata import OFFSETS_TOPIC, ClusterMetadata, PartitionInfo, TopicInfo

NOW_MS = 1_700_000_000_000
ORDERS = b"1" * 16


def member(name: str, client: str, *partitions: int, instance: str | None = None) -> MemberMetadata:
    assigned = Assignment.of(TopicPartition("orders", each) for each in partitions).encode()
    return MemberMetadata(name, instance, client, "/10.0.0.1", 1, 1, b"", assigned)


def group(name: str, *members: MemberMetadata, protocol: str = "consumer") -> FollowedGroup:
    made = FollowedGroup(name, GroupMetadata(protocol, 3, "range", None, NOW_MS, members))
    made.offsets = {("orders", 0): OffsetAndMetadata(4, 1, "by hand", NOW_MS - 7)}
    return made


def picture(*groups: FollowedGroup, reports: Reports | None = None) -> Picture:
    metadata = ClusterMetadata("c1", 2)
    metadata.topics = {
        "orders": TopicInfo(
            "orders",
            ORDERS,
            (PartitionInfo(0, 1, (0, 1), (0,)), PartitionInfo(1, 1, (1, 0), (1, 0))),
            {"retention.ms": "1000"},
        ),
        OFFSETS_TOPIC: TopicInfo(OFFSETS_TOPIC, b"2" * 16, tuple(PartitionInfo(1, 1, (1,), (1,)) for _ in range(3))),
    }
    memory = Memory(5_000)
    rows = [PartitionRow(0, 1, 10, NOW_MS - 100, 500), PartitionRow(1, 0, 0, -1, 0)]
    memory.partitions.seen("orders", ORDERS, rows, NOW_MS)
    log = OffsetsLog()
    log.partitions[2] = OffsetsPartition()
    log.partitions[2].groups = {each.group_id: each for each in groups}
    memory.measure(log, NOW_MS)
    memory.table.found([(("orders", 0, 4), NOW_MS - 60_000)])
    memory.measure(log, NOW_MS)
    reports = reports or Reports()
    reports.metadata = metadata
    return Picture(memory, log, Trends(), reports, Seen(NOW_MS, 5_000, NOW_MS, 12, 0))


def ask(given: Picture, operation: Operation[Result]) -> Result:
    return asyncio.run(Answers(given, None).answer(operation))


def test_a_group_is_shown_with_its_members_partitions_and_lag() -> None:
    billing = group("billing", member("m-1", "c-1", 0), member("m-0", "c-0", 1))
    reports = Reports(
        rebalances={"billing": tuple(ClassicRebalanceView("billing", NOW_MS - n, n, "r", "m") for n in (5, 4, 3))}
    )
    view = ask(picture(billing, reports=reports), GetGroup("billing", rebalances=2))
    assert isinstance(view, views.GroupView)
    assert view.row is not None
    assert (view.row.state, view.row.kind, view.row.members, view.row.topics) == ("Stable", "consumer", 2, ("orders",))
    assert (view.row.broker_id, view.row.offsets_partition) == (1, 2)
    assert (view.row.lag, view.row.lag_seconds, view.row.rebalances) == (6, 60.0, 3)
    assert [each.member_id for each in view.members] == ["m-0", "m-1"]
    assert view.members[1].assignment == {"orders": (0,)}
    assert view.partitions == (
        PartitionLag("orders", 0, 4, 1, 10, 6, 60.0, NOW_MS - 7, "m-1", "by hand"),
        PartitionLag("orders", 1, None, 0, 0, None, None, None, "m-0"),
    )
    assert [each.generation_id for each in view.rebalances] == [4, 3]


def test_a_group_that_is_not_there_has_no_row() -> None:
    assert ask(picture(), GetGroup("nobody")) == views.GroupView(NOW_MS, None)


def test_while_a_group_rebalances_its_coordinator_says_in_which_state_it_is() -> None:
    reports = Reports(phases={"billing": Phase("CompletingRebalance", ("m-1",), 800)})
    view = ask(picture(group("billing", member("m-1", "c")), reports=reports), GetGroup("billing"))
    assert isinstance(view, views.GroupView)
    assert view.row is not None
    assert (view.row.state, view.awaited, view.phase_ends_in_ms) == ("CompletingRebalance", ("m-1",), 800)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (group("g", member("m", "coterie-0", instance="g-1-0"), member("n", "coterie-1", instance="g-1-1")), "pool"),
        (group("g", member("m", "g-0a1b2c3d-0")), "spark"),
        (group("g", member("m", "rdkafka")), "consumer"),
        (group("g", member("m", "coterie-0"), member("n", "rdkafka")), "consumer"),
        (group("g"), "consumer"),
        (group("g", protocol=""), "simple"),
    ],
)
def test_what_a_groups_members_are_is_told_by_their_client_ids(made: FollowedGroup, kind: str) -> None:
    view = ask(picture(made), GetGroup("g"))
    assert isinstance(view, views.GroupView)
    assert view.row is not None
    assert view.row.kind == kind


def test_an_assignment_of_somebody_elses_making_is_no_crash() -> None:
    strange = MemberMetadata("m", None, "connect", "/h", 1, 1, b"", b"\x00\x01\xff\xff\xff\xff\xff")
    for protocol in ("consumer", "connect"):
        view = ask(picture(group("g", strange, protocol=protocol)), GetGroup("g"))
        assert isinstance(view, views.GroupView)
        assert view.members[0].assignment == {}


def test_topics_are_shown_with_what_is_known_of_all_their_partitions() -> None:
    rows = ask(picture(group("billing")), ListTopicRows())
    assert isinstance(rows, views.TopicRows)
    offsets, orders = rows.topics
    assert (offsets.name, offsets.is_internal, offsets.size_bytes, offsets.records) == (OFFSETS_TOPIC, True, None, None)
    assert (orders.partitions, orders.replicas, orders.size_bytes, orders.records) == (2, 2, 500, 9)
    assert (orders.under_replicated, orders.groups) == (1, ("billing",))
    view = ask(picture(group("billing")), GetTopic("orders"))
    assert isinstance(view, views.TopicView)
    assert view.configs == {"retention.ms": "1000"}
    assert view.partitions[0] == views.PartitionView(0, 0, (0, 1), (0,), 1, 10, 500, NOW_MS - 100)
    assert view.partitions[1].last_ms is None
    assert ask(picture(), GetTopic("nothing")) == views.TopicView(NOW_MS, None)


def test_the_overview_counts_groups_by_state_and_adds_up_their_lag() -> None:
    events = tuple(views.Event(n, NOW_MS, "k", "s", "t") for n in range(5))
    reports = Reports(name="default", controller_pid=41, events=events)
    found = ask(picture(group("a", member("m", "c")), group("b"), reports=reports), GetOverview(events=2))
    assert isinstance(found, views.Overview)
    assert (found.groups, found.lag, found.topics, found.partitions) == ({"Stable": 1, "Empty": 1}, 12, 2, 5)
    assert (found.cluster_id, found.name, found.controller_epoch, found.controller_pid) == ("c1", "default", 2, 41)
    assert found.events == events[-2:]


def test_all_groups_come_by_name_and_what_is_no_view_is_refused() -> None:
    rows = ask(picture(group("b"), group("a")), ListGroupRows())
    assert isinstance(rows, views.GroupRows)
    assert [row.group_id for row in rows.groups] == ["a", "b"]
    assert ask(picture(), GetSeen()) == Seen(NOW_MS, 5_000, NOW_MS, 12, 0)
    assert ask(picture(), GetGroupHistory("a", 0, NOW_MS)) == views.GroupHistory("a", (), ())
    with pytest.raises(TypeError):
        ask(picture(), Operation())


def test_a_trend_has_a_point_for_each_two_minutes_of_the_last_hour() -> None:
    trends = Trends()
    for number in range(2 * POINTS * 4):
        trends.seen(NOW_MS - NOW_MS % STEP_MS + number * STEP_MS // 4, [("billing", number), ("new", None)])
    assert trends.all()["billing"] == tuple(range(2 * POINTS * 4 - 1 - 4 * (POINTS - 1), 2 * POINTS * 4, 4))
    trends.seen(NOW_MS, [("other", 1)])
    assert list(trends.all()) == ["other"]
