"""Consumer groups as DataFrames: their offsets and lag now, and their past commits in `__consumer_offsets`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from actors.client import Admin
from actors.client.admin.offset_plans import Log
from actors.client.admin.types import GroupDescription, MemberDescription
from actors.client.consumer.range_columns import Place, microseconds
from actors.client.errors import UnknownTopicOrPartitionError
from actors.client.records import OffsetAndMetadata, OffsetRange, TopicPartition
from actors.coordinator.groups.offset_records import OFFSET_KEY_TYPES, decode_offset_key, decode_offset_value
from actors.coordinator.records import CorruptRecordError, record_type
from spark_bridge.executors import check_session
from spark_bridge.options import source_options
from spark_bridge.read import merged, planned
from spark_bridge.source import RangeTask, Reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"
_AT_ONCE: Final = 8

_LAG: Final = (
    "group string, topic string, partition int, current_offset long, log_end_offset long, lag long, "
    "consumer_id string, host string, client_id string, group_instance_id string, state string"
)
_HISTORY: Final = (
    "group string, topic string, partition int, offset long, leader_epoch int, metadata string, "
    "timestamp timestamp, expire_timestamp timestamp, tombstone boolean, "
    "log_partition int, log_offset long, log_timestamp timestamp"
)


# --- now ------------------------------------------------------------------------------------------------------------


def lag(
    spark: SparkSession,
    group_ids: Iterable[str] | None = None,
    bootstrap_servers: str = "localhost:9092",
    *,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """A row for each partition that a group holds or has committed, at the time of this call; by default of all groups.

    Columns as `kafka-consumer-groups --describe` has them, in snake case, with the group's instance ids and state.
    Records that retention has deleted are no lag. Unknown values are null: current_offset without a commit,
    log_end_offset of a deleted topic, consumer_id of a partition nobody holds. `options` are `kafka.*` settings.
    """
    check_session(spark)
    settings = source_options(options, streaming=False).admin_settings
    with Admin(bootstrap_servers=bootstrap_servers, **settings) as admin:
        rows = lag_rows(admin, group_ids)
    return spark.createDataFrame(rows, _LAG)


def lag_rows(admin: Admin, group_ids: Iterable[str] | None) -> list[tuple[Any, ...]]:
    """The rows of `lag`, as `admin` finds them. Raises what its requests raise."""
    if group_ids is None:
        names = [g.group_id for g in admin.list_consumer_groups() if g.protocol_type in ("consumer", "")]
    else:
        names = list(dict.fromkeys([group_ids] if isinstance(group_ids, str) else group_ids))
    if not names:
        return []
    groups = admin.describe_consumer_groups(names)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        committed = list(pool.map(admin.list_consumer_group_offsets, names))
    touched = {tp for offsets in committed for tp in offsets}
    touched |= {tp for group in groups for member in group.members for tp in member.assignment}
    logs = _logs(admin, touched)
    return [row for group, offsets in zip(groups, committed, strict=True) for row in _rows_of(group, offsets, logs)]


def _logs(admin: Admin, partitions: set[TopicPartition]) -> dict[TopicPartition, Log]:
    """The first and the end offsets of those partitions that exist and have a leader."""
    if not partitions:
        return {}
    topics = {tp.topic for tp in partitions}.intersection(admin.list_topics())
    there = {
        TopicPartition(topic.name, each.partition)
        for topic in (admin.describe_topics(sorted(topics)) if topics else [])
        for each in topic.partitions
        if each.leader >= 0
    }
    asked = partitions & there
    first = admin.list_offsets(dict.fromkeys(asked, "earliest"))
    end = admin.list_offsets(dict.fromkeys(asked, "latest"))
    return {tp: Log(a.offset, z.offset) for tp in asked if (a := first[tp]) and (z := end[tp])}


def _rows_of(
    group: GroupDescription, committed: Mapping[TopicPartition, OffsetAndMetadata], logs: Mapping[TopicPartition, Log]
) -> Iterator[tuple[Any, ...]]:
    held: dict[TopicPartition, MemberDescription] = {tp: m for m in group.members for tp in m.assignment}
    for tp in sorted(held.keys() | committed.keys()):
        member, at, found = held.get(tp), committed.get(tp), logs.get(tp)
        yield (
            group.group_id,
            tp.topic,
            tp.partition,
            at.offset if at else None,
            found.latest if found else None,
            found.lag(at.offset) if at and found else None,
            *((member.member_id, member.client_host, member.client_id) if member else (None, None, None)),
            member.group_instance_id if member else None,
            group.state,
        )


# --- the past -------------------------------------------------------------------------------------------------------


def offsets_history(
    spark: SparkSession,
    bootstrap_servers: str = "localhost:9092",
    *,
    group_ids: Iterable[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The commits, and deletions of them, that `__consumer_offsets` still has. The executors read and decode them.

    Columns: group, topic, partition; offset, leader_epoch, metadata (null for a tombstone); timestamp (of the commit,
    or of the tombstone's record), expire_timestamp (null unless the commit had one); tombstone; and where the record
    stands: log_partition, log_offset, log_timestamp. The topic is compacted: of old commits only the last of each
    partition is left. Empty while no group has ever committed. `options` are those of Spark's Kafka source, such as
    startingTimestamp. Works with Apache Kafka's topic as with ours.
    """
    check_session(spark)
    fixed = {
        "subscribe": OFFSETS_TOPIC,
        "kafka.bootstrap.servers": bootstrap_servers,
        # A commit of a transaction that was aborted never counted.
        "kafka.isolation.level": "read_committed",
    }
    try:
        ranges, reading = planned(source_options(merged(options, fixed), streaming=False))
    except UnknownTopicOrPartitionError:
        ranges = []
    if not ranges:
        return spark.createDataFrame([], _HISTORY)
    wanted = None if group_ids is None else frozenset([group_ids] if isinstance(group_ids, str) else group_ids)
    task = ReadOffsets(ranges, reading, wanted)
    return spark.range(0, len(ranges), 1, len(ranges)).mapInArrow(task, _HISTORY)


