"""The rows of the metrics about topics, groups and lag, from what a Monitor remembers. No clock, no I/O.

Rows are made while they are written, in another thread than the one that looks: whatever may change is copied first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from actors.links.views import CLASSIC
from actors.monitor.assignments import progress_of
from actors.monitor.memory import GroupLag, Memory
from actors.monitor.metric_table import COORDINATOR, GROUP_STATES, Row
from actors.monitor.offsets_log import FollowedGroup
from actors.monitor.partitions import Partition, Topic
from placement.metadata import NO_LEADER, ClusterMetadata, PartitionInfo

Family = tuple[str, Iterable[Row]]
_KAFKA_GROUPS = "kafka_coordinator_group_groupmetadatamanager_num"


def one(value: float | None) -> Iterator[Row]:
    """The row of a metric without labels; none if it is not known."""
    if value is not None:
        yield (), float(value)


def cluster_families(metadata: ClusterMetadata) -> Iterator[Family]:
    """Brokers, topics and partitions, counted."""
    alive = [broker for broker in list(metadata.brokers.values()) if broker.alive]
    partitions = [each for topic in list(metadata.topics.values()) for each in topic.partitions]
    controller = "kafka_controller_kafkacontroller_"
    yield "kafka_brokers", one(len(alive))
    yield "kafka_broker_info", (((str(each.id), f"{each.host}:{each.port}"), 1.0) for each in alive)
    yield controller + "activebrokercount", one(len(alive))
    yield controller + "globaltopiccount", one(len(metadata.topics))
    yield controller + "globalpartitioncount", one(len(partitions))
    yield controller + "offlinepartitionscount", one(sum(each.leader == NO_LEADER for each in partitions))


def topic_families(metadata: ClusterMetadata, memory: Memory) -> Iterator[Family]:
    """Topics and their partitions."""
    topics = list(metadata.topics.values())
    yield "kafka_topic_partitions", (((each.name,), float(len(each.partitions))) for each in topics)
    seen = [(name, topic, list(topic.partitions.items())) for name, topic in list(memory.partitions)]
    for metric, field in (
        ("kafka_topic_partition_current_offset", "log_end"),
        ("kafka_topic_partition_oldest_offset", "log_start"),
        ("kafka_log_log_size", "size_bytes"),
    ):
        yield metric, _partition_rows(seen, field)
    places = [((t.name, str(number)), each) for t in topics for number, each in enumerate(t.partitions)]
    for name, value in _BY_REPLICAS:
        yield f"kafka_topic_partition_{name}", ((labels, float(value(each))) for labels, each in places)


def _partition_rows(seen: Iterable[tuple[str, Topic, list[tuple[int, Partition]]]], field: str) -> Iterator[Row]:
    for name, _, partitions in seen:
        for number, partition in partitions:
            yield (name, str(number)), float(getattr(partition, field))


def _is_preferred(partition: PartitionInfo) -> bool:
    return bool(partition.replicas) and partition.leader == partition.replicas[0]


_BY_REPLICAS = (
    ("in_sync_replica", lambda each: len(each.isr)),
    ("leader", lambda each: each.leader),
    ("leader_is_preferred", _is_preferred),
    ("replicas", lambda each: len(each.replicas)),
    ("under_replicated_partition", lambda each: len(each.isr) < len(each.replicas)),
)


def group_families(groups: list[tuple[FollowedGroup, str, int]], memory: Memory) -> Iterator[Family]:
    """Groups, each with its state and its number of members, and how far they are behind."""
    counted = Counter((group.group_type, state) for group, state, _ in groups)
    yield from _counted_by_type(counted)
    yield _KAFKA_GROUPS + "offsets", one(sum(len(group.offsets) for group, _, _ in groups))
    yield "kafka_consumergroup_members", (((each.group_id,), float(members)) for each, _, members in groups)
    yield "coterie_group_commits_total", (((each.group_id,), float(each.commits)) for each, _, _ in groups)
    yield from _progress_families(groups)
    yield from _lag_families(groups, memory.lags)


def _progress_families(groups: list[tuple[FollowedGroup, str, int]]) -> Iterator[Family]:
    """The distance of consumer groups from their targets."""
    known = [((each.group_id,), found) for each, _, _ in groups if (found := progress_of(each)) is not None]
    yield "coterie_group_epoch", ((labels, float(found.epoch)) for labels, found in known)
    yield "coterie_group_assignment_epoch", ((labels, float(found.assignment_epoch)) for labels, found in known)
    yield "coterie_group_partitions_to_give_back", ((labels, float(found.to_give_back)) for labels, found in known)
    yield "coterie_group_partitions_to_come", ((labels, float(found.to_come)) for labels, found in known)


def _counted_by_type(counted: Counter[tuple[str, str]]) -> Iterator[Family]:
    types = Counter(dict.fromkeys(GROUP_STATES, 0))
    for (group_type, _), count in counted.items():
        types[group_type] += count
    yield COORDINATOR + "group_count", [((group_type,), float(count)) for group_type, count in sorted(types.items())]
    for group_type, states in GROUP_STATES.items():
        rows = [((state,), float(counted[group_type, state])) for state in states]
        yield f"{COORDINATOR}{group_type}_group_count", rows
    yield _KAFKA_GROUPS + "groups", one(types[CLASSIC])
    for state in GROUP_STATES[CLASSIC]:
        yield f"{_KAFKA_GROUPS}groups{state.lower()}", one(counted[CLASSIC, state])


def _lag_families(groups: list[tuple[FollowedGroup, str, int]], lags: dict[str, GroupLag]) -> Iterator[Family]:
    known = list(lags.items())
    yield (
        "kafka_consumergroup_lag",
        (
            ((group, topic, str(number)), float(lag.records))
            for group, each in known
            for (topic, number), lag in each.by_partition.items()
            if lag.records is not None
        ),
    )
    yield (
        "kafka_consumergroup_lag_seconds",
        (
            ((group, topic, str(number)), lag.seconds)
            for group, each in known
            for (topic, number), lag in each.by_partition.items()
            if lag.seconds is not None
        ),
    )
    yield (
        "kafka_consumergroup_current_offset",
        (
            ((each.group_id, topic, str(number)), float(committed.offset))
            for each, _, _ in groups
            for (topic, number), committed in list(each.offsets.items())
        ),
    )
    yield "kafka_consumergroup_lag_sum", _lag_sums(known)
    yield "kafka_consumergroup_current_offset_sum", _offset_sums(groups)
    yield "coterie_group_lag_seconds", (((group,), each.seconds) for group, each in known if each.seconds is not None)


def _lag_sums(known: list[tuple[str, GroupLag]]) -> Iterator[Row]:
    for group, each in known:
        sums: Counter[str] = Counter()
        for (topic, _), lag in each.by_partition.items():
            if lag.records is not None:
                sums[topic] += lag.records
        yield from (((group, topic), float(total)) for topic, total in sums.items())


def _offset_sums(groups: list[tuple[FollowedGroup, str, int]]) -> Iterator[Row]:
    for each, _, _ in groups:
        sums: Counter[str] = Counter()
        for (topic, _), committed in list(each.offsets.items()):
            sums[topic] += committed.offset
        yield from (((each.group_id, topic), float(total)) for topic, total in sums.items())
