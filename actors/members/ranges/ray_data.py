"""`read_group`: a Ray Data job as a member of a consumer group, so that the next run goes on where it ended.

    with read_group("orders", "billing", bootstrap_servers=servers) as read:
        read.dataset.map_batches(enrich, batch_format="pyarrow").write_parquet("/data/billing")

At its beginning the block joins the group and fixes the ranges: for each partition it is assigned, from the committed
offset to the present end. At its end it commits, if nothing was raised, each range that was read to its end. Rows have
the columns of `ray.data.read_kafka`. With `follow=True` it has no end: `ray_follow`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, Self, overload

from ray.data import Dataset

from actors.client import TopicPartition
from actors.client.config import consumer_config
from actors.client.errors import ConfigurationError
from actors.client.net.security import refuse_secrets
from actors.client.records import OffsetRange
from actors.members.ranges.group import RangeMemberSpec, member_settings
from actors.members.ranges.ray_follow import GroupFollow
from actors.members.ranges.ray_reader import GroupReader
from actors.members.ranges.reads import ReadBatch, Reading, ReadPlan
from actors.runtime.logs import about

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
    *("group_protocol", "group_remote_assignor", "group_instance_takeover", "group_heartbeat_max_ms"),
    *("enable_auto_commit", "partition_assignment_strategy", "allow_auto_create_topics"),
)
_FOREVER_MS = 2**31 - 1  # the member lives and dies with the program that runs the job
_BATCH_OFFSETS = 1_000_000


class GroupRead:
    """The context manager that `read_group` returns. Its `dataset` is for use within the block.

    `ranges` are the offsets it reads. `commit` is called at the block's end; `committed` says then for which
    partitions it counted: one that another member took over in the meantime is not among them, and its records are
    given to that member again. `plan` has the checked settings.
    """

    dataset: Dataset
    ranges: tuple[OffsetRange, ...]
    committed: tuple[TopicPartition, ...] = ()

    def __init__(self, plan: ReadPlan) -> None:
        self.plan = plan
        self._reader: GroupReader | None = None
        self._batch: ReadBatch | None = None

    def __enter__(self) -> Self:
        self._reader = reader = GroupReader(self.plan)
        try:
            self._batch = reader.begin()
            self.ranges = self._batch.ranges
            self.dataset = reader.dataset(self._batch)
        except BaseException:  # Ctrl-C, too: a member that nobody has would keep its partitions
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
        batch, self._batch = self._batch, None
        if self._reader is None or batch is None:
            return self.committed
        unread = self._reader.unread(batch)
        if unread:
            log.warning(
                "group %s: not read to the end, so not committed: %s",
                self.plan.spec.group_id,
                unread,
                extra=about(group=self.plan.spec.group_id),
            )
        self.committed = self._reader.commit(batch, [wanted for wanted in batch.ranges if wanted not in unread])
        return self.committed

    def _leave(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.leave()


@overload
def read_group(
    topics: str | Sequence[str],
    group_id: str,
    *,
    bootstrap_servers: str,
    follow: Literal[False] = False,
    auto_offset_reset: Literal["earliest", "latest"] = "earliest",
    fail_on_data_loss: bool = True,
    revoke_wait_ms: int = 10_000,
    settle_timeout_s: float = 60.0,
    **options: Any,
) -> GroupRead: ...


@overload
def read_group(
    topics: str | Sequence[str],
    group_id: str,
    *,
    bootstrap_servers: str,
    follow: Literal[True],
    max_batch_offsets: int | None = _BATCH_OFFSETS,
    batch_interval_s: float = 1.0,
    auto_offset_reset: Literal["earliest", "latest"] = "earliest",
    fail_on_data_loss: bool = True,
    revoke_wait_ms: int = 10_000,
    settle_timeout_s: float = 60.0,
    **options: Any,
) -> GroupFollow: ...


def read_group(
    topics: str | Sequence[str],
    group_id: str,
    *,
    bootstrap_servers: str,
    follow: bool = False,
    max_batch_offsets: int | None = _BATCH_OFFSETS,
    batch_interval_s: float = 1.0,
    auto_offset_reset: Literal["earliest", "latest"] = "earliest",
    fail_on_data_loss: bool = True,
    revoke_wait_ms: int = 10_000,
    settle_timeout_s: float = 60.0,
    **options: Any,
) -> GroupRead | GroupFollow:
    """Read from a group's committed offsets to the present end with Ray Data, and commit on success. See the module.

    With `follow` it reads on for ever, in datasets of about `max_batch_offsets`, which begin `batch_interval_s` after
    one another at the earliest. Without, these two have no effect.

    Where nothing is committed, `auto_offset_reset` says where to begin. When another member joins, a partition that
    it should get waits for the block's end, or the dataset's, up to `revoke_wait_ms`. `options` are settings of
    actors.client.Consumer; a password goes by the path of a file or the name of a variable (sasl_password_file,
    sasl_password_env). Raises ConfigurationError; entering the block raises UnknownTopicOrPartitionError,
    DataLossError, and KafkaTimeoutError after `settle_timeout_s` without an assignment.
    """
    names = [topics] if isinstance(topics, str) else list(topics)
    if not names:
        raise ConfigurationError("topics=[]: read_group needs at least one topic")
    if auto_offset_reset not in ("earliest", "latest"):
        raise ConfigurationError(f"auto_offset_reset={auto_offset_reset!r}: must be earliest or latest")
    if max_batch_offsets is not None and max_batch_offsets < 1:
        raise ConfigurationError(f"max_batch_offsets={max_batch_offsets!r}: must be at least 1, or None")
    if batch_interval_s < 0:
        raise ConfigurationError(f"batch_interval_s={batch_interval_s!r}: must not be negative")
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
    reading = Reading(bootstrap_servers, fail_on_data_loss, plain)
    plan = ReadPlan(spec, reading, auto_offset_reset, settle_timeout_s, quiet=follow)
    if follow:
        return GroupFollow(plan, max_batch_offsets, batch_interval_s, GroupReader)
    return GroupRead(plan)
