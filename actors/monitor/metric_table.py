"""The metrics that a Monitor exposes: their names, kinds, labels and meanings. docs/monitoring.md is made of it.

Names are Kafka's where Kafka has the figure, as the usual rules of the JMX exporter spell them, with the label `broker`
where Kafka has an endpoint for each broker. Lag and partitions have kafka_exporter's names and labels. Names that
nobody else has begin with `coterie_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["gauge", "counter", "histogram"]
Row = tuple[tuple[str, ...], float] | tuple[tuple[str, ...], float, str]
"""The values of a metric's labels, in their order, its value, and for a histogram what comes after its name."""
Families = Callable[[], Iterable[tuple[str, Iterable[Row]]]]
"""The metrics by name, each once, with their rows."""
BUCKET: Final = "_bucket"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric. The name of a counter ends with `_total`; the buckets of a histogram have the label `le` besides.

    `rank`: those with a higher one are left out first.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    doc: str
    section: str
    rank: int = 0


_GROUP: Final = ("consumergroup",)
_GROUP_TOPIC: Final = ("consumergroup", "topic")
_GROUP_PARTITION: Final = ("consumergroup", "topic", "partition")
_PARTITION: Final = ("topic", "partition")
_BROKER: Final = ("broker",)

SECTIONS: Final = ("Cluster", "Brokers", "Requests", "Topics", "Groups", "Lag", "Pools", "Shards", "Monitor")


def _gauge(section: str, name: str, labels: tuple[str, ...], doc: str, rank: int = 0) -> MetricSpec:
    return MetricSpec(name, "gauge", labels, doc, section, rank)


def _counter(section: str, name: str, labels: tuple[str, ...], doc: str, rank: int = 0) -> MetricSpec:
    return MetricSpec(name, "counter", labels, doc, section, rank)


_CLUSTER: Final = (
    _gauge("Cluster", "kafka_brokers", (), "Living brokers."),
    _gauge("Cluster", "kafka_broker_info", ("id", "address"), "1 for each living broker."),
    _gauge("Cluster", "kafka_controller_kafkacontroller_activecontrollercount", (), "1 while the controller answers."),
    _gauge("Cluster", "kafka_controller_kafkacontroller_activebrokercount", (), "Living brokers."),
    _gauge("Cluster", "kafka_controller_kafkacontroller_globaltopiccount", (), "Topics."),
    _gauge("Cluster", "kafka_controller_kafkacontroller_globalpartitioncount", (), "Partitions of all topics."),
    _gauge(
        "Cluster", "kafka_controller_kafkacontroller_offlinepartitionscount", (), "Partitions that nobody can lead."
    ),
)

_EVENTS: Final = (
    _counter(
        "Cluster",
        "coterie_events_total",
        ("kind",),
        "Events since the Monitor began, by kind: elections, deaths, sleeps, changes of in-sync sets.",
    ),
)

