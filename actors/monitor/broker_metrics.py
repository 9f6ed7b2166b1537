"""The rows of the metrics about brokers, their requests and their shards, as they were told at the last look.

Counters are as the brokers have them, and begin again when a broker does: Prometheus expects that. No clock, no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from actors.links.observations import LATENCY_BOUNDS_MS, ApiFigures, BrokerObserved
from actors.monitor.metric_table import BUCKET, COORDINATOR, Row
from actors.monitor.observed import Observed
from actors.wire.messages import api_name

Family = tuple[str, Iterable[Row]]
_Brokers = list[tuple[str, BrokerObserved]]
_BOUNDS: Final = (*(str(each / 1000) for each in LATENCY_BOUNDS_MS), "+Inf")
COUNTERS: Final = {
    "coterie_damaged_batches_total": ("damaged",),
    "coterie_mended_batches_total": ("mended",),
    "coterie_scrubbed_bytes_total": ("scrubbed_bytes",),
    "coterie_shard_loads_total": ("loads",),
    "coterie_shard_sleeps_total": ("sleeps",),
    "coterie_shard_wakes_total": ("wakes",),
    "coterie_shard_deaths_total": ("deaths",),
    COORDINATOR + "offset_commit_count": ("offset_commits",),
    COORDINATOR + "offset_expiration_count": ("offset_expirations",),
    COORDINATOR + "offset_deletion_count": ("offset_deletions",),
    COORDINATOR + "group_completed_rebalance_count": ("rebalances_completed",),
    COORDINATOR + "consumer_group_rebalance_count": ("consumer_rebalances",),
    "coterie_coordinator_members_expired_total": ("members_expired",),
    "coterie_coordinator_late_turns_total": ("late_turns",),
    "coterie_coordinator_appends_total": ("appends",),
    "coterie_coordinator_appends_failed_total": ("appends_refused", "appends_timed_out"),
}
"""Metrics that are the sums of what brokers count under these names."""


def broker_families(observed: Observed) -> Iterator[Family]:
    """All about brokers and shards."""
    brokers = [(str(number), each) for number, each in sorted(observed.brokers.items())]
    yield from _replicas(observed)
    yield from _loads(brokers)
    yield from _doors(brokers)
    yield from _requests(brokers)
    yield from _topics(brokers)
    yield from _counters(brokers)
    yield "coterie_broker_silent", [((str(each),), 1.0) for each in observed.silent]
    yield "coterie_shards", _shards(brokers)
    yield "coterie_events_total", [((kind,), float(n)) for kind, n in dict(observed.kinds).items()]
    yield "coterie_group_rebalances_total", [((why,), float(n)) for why, n in dict(observed.reasons).items()]


def _replicas(observed: Observed) -> Iterator[Family]:
    metadata = observed.reports.metadata
    partitions = [each for topic in list(metadata.topics.values()) for each in topic.partitions]
    alive = [broker.id for broker in list(metadata.brokers.values()) if broker.alive]
    for name, counted in (
        ("leadercount", Counter(each.leader for each in partitions)),
        ("partitioncount", Counter(broker for each in partitions for broker in each.replicas)),
        (
            "underreplicatedpartitions",
            Counter(each.leader for each in partitions if len(each.isr) < len(each.replicas)),
        ),
        ("isrshrinks_total", observed.shrinks),
        ("isrexpands_total", observed.expands),
    ):
        yield f"kafka_server_replicamanager_{name}", [((str(each),), float(counted[each])) for each in alive]


def _each(brokers: _Brokers, figure: Callable[[BrokerObserved], float]) -> list[Row]:
    return [((number,), float(figure(each))) for number, each in brokers]


def _loads(brokers: _Brokers) -> Iterator[Family]:
    yield "kafka_server_socket_server_metrics_connection_count", _each(brokers, lambda each: each.load.connections)
    yield "coterie_broker_logs", _each(brokers, lambda each: each.load.logs)
    yield "coterie_loop_stalls_total", _each(brokers, lambda each: each.stalls.count)
    yield "coterie_loop_stall_seconds_total", _each(brokers, lambda each: each.stalls.total_ms / 1000)
    yield "coterie_loop_longest_turn_seconds", _each(brokers, lambda each: each.load.longest_turn_ms / 1000)
    yield (
        "coterie_parked_requests",
        [((number, kind), float(count)) for number, each in brokers for kind, count in each.parked.items()],
    )


def _doors(brokers: _Brokers) -> Iterator[Family]:
    yield (
        "coterie_logins_total",
        [
            ((number, logins.listener, outcome), float(getattr(logins, outcome)))
            for number, each in brokers
            for logins in each.load.logins
            for outcome in ("succeeded", "repeated", "repeats_failed", "failed", "expired")
        ],
    )
    yield (
        "coterie_listener_connections",
        [
            ((number, at.listener, state), float(getattr(at, state)))
            for number, each in brokers
            for at in each.load.listeners
            for state in ("handshaking", "authenticating", "ready", "failed")
        ],
    )
    listeners = [(number, tls) for number, each in brokers for tls in each.load.tls]
    yield "coterie_tls_certificate_days", [((number, tls.listener), tls.days_left) for number, tls in listeners]
    yield (
        "coterie_tls_handshakes_total",
        [
            ((number, tls.listener, outcome), float(count))
            for number, tls in listeners
            for outcome, count in (("succeeded", tls.handshakes), ("failed", tls.failed))
        ],
    )


def _requests(brokers: _Brokers) -> Iterator[Family]:
    apis = [((number, api_name(api.api_key)), api) for number, each in brokers for api in each.apis]
    yield "kafka_network_requestmetrics_requests_total", [(labels, float(api.requests)) for labels, api in apis]
    yield "kafka_network_requestmetrics_errors_total", [(labels, float(api.errors)) for labels, api in apis]
    yield "coterie_request_seconds", (row for labels, api in apis for row in _histogram(labels, api))


def _histogram(labels: tuple[str, ...], api: ApiFigures) -> Iterator[Row]:
    for bound, count in zip(_BOUNDS, accumulate(api.buckets), strict=True):
        yield (*labels, bound), float(count), BUCKET
    yield labels, float(api.timed), "_count"
    yield labels, api.total_ms / 1000, "_sum"


def _topics(brokers: _Brokers) -> Iterator[Family]:
    for name, field in (("messagesin", "records_in"), ("bytesin", "bytes_in"), ("bytesout", "bytes_out")):
        yield (
            f"kafka_server_brokertopicmetrics_{name}_total",
            [((number, topic.name), float(getattr(topic, field))) for number, each in brokers for topic in each.topics],
        )


def _counters(brokers: _Brokers) -> Iterator[Family]:
    for metric, names in COUNTERS.items():
        yield metric, [((number,), float(_sum(each.counters, names))) for number, each in brokers]
    yield (
        "coterie_coordinator_replication_wait_seconds_total",
        _each(brokers, lambda each: each.counters.get("replication_wait_ms", 0) / 1000),
    )


def _sum(counters: Mapping[str, int], names: Iterable[str]) -> int:
    return sum(counters.get(name, 0) for name in names)


def _shards(brokers: _Brokers) -> list[Row]:
    counted = Counter((number, shard.state) for number, each in brokers for shard in each.shards)
    return [(labels, float(count)) for labels, count in sorted(counted.items())]
