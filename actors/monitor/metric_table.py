"""The metrics that a Monitor exposes: their names, kinds, labels and meanings. docs/monitoring.md is made of it.

Names are Kafka's where Kafka has the figure, as the usual rules of the JMX exporter spell them, with the label `broker`
where Kafka has an endpoint for each broker. Lag and partitions have kafka_exporter's names and labels. What nobody else
has begins with `coterie_`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["gauge", "counter"]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric. The name of a counter ends with `_total`. `rank`: those with a higher one are left out first."""

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

SECTIONS: Final = ("Cluster", "Brokers", "Requests", "Topics", "Groups", "Lag", "Shards", "Monitor")


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

_TOPICS: Final = (
    _gauge("Topics", "kafka_topic_partitions", ("topic",), "Partitions of the topic.", 1),
    _counter(
        "Topics",
        "kafka_server_brokertopicmetrics_messagesin_total",
        ("topic",),
        "Records that have come since the Monitor began to look.",
        1,
    ),
    _gauge("Topics", "kafka_topic_partition_current_offset", _PARTITION, "The partition's high watermark.", 3),
    _gauge("Topics", "kafka_topic_partition_oldest_offset", _PARTITION, "The offset at which its log begins.", 3),
    _gauge("Topics", "kafka_topic_partition_in_sync_replica", _PARTITION, "Replicas in sync.", 4),
    _gauge("Topics", "kafka_topic_partition_leader", _PARTITION, "The id of its leader, -1 if it has none.", 4),
    _gauge("Topics", "kafka_topic_partition_leader_is_preferred", _PARTITION, "Whether its first replica leads it.", 4),
    _gauge("Topics", "kafka_topic_partition_replicas", _PARTITION, "Replicas.", 4),
    _gauge(
        "Topics",
        "kafka_topic_partition_under_replicated_partition",
        _PARTITION,
        "Whether some replica is not in sync.",
        4,
    ),
    _gauge("Topics", "kafka_log_log_size", _PARTITION, "Bytes of one replica's log, without indexes.", 4),
)

_GROUPS: Final = (
    _gauge(
        "Groups", "kafka_coordinator_group_groupmetadatamanager_numgroups", (), "Groups that `__consumer_offsets` has."
    ),
    _gauge("Groups", "kafka_coordinator_group_groupmetadatamanager_numoffsets", (), "Committed offsets."),
    *(
        _gauge(
            "Groups", f"kafka_coordinator_group_groupmetadatamanager_numgroups{state}", (), f"Groups that are {text}."
        )
        for state, text in (
            ("stable", "stable"),
            ("empty", "without members"),
            ("preparingrebalance", "waiting for members to join"),
            ("completingrebalance", "waiting for their assignment"),
            ("dead", "dead"),
        )
    ),
    _gauge("Groups", "kafka_consumergroup_members", _GROUP, "Members.", 1),
    _counter("Groups", "coterie_group_commits_total", _GROUP, "Offsets committed, one for each partition.", 1),
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

_MONITOR: Final = (
    _gauge("Monitor", "coterie_monitor_look_seconds", (), "How long the last look took."),
    _gauge("Monitor", "coterie_monitor_last_look_timestamp_seconds", (), "When the last look ended, in Unix time."),
    _counter("Monitor", "coterie_monitor_looks_total", (), "Looks since it began."),
    _gauge("Monitor", "coterie_monitor_problems", (), "Things that it could not see at the last look."),
    _gauge("Monitor", "coterie_monitor_history_bytes", (), "Size of its history on disk."),
    _gauge("Monitor", "coterie_monitor_resident_bytes", (), "Memory of its process."),
    _counter("Monitor", "coterie_monitor_cpu_seconds_total", (), "CPU time of its process."),
    _gauge(
        "Monitor",
        "coterie_metrics_series_left_out",
        (),
        "Series beyond `coterie.metrics.series.max`, which are not shown.",
    ),
)

METRICS: Final[tuple[MetricSpec, ...]] = (*_CLUSTER, *_TOPICS, *_GROUPS, *_LAG, *_MONITOR)
BY_NAME: Final = {each.name: each for each in METRICS}