_OF_BROKERS: Final = (
    _gauge("Brokers", "kafka_server_replicamanager_leadercount", _BROKER, "Partitions that it leads."),
    _gauge("Brokers", "kafka_server_replicamanager_partitioncount", _BROKER, "Partitions of which it has a replica."),
    _gauge(
        "Brokers",
        "kafka_server_replicamanager_underreplicatedpartitions",
        _BROKER,
        "Of those that it leads, how many lack a replica in sync.",
    ),
    _counter(
        "Brokers",
        "kafka_server_replicamanager_isrshrinks_total",
        _BROKER,
        "Partitions seen with a smaller in-sync set.",
    ),
    _counter("Brokers", "kafka_server_replicamanager_isrexpands_total", _BROKER, "Partitions seen with a larger one."),
    _gauge("Brokers", "kafka_server_socket_server_metrics_connection_count", _BROKER, "Connections of clients."),
    _gauge("Brokers", "coterie_broker_logs", _BROKER, "Logs that are open."),
    _counter(
        "Brokers", "coterie_damaged_batches_total", _BROKER, "Finds of damaged batches in its logs. None was given out."
    ),
    _counter("Brokers", "coterie_scrubbed_bytes_total", _BROKER, "Bytes of followed logs that were looked through."),
    _counter("Brokers", "coterie_mended_batches_total", _BROKER, "Those for which another replica had sound ones."),
    _counter("Brokers", "coterie_loop_stalls_total", _BROKER, "Turns of its loop that took longer than 100 ms."),
    _counter("Brokers", "coterie_loop_stall_seconds_total", _BROKER, "The time that these took together."),
    _gauge("Brokers", "coterie_loop_longest_turn_seconds", _BROKER, "The longest turn since its start."),
    _gauge("Brokers", "coterie_parked_requests", ("broker", "kind"), "Requests that wait, by what they wait for."),
    _counter(
        "Brokers",
        "coterie_logins_total",
        ("broker", "listener", "outcome"),
        "Logins by SASL: succeeded, repeated, repeats_failed, failed, or expired.",
    ),
    _gauge(
        "Brokers",
        "coterie_listener_connections",
        ("broker", "listener", "state"),
        "Connections: handshaking, authenticating, ready, or failed.",
    ),
    _counter(
        "Brokers", "coterie_tls_handshakes_total", ("broker", "listener", "outcome"), "Handshakes: succeeded or failed."
    ),
    _gauge(
        "Brokers", "coterie_tls_certificate_days", ("broker", "listener"), "Days for which its certificate is valid."
    ),
    _gauge("Brokers", "coterie_broker_silent", _BROKER, "1 for a broker that did not answer the last look."),
)

_REQUESTS: Final = (
    _counter("Requests", "kafka_network_requestmetrics_requests_total", ("broker", "request"), "Requests."),
    _counter(
        "Requests",
        "kafka_network_requestmetrics_errors_total",
        ("broker", "request"),
        "Requests that were refused, or whose answer has an error code at its top.",
    ),
    MetricSpec(
        "coterie_request_seconds",
        "histogram",
        ("broker", "request"),
        "From when a request was read until its answer was given to the socket. Of frequent ones only some are timed.",
        "Requests",
        1,
    ),
)

_FLOW: Final = tuple(
    _counter("Topics", f"kafka_server_brokertopicmetrics_{name}_total", ("broker", "topic"), doc, 1)
    for name, doc in (
        ("messagesin", 'Records that were produced. The topic "" stands for those beyond what a broker counts.'),
        ("bytesin", "Bytes of the batches that were produced."),
        ("bytesout", "Bytes of the batches that consumers were given."),
    )
)

_TOPICS: Final = (
    _gauge("Topics", "kafka_topic_partitions", ("topic",), "Partitions of the topic.", 1),
    _gauge("Topics", "kafka_topic_partition_current_offset", _PARTITION, "The partition's high watermark.", 3),
    _gauge("Topics", "kafka_topic_partition_oldest_offset", _PARTITION, "The offset at which its log begins.", 3),
    _gauge("Topics", "kafka_topic_partition_in_sync_replica", _PARTITION, "Replicas in sync.", 4),
    _gauge("Topics", "kafka_topic_partition_leader", _PARTITION, "The id of its leader, -1 if it has none.", 4),
    _gauge("Topics", "kafka_topic_partition_leader_is_preferred", _PARTITION, "1 if its first replica leads it.", 4),
    _gauge("Topics", "kafka_topic_partition_replicas", _PARTITION, "Replicas.", 4),
    _gauge(
        "Topics",
        "kafka_topic_partition_under_replicated_partition",
        _PARTITION,
        "1 if some replica is not in sync.",
        4,
    ),
    _gauge("Topics", "kafka_log_log_size", _PARTITION, "Bytes of one replica's log, without indexes.", 4),
)

COORDINATOR: Final = "kafka_server_group_coordinator_metrics_"
GROUP_STATES: Final[Mapping[str, tuple[str, ...]]] = {
    "classic": ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead"),
    "consumer": ("Stable", "Empty", "Assigning", "Reconciling", "Dead"),
}
"""The states in which groups of a type are counted, by Kafka's names of types. Of a type that is not here, groups are
counted without regard to their states."""

