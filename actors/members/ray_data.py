"""`read_group`: a bounded Ray Data job as a member of a consumer group, so that the next run goes on where it ended.

    with read_group("orders", "billing", bootstrap_servers=servers) as read:
        read.dataset.map_batches(enrich).write_parquet("/data/billing")

At its beginning the block joins the group and fixes the ranges: for each partition it is assigned, from the committed
offset to the present end. At its end it commits, if nothing was raised, each range that was read to its end. Rows have
the columns of `ray.data.read_kafka`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
import ray
from ray.data import Dataset, Datasource, ReadTask
from ray.data._internal.execution.execution_callback import ExecutionCallback
from ray.data._internal.execution.operators.limit_operator import LimitOperator
from ray.data.block import BlockMetadata

from actors.client import Admin, Consumer, TopicPartition
from actors.client.config import consumer_config, security_settings
from actors.client.consumer.ranges import OffsetRange, RangeReader
from actors.client.errors import ConfigurationError, UnknownTopicOrPartitionError
from actors.client.net.security import refuse_secrets
from actors.members.range_group import (
    Holding,
    RangeMemberSpec,
    await_settled,
    member_settings,
    positions_and_ends,
    topics_begun,
)
from actors.members.range_member import RangeMember
from actors.runtime.logs import about
from actors.runtime.process import check_code_version, code_version

log = logging.getLogger(__name__)

_OF_MEMBERS = (
    *(
        "group_instance_id",
        "group_expected_members",
        "group_member_process",
        "session_timeout_ms",
        "heartbeat_interval_ms",
        "max_poll_interval_ms",
    ),
    *("enable_auto_commit", "partition_assignment_strategy", "allow_auto_create_topics"),
)
_FOREVER_MS = 2**31 - 1  # the member lives and dies with the program that runs the job

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", pa.int64()),
        ("timestamp_type", pa.int32()),
        ("headers", pa.map_(pa.string(), pa.binary())),
    ]
)
"""The columns of ray.data.read_kafka. Times are in ms; timestamp_type is 1 for CreateTime, 2 for LogAppendTime."""


@ray.remote(num_cpus=0, max_restarts=0)
class ReadReceipts:
    """The actor that notes which ranges were read to their end. If it dies, nothing is committed."""

    def __init__(self, version: str) -> None:
        check_code_version(version)
        self._read: set[OffsetRange] = set()
        self._unlimited = False

    def note(self, wanted: OffsetRange) -> None:
        """Note that a range was read to its end."""
        self._read.add(wanted)

    def unlimited(self) -> None:
        """Note that the dataset was evaluated without a limit."""
        self._unlimited = True

    def read(self) -> set[OffsetRange]:
        """The ranges read to their end so far; none while all evaluations had a limit."""
        return self._read if self._unlimited else set()


def _noting_evaluations(receipts: Any) -> type[ExecutionCallback]:
    """Notes each evaluation without a limit. With a `limit` or `take`, too, the tasks read ahead to the end."""

    class Noting(ExecutionCallback):  # type: ignore[misc]
        def after_execution_succeeds(self, executor: Any) -> None:
            if not any(isinstance(step, LimitOperator) for step in executor._topology):
                ray.get(receipts.unlimited.remote())

    return Noting


@dataclass(frozen=True, slots=True)
class _Reading:
    bootstrap_servers: str
    fail_on_data_loss: bool
    options: dict[str, Any]


class GroupRead:
    """What `read_group` returns: a context manager. Its `dataset` is for use within the block.

    `ranges` are the offsets it reads. `commit` is called at the block's end; `committed` says then for which
    partitions it counted: one that another member took over in the meantime is not among them, and its records are
    given to that member again.
    """

    dataset: Dataset
    ranges: tuple[OffsetRange, ...]
    committed: tuple[TopicPartition, ...] = ()

    def __init__(
        self, spec: RangeMemberSpec, topics: Sequence[str], reading: _Reading, start: str, settle_s: float
    ) -> None:
        self._spec, self._topics, self._reading = spec, topics, reading
        self._start, self._settle_s = start, settle_s
        self._member: RangeMember | None = None
        self._holding: Holding | None = None
        self._receipts: Any = None

    def __enter__(self) -> Self:
        starts, partitions = self._starts()
        self._member = RangeMember(replace(self._spec, starts=starts))
        try:
            member = self._member
            await_settled(lambda: [member.holding()], self._spec, partitions, self._settle_s)
            self._holding = self._member.begin()
            self.ranges = self._fix(self._holding)
            self._receipts = ReadReceipts.remote(code_version())  # type: ignore[attr-defined]
            source = _GroupDatasource(self.ranges, self._reading, self._receipts)
            self.dataset = ray.data.read_datasource(source, override_num_blocks=max(1, len(self.ranges)))
            self.dataset.context.custom_execution_callback_classes.append(_noting_evaluations(self._receipts))
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.commit()
        finally:
            self._leave()

    def commit(self) -> tuple[TopicPartition, ...]:
        """Commit the ends of what was read to its end, and end the batch. Once is enough: a second call does nothing.

        A range that was not (a `limit`, a dataset nobody consumed) is not committed, and a warning says so. But Ray's
        tasks read ahead: what a loop that is left early has not taken counts as read. Leave the block with an exception
        if that is not to be committed.
        """
        if self._member is None or self._holding is None:
            return self.committed
        read: set[OffsetRange] = ray.get(self._receipts.read.remote())
        unread = [wanted for wanted in self.ranges if wanted not in read]
        if unread:
            log.warning(
                "group %s: not read to the end, so not committed: %s",
                self._spec.group_id,
                unread,
                extra=about(group=self._spec.group_id),
            )
        tenures = {(held.topic, held.partition): held.tenure for held in self._holding.partitions}
        done = {(r.topic, r.partition): (r.until_offset, tenures[r.topic, r.partition]) for r in read}
        self.committed = tuple(TopicPartition(*tp) for tp in self._member.finish(done))
        if lost := {TopicPartition(*tp) for tp in done} - set(self.committed):
            log.warning(
                "group %s: taken over by other members, so not committed: %s",
                self._spec.group_id,
                lost,
                extra=about(group=self._spec.group_id),
            )
        self._holding = None
        return self.committed

    def _leave(self) -> None:
        if self._member is not None:
            self._member.stop()
            self._member = None
        if self._receipts is not None:
            ray.kill(self._receipts)
            self._receipts = None

    def _client(self, **more: Any) -> Consumer:
        return Consumer(
            **self._reading.options,
            **more,
            bootstrap_servers=self._spec.bootstrap_servers,
            allow_auto_create_topics=False,
        )

    def _starts(self) -> tuple[dict[tuple[str, int], int], list[TopicPartition]]:
        """The starts of partitions without a committed offset, and all partitions."""
        secured = security_settings(self._reading.options)
        with self._client() as client, Admin(bootstrap_servers=self._spec.bootstrap_servers, **secured) as admin:
            partitions = [tp for topic in self._topics for tp in _partitions(client, topic)]
            known = topics_begun(admin, self._spec.group_id, partitions)
            fresh = [tp for tp in partitions if tp.topic not in known]
            starts = client.end_offsets(fresh) if self._start == "latest" else client.beginning_offsets(fresh)
        return {(tp.topic, tp.partition): at for tp, at in starts.items()}, partitions

    def _fix(self, holding: Holding) -> tuple[OffsetRange, ...]:
        if not holding.partitions:
            return ()
        fail = self._reading.fail_on_data_loss
        with self._client() as client:
            froms, ends = positions_and_ends(client, holding.partitions, fail=fail, setting="fail_on_data_loss")
        return tuple(OffsetRange(*tp, at, ends[tp]) for tp, at in froms.items() if at < ends[tp])


def read_group(
    topics: str | Sequence[str],
    group_id: str,
    *,
    bootstrap_servers: str,
    auto_offset_reset: Literal["earliest", "latest"] = "earliest",
    fail_on_data_loss: bool = True,
    revoke_wait_ms: int = 10_000,
    settle_timeout_s: float = 60.0,
    **options: Any,
) -> GroupRead:
    """Read from a group's committed offsets to the present end with Ray Data, and commit on success. See the module.

    Where nothing is committed, `auto_offset_reset` says where to begin. When another member joins, a partition that
    it should get waits for the block's end up to `revoke_wait_ms`. `options` are settings of actors.client.Consumer; a
    password goes by the path of a file or the name of a variable (sasl_password_file, sasl_password_env).
    Raises ConfigurationError; entering the block raises UnknownTopicOrPartitionError, DataLossError, and
    KafkaTimeoutError after `settle_timeout_s` without an assignment.
    """
    names = [topics] if isinstance(topics, str) else list(topics)
    if not names:
        raise ConfigurationError("topics=[]: read_group needs at least one topic")
    if auto_offset_reset not in ("earliest", "latest"):
        raise ConfigurationError(f"auto_offset_reset={auto_offset_reset!r}: must be earliest or latest")
    spec = RangeMemberSpec(
        group_id,
        bootstrap_servers,
        tuple(names),
        batch_timeout_ms=_FOREVER_MS,
        revoke_wait_ms=revoke_wait_ms,
        options=options,
    )
    refuse_secrets(options, "Ray's tasks")
    consumer_config(member_settings(spec))
    plain = {name: value for name, value in options.items() if name not in _OF_MEMBERS}
    reading = _Reading(bootstrap_servers, fail_on_data_loss, plain)
    return GroupRead(spec, names, reading, auto_offset_reset, settle_timeout_s)


class _GroupDatasource(Datasource):  # type: ignore[misc]
    """A data source with one read task for each range."""

    def __init__(self, ranges: tuple[OffsetRange, ...], reading: _Reading, receipts: Any) -> None:
        super().__init__()
        self._ranges, self._reading, self._receipts = ranges, reading, receipts

    def get_name(self) -> str:
        return "ConsumerGroup"

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        if not self._ranges:
            nothing = BlockMetadata(num_rows=0, size_bytes=0, input_files=None, exec_stats=None)
            return [ReadTask(lambda: [SCHEMA.empty_table()], nothing, schema=SCHEMA)]
        return [
            ReadTask(
                partial(_read, wanted, self._reading, self._receipts),
                BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None),
                schema=SCHEMA,
                per_task_row_limit=per_task_row_limit,
            )
            for wanted in self._ranges
        ]


def _read(wanted: OffsetRange, reading: _Reading, receipts: Any) -> Iterator[pa.Table]:
    with RangeReader(
        reading.bootstrap_servers, headers=True, fail_on_data_loss=reading.fail_on_data_loss, **reading.options
    ) as reader:
        yield from map(_as_read_kafka, reader.read([wanted]))
    ray.get(receipts.note.remote(wanted))


def _as_read_kafka(batch: pa.RecordBatch) -> pa.Table:
    headers = pc.fill_null(batch.column("headers"), pa.scalar([], batch.schema.field("headers").type))
    pairs = headers.flatten()
    as_map = pa.MapArray.from_arrays(_offsets(headers), pairs.field("key"), pairs.field("value"))
    columns = [
        batch.column("offset"),
        batch.column("key"),
        batch.column("value"),
        batch.column("topic"),
        batch.column("partition"),
        batch.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()),
        pc.add(batch.column("timestampType"), pa.scalar(1, pa.int32())),
        as_map,
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _offsets(lists: pa.ListArray) -> pa.Array:
    """The index of each list's first value among the flattened values, and the end of the last list."""
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
    return pa.array([0, *lengths.cumsum().tolist()], pa.int32())


def _partitions(client: Consumer, topic: str) -> Iterable[TopicPartition]:
    numbers = client.partitions_for_topic(topic)
    if numbers is None:
        raise UnknownTopicOrPartitionError(f"topics: there is no topic {topic!r}")
    return [TopicPartition(topic, number) for number in sorted(numbers)]
