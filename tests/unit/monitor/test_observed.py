"""A Monitor's picture of the cluster, from the reports of brokers and the controller."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from actors.links.observations import (
    CONTROLLER,
    LATENCY_BOUNDS_MS,
    ApiFigures,
    BrokerObserved,
    ClusterObserved,
    Happenings,
    NumberedRebalance,
    Position,
    Rebalancing,
    Stalls,
    TopicFigures,
)
from actors.links.relay import Figures
from actors.links.removals import RemovalStatus
from actors.links.status import BrokerStatus, ClusterStatus, Connections, Load, Logins, ShardStatus, TlsListener
from actors.links.views import ClassicRebalanceView, Event
from actors.monitor.broker_metrics import broker_families
from actors.monitor.exposition import Series
from actors.monitor.observed import OTHER, REASONS_MAX, News, Observed
from placement.metadata import BrokerInfo, ClusterMetadata, PartitionInfo, TopicInfo

NOW_MS = 1_700_000_000_000
NOTHING = Happenings(1, 0, 0)


def metadata() -> ClusterMetadata:
    made = ClusterMetadata("c1", 3, 9)
    made.brokers = {0: BrokerInfo(0, "h", 9092, None, 5)}
    made.topics = {"orders": TopicInfo("orders", b"1" * 16, (PartitionInfo(0, 1, (0, 1), (0,)),))}
    return made


def broker(at_ms: int, requests: int, run: int = 1, happenings: Happenings | None = None) -> BrokerObserved:
    buckets = [0] * (len(LATENCY_BOUNDS_MS) + 1)
    buckets[0], buckets[-1] = 3, 1
    return BrokerObserved(
        broker_id=0,
        wall_ms=at_ms,
        load=Load(
            7,
            requests,
            12.5,
            4,
            (Connections("SASL", 1, 2, 3),),
            (Logins("SASL", succeeded=3, failed=4),),
            (TlsListener("SSL", 20.5, None, 8, 1),),
        ),
        happenings=happenings or Happenings(run, 0, 0),
        apis=(ApiFigures(12, requests, 2, 4, 31_004.0, tuple(buckets)),),
        topics=(TopicFigures("orders", 10, requests * 100, 50),),
        stalls=Stalls(2, 300.0, 200.0),
        parked={"join": 2, "fetch": 1},
        counters={"offset_commits": 40, "sleeps": 3, "appends_refused": 1, "appends_timed_out": 2},
        shards=(ShardStatus(3, 77, "Active", 1, "", Figures(1, "Active", {"Stable": 2, "Empty": 1}, 9)),),
    )


def cluster(
    at_ms: int, *brokers: BrokerObserved, controller: Happenings = NOTHING, known: ClusterMetadata | None = None
) -> ClusterObserved:
    row = BrokerStatus(0, "h", 9092, None, 5, True, 42, None, "node")
    status = ClusterStatus("c1", 3, (row,), "default", "/data", 41, "head")
    return ClusterObserved(at_ms, status, controller, brokers, () if brokers else (0,), known)


def test_rates_are_means_since_the_look_before_and_unknown_across_a_restart() -> None:
    observed = Observed()
    observed.take(cluster(NOW_MS, broker(NOW_MS, 100), known=metadata()))
    (row,) = observed.reports.brokers
    assert (row.requests_per_s, row.connections, row.leads, row.replicas, row.parked) == (None, 7, 1, 1, 3)
    observed.take(cluster(NOW_MS + 5_000, broker(NOW_MS + 5_000, 150)))
    (row,) = observed.reports.brokers
    assert (row.requests_per_s, row.bytes_in_per_s, row.bytes_out_per_s) == (10.0, 1000.0, 0.0)
    observed.take(cluster(NOW_MS + 10_000, broker(NOW_MS + 10_000, 3, run=2)))
    assert observed.reports.brokers[0].requests_per_s is None
    observed.take(cluster(NOW_MS + 15_000))
    assert observed.silent == (0,)


def test_a_broker_that_is_about_to_go_is_told_with_the_words_for_it() -> None:
    removal = RemovalStatus(40, 12, 4, NOW_MS, seconds_left=30.0)
    row = BrokerStatus(0, "h", 9092, None, 5, True, 42, None, "node", removal=removal, drained_until_ms=NOW_MS)
    look = cluster(NOW_MS, known=metadata())
    observed = Observed()
    observed.take(look)
    assert observed.reports.brokers[0].notes == ()
    observed.take(replace(look, status=replace(look.status, brokers=(row,))))
    assert observed.reports.brokers[0].notes == (
        "being removed: 12 of 40 partitions left, 4 under way, about 30 s",
        "its Ray node is drained, until 2023-11-14 22:13:20Z: it leads only what no other broker can lead",
    )


def test_changes_of_in_sync_sets_are_counted_at_the_leader() -> None:
    observed = Observed()
    observed.take(cluster(NOW_MS, known=metadata()))
    grown = metadata()
    grown.topics["orders"] = TopicInfo("orders", b"1" * 16, (PartitionInfo(1, 2, (0, 1), (0, 1)),))
    observed.take(cluster(NOW_MS, known=grown))
    observed.take(cluster(NOW_MS))
    assert (observed.shrinks[1], observed.expands[1]) == (0, 1)
    observed.take(cluster(NOW_MS, known=metadata()))
    assert (observed.shrinks[0], observed.expands[0]) == (1, 0)


def test_shards_and_the_metadata_stay_as_they_were_told() -> None:
    observed = Observed()
    observed.take(cluster(NOW_MS, broker(NOW_MS, 100), known=metadata()))
    observed.take(cluster(NOW_MS, broker(NOW_MS, 100)))
    assert observed.reports.metadata.cluster_id == "c1"
    (shard,) = observed.reports.shards
    assert (shard.partition, shard.groups, shard.offsets, shard.pid) == (3, 3, 9, 77)


def event(number: int, text: str, at_ms: int = NOW_MS) -> Event:
    return Event(number, at_ms, "election", "orders-0", text)


def rebalance(group: str, generation: int, reason: str = "member left") -> ClassicRebalanceView:
    return ClassicRebalanceView(group, NOW_MS + generation, generation, reason, "m")


def happened(upto: int, events: Iterable[Event] = (), rebalances: Iterable[ClassicRebalanceView] = ()) -> Happenings:
    numbered = tuple(NumberedRebalance(n, each) for n, each in enumerate(rebalances))
    return Happenings(1, upto, upto, 0, tuple(events), numbered)


def test_what_happens_is_numbered_in_one_sequence_and_asked_for_once() -> None:
    observed = Observed()
    told = happened(4, [event(3, "later", NOW_MS + 5)], [rebalance("billing", 1)])
    news = observed.take(cluster(NOW_MS, broker(NOW_MS, 1, happenings=told), controller=happened(9, [event(9, "a")])))
    assert [(each.number, each.text) for each in news.events] == [(1, "a"), (2, "later")]
    assert news.rebalances == (rebalance("billing", 1),)
    assert set(observed.positions) == {Position(CONTROLLER, 1, 9), Position(0, 1, 4)}
    assert observed.reports.rebalances == {"billing": (rebalance("billing", 1),)}
    again = Observed(observed.reports.events)
    news = again.take(cluster(NOW_MS, controller=happened(9, [event(9, "a"), event(10, "new")])))
    assert [(each.number, each.text) for each in news.events] == [(3, "new")], "an earlier Monitor has seen the other"


def test_a_group_that_rebalances_shows_its_phase_and_whom_it_waits_for() -> None:
    observed = Observed()
    running = Rebalancing(rebalance("billing", 4), ("m-1",), 1, NOW_MS + 900)
    observed.take(cluster(NOW_MS, replace(broker(NOW_MS, 1), rebalancing=(running,))))
    phase = observed.reports.phases["billing"]
    assert (phase.state, phase.awaited, phase.ends_in_ms) == ("PreparingRebalance", ("m-1",), 900)
    assert observed.reports.rebalances["billing"] == (running.rebalance,)
    synced = replace(running, rebalance=replace(running.rebalance, joined_ms=NOW_MS))
    observed.take(cluster(NOW_MS, replace(broker(NOW_MS, 1), rebalancing=(synced,))))
    assert observed.reports.phases["billing"].state == "CompletingRebalance"
    observed.take(cluster(NOW_MS, broker(NOW_MS, 1)))
    assert observed.reports.phases == {}
    assert observed.reports.rebalances == {}, "it is shown as over when the broker says so"


def test_reasons_of_clients_do_not_make_series_without_bound() -> None:
    observed = Observed()
    told = [rebalance("billing", number, f"reason {number}") for number in range(200)]
    observed.take(cluster(NOW_MS, broker(NOW_MS, 1, happenings=happened(200, rebalances=told))))
    assert len(observed.reasons) == REASONS_MAX + 1
    assert observed.reasons[OTHER] == 200 - REASONS_MAX


def test_figures_of_brokers_are_exposed_by_their_names() -> None:
    observed = Observed()
    observed.take(cluster(NOW_MS, broker(NOW_MS, 100), known=metadata()))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Series(lambda: broker_families(observed), lambda: 10_000))
    text = generate_latest(registry).decode()
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    mine = ("broker", "0")
    heartbeat = ("request", "Heartbeat")
    assert found["kafka_network_requestmetrics_requests_total", mine, heartbeat] == 100
    assert found["coterie_request_seconds_bucket", mine, ("le", "0.001"), heartbeat] == 3
    assert found["coterie_request_seconds_bucket", mine, ("le", "+Inf"), heartbeat] == 4
    assert found["coterie_request_seconds_sum", mine, heartbeat] == 31.004
    assert found["kafka_server_replicamanager_underreplicatedpartitions", mine] == 1
    assert found["kafka_server_group_coordinator_metrics_offset_commit_count", mine] == 40
    assert found["coterie_coordinator_appends_failed_total", mine] == 3
    assert found["coterie_shards", mine, ("state", "Active")] == 1
    at = ("listener", "SASL")
    assert found["coterie_logins_total", mine, at, ("outcome", "failed")] == 4
    assert found["coterie_listener_connections", mine, at, ("state", "authenticating")] == 2
    assert found["coterie_parked_requests", mine, ("kind", "join")] == 2
    assert found["kafka_server_brokertopicmetrics_bytesin_total", mine, ("topic", "orders")] == 10_000
    assert found["coterie_loop_stalls_total", mine] == 2
    assert found["coterie_metrics_series_left_out",] == 0


def test_news_that_wait_for_the_history_are_the_last_so_many_of_each_kind() -> None:
    def news(*numbers: int) -> News:
        return News(
            tuple(Event(number, number, "a", "b", "c") for number in numbers),
            tuple(ClassicRebalanceView("g", number, 1, "r", "m") for number in numbers),
        )

    assert news(1, 2).and_then(news(3), 5) == news(1, 2, 3)
    assert news(1, 2).and_then(news(3), 2) == news(2, 3)
    assert News().and_then(News(), 2) == News()