_GROUPS: Final = (
    _gauge(
        "Groups",
        "kafka_coordinator_group_groupmetadatamanager_numgroups",
        (),
        "Classic groups that `__consumer_offsets` has.",
    ),
    _gauge("Groups", "kafka_coordinator_group_groupmetadatamanager_numoffsets", (), "Committed offsets."),
    *(
        _gauge(
            "Groups",
            f"kafka_coordinator_group_groupmetadatamanager_numgroups{state}",
            (),
            f"Classic groups that are {text}.",
        )
        for state, text in (
            ("stable", "stable"),
            ("empty", "without members"),
            ("preparingrebalance", "waiting for members to join"),
            ("completingrebalance", "waiting for their assignment"),
            ("dead", "dead"),
        )
    ),
    _gauge("Groups", f"{COORDINATOR}group_count", ("protocol",), "Groups of all types, by type."),
    *(
        _gauge(
            "Groups", f"{COORDINATOR}{group_type}_group_count", ("state",), f"Groups of type {group_type}, by state."
        )
        for group_type in GROUP_STATES
    ),
    _gauge("Groups", "kafka_consumergroup_members", _GROUP, "Members.", 1),
    _counter("Groups", "coterie_group_commits_total", _GROUP, "Offsets committed, one for each partition.", 1),
    _gauge("Groups", "coterie_group_epoch", _GROUP, "Of a consumer group: its epoch.", 1),
    _gauge("Groups", "coterie_group_assignment_epoch", _GROUP, "The epoch that its members' targets are of.", 1),
    _gauge(
        "Groups",
        "coterie_group_partitions_to_give_back",
        _GROUP,
        "Partitions that members of a consumer group hold, and are not to have by their targets.",
        1,
    ),
    _gauge(
        "Groups",
        "coterie_group_partitions_to_come",
        _GROUP,
        "Partitions that members of a consumer group are to have by their targets, and do not hold yet.",
        1,
    ),
)

_LAG: Final = (
    _gauge("Lag", "kafka_consumergroup_lag", _GROUP_PARTITION, "Records that the group has not read.", 2),
    _gauge(
        "Lag",
        "kafka_consumergroup_lag_seconds",
        _GROUP_PARTITION,
        "Age of the oldest record that the group has not read; 0 if there is none.",
        2,
    ),
    _gauge("Lag", "kafka_consumergroup_current_offset", _GROUP_PARTITION, "The offset it has committed.", 2),
    _gauge("Lag", "kafka_consumergroup_lag_sum", _GROUP_TOPIC, "Its lag over all partitions of the topic.", 1),
    _gauge("Lag", "kafka_consumergroup_current_offset_sum", _GROUP_TOPIC, "Its offsets, added up.", 1),
    _gauge(
        "Lag",
        "coterie_group_lag_seconds",
        _GROUP,
        "Its lag in seconds in the partition where it is furthest behind.",
        1,
    ),
)

_MEMBER: Final = ("consumergroup", "member")

_POOLS: Final = (
    _gauge("Pools", "coterie_pool_members", _GROUP, "Members that the group's pools have, or start just now.", 1),
    _counter(
        "Pools",
        "coterie_pool_member_handled_total",
        _MEMBER,
        "Records that it has handled, those that came again included. The label `member` is the `group.instance.id`.",
        2,
    ),
    _counter("Pools", "coterie_pool_member_dead_letters_total", _MEMBER, "Records that it has set aside.", 2),
    _counter("Pools", "coterie_pool_member_restarts_total", _MEMBER, "Actors that have taken another's place.", 2),
    _counter(
        "Pools",
        "coterie_pool_member_busy_seconds_total",
        _MEMBER,
        "The time for which it has had records in hand. Divided by those it handled: the time that a record takes.",
        2,
    ),
    _gauge(
        "Pools",
        "coterie_pool_member_handling_seconds",
        _MEMBER,
        "The time for which the handler, or a hook of it, has been running that began first; 0 if none runs.",
        2,
    ),
)