class ReadOffsets(RangeTask):
    """The task that an executor runs: it reads ranges of the offsets topic and decodes them in the same task."""

    def __init__(self, ranges: Sequence[OffsetRange], reading: Reading, group_ids: frozenset[str] | None) -> None:
        super().__init__(ranges, reading)
        self._group_ids = group_ids

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in super().__call__(numbers):
            yield offset_rows(batch, self._group_ids)


def offset_rows(batch: pa.RecordBatch, group_ids: frozenset[str] | None) -> pa.RecordBatch:
    """The offset records of a batch as rows of the history; other records are left out."""
    found: list[tuple[Any, ...]] = []
    places: list[int] = []
    for place, (key, value) in enumerate(
        zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
    ):
        row = _offset_record(key, value)
        if row is not None and (group_ids is None or row[0] in group_ids):
            found.append(row)
            places.append(place)
    rest = batch.select(["partition", "offset", "timestamp"]).take(pa.array(places, pa.int64()))
    columns = list(zip(*found, strict=True)) or [()] * 8
    kinds = [pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int32(), pa.string(), pa.int64(), pa.int64()]
    group, topic, partition, offset, epoch, metadata, commit_ms, expire_ms = (
        pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)
    )
    written = rest.column("timestamp")

    def place_of(row: int) -> Place:
        return TopicPartition(OFFSETS_TOPIC, rest.column("partition")[row].as_py()), rest.column("offset")[row].as_py()

    made = {
        "group": group,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "leader_epoch": epoch,
        "metadata": metadata,
        "timestamp": pc.coalesce(microseconds(commit_ms, place_of), written),
        "expire_timestamp": microseconds(expire_ms, place_of),
        "tombstone": offset.is_null(),
        "log_partition": rest.column("partition"),
        "log_offset": rest.column("offset"),
        "log_timestamp": written,
    }
    return pa.RecordBatch.from_pydict(made)


def _offset_record(key: bytes | None, value: bytes | None) -> tuple[Any, ...] | None:
    """Group, topic, partition, offset, epoch, metadata, commit and expiry time (ms); None for other records."""
    try:
        if key is None or record_type(key) not in OFFSET_KEY_TYPES:
            return None
        group, topic, partition = decode_offset_key(key)
        if value is None:
            return group, topic, partition, None, None, None, None, None
        at = decode_offset_value(value)
    except CorruptRecordError as error:
        log.warning("a record of %s cannot be read and is left out: %s", OFFSETS_TOPIC, error)
        return None
    epoch = at.leader_epoch if at.leader_epoch >= 0 else None
    expires = at.expire_timestamp_ms if at.expire_timestamp_ms >= 0 else None
    return group, topic, partition, at.offset, epoch, at.metadata, at.commit_timestamp_ms, expires


def summarise_groups(
    spark: SparkSession,
    bootstrap_servers: str = "localhost:9092",
    *,
    group_ids: Iterable[str] | None = None,
    interval: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The progress of each group in each topic, made from `offsets_history`; with `interval` ("10 minutes") by time.

    Columns: group, topic (and from, until with `interval`), partitions, commits, tombstones, first_commit,
    last_commit, progress (offsets gone forward, summed over the partitions), rewinds (commits below the one before),
    seconds (from the first commit to the last), and progress_per_second (null for a single moment). Commits that
    compaction has removed are not counted, and a partition's first commit left has no progress of its own.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    history = offsets_history(spark, bootstrap_servers, group_ids=group_ids, options=options)
    place = Window.partitionBy("group", "topic", "partition").orderBy("log_partition", "log_offset")
    gone = F.col("offset") - F.last("offset", ignorenulls=True).over(place.rowsBetween(Window.unboundedPreceding, -1))
    steps = history.withColumn("gone", gone)
    keys = ["group", "topic"]
    if interval is not None:
        stretch = F.window("timestamp", interval)
        steps = steps.withColumn("from", stretch["start"]).withColumn("until", stretch["end"])
        keys += ["from", "until"]
    commit = F.when(~F.col("tombstone"), F.col("timestamp"))
    summed = steps.groupBy(*keys).agg(
        F.countDistinct("partition").cast("int").alias("partitions"),
        F.count("offset").alias("commits"),
        F.count(F.when(F.col("tombstone"), 1)).alias("tombstones"),
        F.min(commit).alias("first_commit"),
        F.max(commit).alias("last_commit"),
        F.coalesce(F.sum(F.greatest(F.col("gone"), F.lit(0))), F.lit(0)).alias("progress"),
        F.count(F.when(F.col("gone") < 0, 1)).alias("rewinds"),
    )
    seconds = (F.unix_micros("last_commit") - F.unix_micros("first_commit")) / 1_000_000
    with_time = summed.withColumn("seconds", seconds)
    rate = F.when(F.col("seconds") > 0, F.col("progress") / F.col("seconds"))
    return with_time.withColumn("progress_per_second", rate).orderBy(*keys)
