"""`read_topic`: a bounded part of a topic as a DataFrame. Its offsets are fixed when the function is called."""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from actors.client import Admin
from actors.client.errors import DataLossError, UnknownTopicOrPartitionError
from actors.client.records import OffsetRange, TopicPartition
from actors.members.brokers_there import ask_first
from spark_bridge.bounds import EARLIEST, LATEST, Bound, Partition, resolve
from spark_bridge.executors import check_session
from spark_bridge.options import OptionError, SourceOptions, source_options
from spark_bridge.source import Reading, ranges_dataframe, split_ranges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

Offsets = str | Mapping[str, Mapping[str, int]]
Time = int | datetime.datetime


def read_topic(
    spark: SparkSession,
    topic: str | Sequence[str] | None = None,
    bootstrap_servers: str | None = None,
    *,
    starting_offsets: Offsets | None = None,
    ending_offsets: Offsets | None = None,
    starting_timestamp: Time | None = None,
    ending_timestamp: Time | None = None,
    group_id: str | None = None,
    min_partitions: int | None = None,
    include_headers: bool | None = None,
    fail_on_data_loss: bool | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The records of one or more topics between two bounds, with the columns of Spark's Kafka source.

    Bounds: "earliest", "latest", or offsets by topic and partition, `{"t": {"0": 23, "1": -2}}`; or times, as Unix
    milliseconds or datetimes. The default is all records. With `group_id`, each partition begins at the group's
    committed offset, or without one at the starting bound. The bounds become offsets at once, so that the DataFrame
    has the same records however often it is evaluated. `options` are those of Spark's Kafka source; an argument and
    the option of the same meaning exclude one another.

    Raises SessionError if the session has ended, OptionError and BoundError for bounds that are not possible,
    UnknownTopicOrPartitionError for a topic that does not exist, DataLossError for offsets that are not in the log
    (unless `fail_on_data_loss` is off).
    """
    check_session(spark)
    given = merged(
        options,
        {
            "subscribe": topic,
            "kafka.bootstrap.servers": bootstrap_servers,
            "kafka.group.id": group_id,
            "startingOffsets": starting_offsets,
            "endingOffsets": ending_offsets,
            "startingTimestamp": epoch_ms(starting_timestamp),
            "endingTimestamp": epoch_ms(ending_timestamp),
            "minPartitions": min_partitions,
            "includeHeaders": include_headers,
            "failOnDataLoss": fail_on_data_loss,
        },
    )
    ranges, reading = planned(source_options(given, streaming=False))
    return ranges_dataframe(spark, ranges, reading)


def planned(wanted: SourceOptions) -> tuple[list[OffsetRange], Reading]:
    """The ranges to read, split as asked for, and how to read them. Raises as `read_topic` does."""
    servers = wanted.bootstrap_servers
    if not servers:
        raise OptionError("bootstrap_servers (kafka.bootstrap.servers) is missing")
    if wanted.max_offsets_per_trigger or wanted.min_offsets_per_trigger:
        log.warning("a bounded read ignores maxOffsetsPerTrigger and minOffsetsPerTrigger")
    with Admin(bootstrap_servers=servers, **wanted.admin_settings) as admin:
        ask_first(admin, "the read")
        ranges = bounded_ranges(admin, wanted)
    reading = Reading(
        servers, wanted.include_headers, wanted.fail_on_data_loss, wanted.poll_timeout_ms, wanted.reader_settings
    )
    return split_ranges(ranges, wanted.min_partitions), reading


def merged(options: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the arguments among them. Raises OptionError for one that is given in both ways."""
    given = dict(options or {})
    written = {name.lower(): name for name in given}
    for name, value in arguments.items():
        if value is None:
            continue
        if name.lower() in written:
            raise OptionError(f"{written[name.lower()]} is given twice: as an option and as an argument")
        given[name] = value
    return given


def bounded_ranges(admin: Admin, wanted: SourceOptions) -> list[OffsetRange]:
    """The offsets of `wanted` now, as a range for each partition, which may be empty. Raises as `read_topic` does."""
    partitions = partitions_of(admin, wanted)
    starts = _starts(admin, wanted, partitions)
    ending = wanted.ending or Bound("endingOffsets", everywhere=LATEST)
    ends = resolve(admin, ending, partitions, committed=wanted.read_committed)
    log_starts = resolve(admin, Bound("", everywhere=EARLIEST), partitions)
    log_ends = resolve(admin, Bound("", everywhere=LATEST), partitions, committed=wanted.read_committed)
    high = resolve(admin, Bound("", everywhere=LATEST), partitions) if wanted.read_committed else log_ends
    return [
        _inside(tp, (starts[tp], ends[tp]), (log_starts[tp], log_ends[tp]), high[tp], wanted.fail_on_data_loss)
        for tp in sorted(partitions)
    ]


def partitions_of(admin: Admin, wanted: SourceOptions) -> list[Partition]:
    """The partitions that subscribe, subscribePattern or assign name. Raises UnknownTopicOrPartitionError."""
    if wanted.assign:
        there = _describe(admin, sorted({topic for topic, _ in wanted.assign}))
        for topic, number in wanted.assign:
            if (topic, number) not in there:
                raise UnknownTopicOrPartitionError(f"topic {topic!r} has no partition {number}")
        return list(wanted.assign)
    if wanted.subscribe_pattern:
        matches = re.compile(wanted.subscribe_pattern).fullmatch
        described = admin.describe_topics()
        names = [each.name for each in described if not each.is_internal and matches(each.name)]
        if not names:
            raise UnknownTopicOrPartitionError(f"no topic matches subscribePattern={wanted.subscribe_pattern}")
        return _describe(admin, names)
    if not wanted.subscribe:
        raise OptionError("no topic is given: name one, or set subscribe, subscribePattern or assign")
    return _describe(admin, wanted.subscribe)


def _describe(admin: Admin, topics: Iterable[str]) -> list[Partition]:
    found: list[Partition] = []
    for topic in topics:
        try:
            [described] = admin.describe_topics([topic])
        except UnknownTopicOrPartitionError:
            raise UnknownTopicOrPartitionError(f"topic {topic!r} does not exist") from None
        found += [(topic, each.partition) for each in described.partitions]
    return found


def _starts(admin: Admin, wanted: SourceOptions, partitions: list[Partition]) -> dict[Partition, int]:
    if not wanted.group_id:
        return resolve(admin, wanted.starting, partitions, committed=wanted.read_committed)
    tps = [TopicPartition(*tp) for tp in partitions]
    committed = admin.list_consumer_group_offsets(wanted.group_id, tps)
    starts: dict[Partition, int] = {(tp.topic, tp.partition): at.offset for tp, at in committed.items()}
    left = [tp for tp in partitions if tp not in starts]
    if not left:
        return starts
    if wanted.starting.by_partition:
        # It names all partitions; those with a committed offset do not need it.
        every = resolve(admin, wanted.starting, partitions, committed=wanted.read_committed)
        return every | starts
    return starts | resolve(admin, wanted.starting, left, committed=wanted.read_committed)


def _inside(
    tp: Partition, asked: tuple[int, int], log_has: tuple[int, int], high_watermark: int, fail: bool
) -> OffsetRange:
    """The range if the log has all of it. Else raises DataLossError, or returns the part that the log has."""
    start, end = asked
    if start > end and log_has[0] <= start <= high_watermark:
        # A group or a time past the end asked for, or past the last stable offset.
        return OffsetRange(*tp, start, start)
    low, high = min(max(start, log_has[0]), log_has[1]), max(min(end, log_has[1]), log_has[0])
    if (low, high) != (start, end):
        what = f"{tp[0]}-{tp[1]}: offsets {start} to {end} are wanted, but the log has {log_has[0]} to {log_has[1]}"
        if fail:
            raise DataLossError(f"{what}; failOnDataLoss=false reads what is there")
        log.warning("%s; reading what is there, since failOnDataLoss is false", what)
    return OffsetRange(*tp, low, max(low, high))


def epoch_ms(time: Time | None) -> int | None:
    """A time in ms since the epoch, as Spark's options have it. Raises OptionError for a datetime without a zone."""
    if not isinstance(time, datetime.datetime):
        return time
    if time.tzinfo is None:
        raise OptionError(f"{time}: a time needs a time zone, such as datetime.UTC")
    return int(time.timestamp() * 1000)