_SHARDS: Final = (
    _gauge("Shards", "coterie_shards", ("broker", "state"), "Offsets partitions and spare processes, by state."),
    *(
        _counter("Shards", f"coterie_shard_{name}_total", _BROKER, doc)
        for name, doc in (
            ("loads", "Offsets partitions that were loaded."),
            ("sleeps", "Offsets partitions that gave their processes back."),
            ("wakes", "Offsets partitions that were woken."),
            ("deaths", "Processes of offsets partitions that died or were killed."),
        )
    ),
    _gauge(
        "Shards", "kafka_server_group_coordinator_metrics_offset_commit_count", _BROKER, "Offsets committed, counted."
    ),
    _gauge("Shards", "kafka_server_group_coordinator_metrics_offset_expiration_count", _BROKER, "Offsets expired."),
    _gauge("Shards", "kafka_server_group_coordinator_metrics_offset_deletion_count", _BROKER, "Offsets deleted."),
    _gauge(
        "Shards",
        "kafka_server_group_coordinator_metrics_group_completed_rebalance_count",
        _BROKER,
        "Rebalances of classic groups that were completed.",
    ),
    _gauge(
        "Shards",
        "kafka_server_group_coordinator_metrics_consumer_group_rebalance_count",
        _BROKER,
        "Rebalances of groups of the consumer protocol that began; those by which members are removed do not count.",
    ),
    _counter(
        "Shards",
        "coterie_coordinator_members_expired_total",
        _BROKER,
        "Members whose sessions ended, or who came late.",
    ),
    _counter("Shards", "coterie_coordinator_late_turns_total", _BROKER, "Turns so late that members got time back."),
    _counter("Shards", "coterie_coordinator_appends_total", _BROKER, "Appends to `__consumer_offsets`."),
    _counter(
        "Shards",
        "coterie_coordinator_appends_failed_total",
        _BROKER,
        "Those that were refused, or not committed in time.",
    ),
    _counter(
        "Shards",
        "coterie_coordinator_replication_wait_seconds_total",
        _BROKER,
        "From the turn that wrote until the write had committed, added up.",
    ),
    _counter(
        "Groups",
        "coterie_group_rebalances_total",
        ("reason",),
        "Rebalances since the Monitor began, by what caused them.",
    ),
)

_MONITOR: Final = (
    _gauge("Monitor", "coterie_monitor_look_seconds", (), "The time that the last look took."),
    _gauge("Monitor", "coterie_monitor_last_look_timestamp_seconds", (), "The end of the last look, in Unix time."),
    _counter("Monitor", "coterie_monitor_looks_total", (), "Looks since it began."),
    _gauge("Monitor", "coterie_monitor_problems", (), "Things that it could not see at the last look."),
    _gauge("Monitor", "coterie_monitor_history_bytes", (), "Size of its history on disk."),
    _gauge(
        "Monitor",
        "coterie_monitor_unknown_records",
        (),
        "Records of `__consumer_offsets` that it has passed over, because its version does not know their types.",
    ),
    _gauge("Monitor", "coterie_monitor_resident_bytes", (), "Memory of its process."),
    _counter("Monitor", "coterie_monitor_cpu_seconds_total", (), "CPU time of its process."),
    _gauge(
        "Monitor",
        "coterie_metrics_series_left_out",
        (),
        "Series beyond `coterie.metrics.series.max`, which are not shown.",
    ),
)

METRICS: Final[tuple[MetricSpec, ...]] = (
    *_CLUSTER,
    *_EVENTS,
    *_OF_BROKERS,
    *_REQUESTS,
    *_FLOW,
    *_TOPICS,
    *_GROUPS,
    *_LAG,
    *_POOLS,
    *_SHARDS,
    *_MONITOR,
)
BY_NAME: Final = {each.name: each for each in METRICS}
