"""`write_topic`: the rows of a DataFrame as records, written by the executors in parallel."""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from actors import CoterieError
from actors.client import Admin, Producer
from actors.client.config import ADMIN_SETTINGS
from actors.client.errors import KafkaError, UnknownTopicOrPartitionError
from actors.client.records import TopicPartition
from actors.members.brokers_there import ask_first
from spark_bridge.executors import check_session
from spark_bridge.options import OptionError, sink_options
from spark_bridge.read import merged
from spark_bridge.worker import begin_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from actors.client.producer.accumulator import FutureBatchMetadata

# The size of a record batch. Rows come by the thousand, and each batch costs producer and broker some fixed work.
_BATCH_BYTES: Final = 256 << 10
_COLUMNS: Final = ("key", "value", "topic", "partition", "headers")
_WRITTEN: Final = "topic string, partition int, records long"


class ColumnError(CoterieError, ValueError):
    """A DataFrame cannot be written: a column is missing or has the wrong type. The message is one line."""


@dataclass(frozen=True, slots=True)
class Written:
    """The records that `write_topic` has written and the brokers have acknowledged."""

    records: int
    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)


def write_topic(
    df: DataFrame,
    bootstrap_servers: str | None = None,
    topic: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
) -> Written:
    """Write all rows of `df` to topics. Returns when all in-sync replicas have acknowledged the last one.

    Columns as in Spark's Kafka sink: value (string or binary; null = tombstone) and, where there are such, key,
    topic, partition (int; null = by the key) and headers (array of struct key, value); others are left out. `topic`
    goes before the column of that name. Each partition of `df` has an idempotent producer of its own: its rows keep
    their order in each topic partition, and a repeat of a request writes nothing twice. A Spark task that fails is
    run again from its beginning, and writes again what the first run wrote: at least once.

    Raises SessionError if the session has ended, ColumnError, OptionError, UnknownTopicOrPartitionError (topics are not
    created), and what the executors met as Spark's PythonException.
    """
    check_session(df.sparkSession)
    wanted = sink_options(merged(options, {"topic": topic, "kafka.bootstrap.servers": bootstrap_servers}))
    servers = wanted.bootstrap_servers
    if not servers:
        raise OptionError("bootstrap_servers (kafka.bootstrap.servers) is missing")
    names = _checked_columns(df, wanted.topic)
    if wanted.topic is not None:
        _require(servers, wanted.topic, wanted.client)
    settings = {"batch_size": _BATCH_BYTES, "client_id": "coterie-spark"} | dict(wanted.client)
    settings |= {"bootstrap_servers": servers, "allow_auto_create_topics": False}
    written = df.select(*names).mapInArrow(WriteRows(wanted.topic, settings), _WRITTEN).collect()
    counts: Counter[TopicPartition] = Counter()
    for row in written:
        counts[TopicPartition(row["topic"], row["partition"])] += row["records"]
    return Written(counts.total(), dict(sorted(counts.items())))


def _require(servers: str, topic: str, client: Mapping[str, Any]) -> None:
    settings = {name: value for name, value in client.items() if name in ADMIN_SETTINGS}
    with Admin(bootstrap_servers=servers, **settings) as admin:
        ask_first(admin, "the write")
        try:
            admin.describe_topics([topic])
        except UnknownTopicOrPartitionError:
            raise UnknownTopicOrPartitionError(f"topic {topic!r} does not exist") from None


# --- columns --------------------------------------------------------------------------------------------------------


def _checked_columns(df: DataFrame, topic: str | None) -> list[str]:
    """The columns to send, by their names in the DataFrame. Raises ColumnError in the cases of Spark's sink."""
    if df.isStreaming:
        raise ColumnError("a streaming DataFrame cannot be written as a whole: call write_topic in foreach_batch")
    found = {f.name.lower(): f for f in df.schema.fields if f.name.lower() in _COLUMNS}
    if "value" not in found:
        raise ColumnError(f"required attribute 'value' not found; the columns are {', '.join(df.columns)}")
    if topic is None and "topic" not in found:
        raise ColumnError("the topic option is required when no 'topic' attribute is present")
    if topic is not None:
        found.pop("topic", None)
    for name, wrong in ((name, _wrong(name, f.dataType)) for name, f in found.items()):
        if wrong:
            kind = found[name].dataType.simpleString()
            raise ColumnError(f"{name} attribute unsupported type {kind}. {name} must be {wrong}")
    return [found[name].name for name in _COLUMNS if name in found]


def _wrong(name: str, kind: DataType) -> str | None:
    """The type that the column must have, in words, if it has another; else None."""
    text = kind.simpleString()
    if name in ("key", "value"):
        return None if text in ("string", "binary", "void") else "a string or binary"
    if name == "topic":
        return None if text == "string" else "a string"
    if name == "partition":
        return None if text in ("int", "void") else "an int"
    headers = text in ("void", "array<struct<key:string,value:binary>>")
    return None if headers else "an array<struct<key:string,value:binary>>"


# --- on the executors -----------------------------------------------------------------------------------------------


class WriteRows:
    """The task that an executor runs for each partition of the DataFrame. Yields a row for each topic partition."""

    def __init__(self, topic: str | None, settings: Mapping[str, Any]) -> None:
        self._topic = topic
        self._settings = dict(settings)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        counts: Counter[TopicPartition] = Counter()
        waiting: deque[FutureBatchMetadata] = deque()
        producer: Producer | None = None
        try:
            for batch in batches:
                if not batch.num_rows:
                    continue
                producer = producer or Producer(**self._settings)
                for topic, rows in self._by_topic(batch.rename_columns([n.lower() for n in batch.schema.names])):
                    waiting += producer.send_arrow(topic, rows)
                # A failure ends the task now, not after everything else was sent.
                while waiting and waiting[0].is_done:
                    _count(counts, waiting.popleft())
            if producer is not None:
                producer.flush()
            while waiting:
                _count(counts, waiting.popleft())
        finally:
            if producer is not None:
                # After a failure there may be batches under way: that they are given up is not what went wrong.
                with contextlib.suppress(KafkaError):
                    producer.close(0)
        yield _table(counts)

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._topic is not None:
            yield self._topic, batch
            return
        topics = batch.column("topic")
        if topics.null_count:
            raise ColumnError("null topic present in the data. Use the topic option for setting a topic")
        names = topics.unique().to_pylist()
        for name in names:
            yield name, batch if len(names) == 1 else batch.filter(pc.equal(topics, name))


def _count(counts: Counter[TopicPartition], future: FutureBatchMetadata) -> None:
    written = future.get()
    counts[TopicPartition(written.topic, written.partition)] += written.record_count


def _table(counts: Mapping[TopicPartition, int]) -> pa.RecordBatch:
    columns = {
        "topic": pa.array([tp.topic for tp in counts], pa.string()),
        "partition": pa.array([tp.partition for tp in counts], pa.int32()),
        "records": pa.array(counts.values(), pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)
