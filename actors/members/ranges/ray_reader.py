"""The member behind `read_group`: it joins the group, fixes what is read next, and commits what was read.

The course of a batch:

    begin(most)            the ranges from where the group is to the present ends, of at most so many offsets
      -> ReadBatch
    dataset(batch)         a Ray Data dataset of them; its tasks say which they read to the end
    unread(batch)          the ranges that were not
    commit(batch, ranges)  commit the ends of these, if nobody else has had their partitions meanwhile

The member and its heartbeats are in this process, and end with it. Tasks that die are run again by Ray.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import ray
from ray.data import Dataset
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.client import Admin, Consumer, TopicPartition
from actors.client.by_default import tell_kept_classic
from actors.client.config import security_settings
from actors.client.errors import UnknownTopicOrPartitionError
from actors.client.records import OffsetRange
from actors.members.brokers_there import check_brokers
from actors.members.ranges.group import Holding, SeenTopics, await_settled, limited, positions_and_ends, topics_begun
from actors.members.ranges.member import RangeMember
from actors.members.ranges.ray_datasource import ReadReceipts, dataset_of
from actors.members.ranges.reads import ReadBatch, ReadPlan
from actors.runtime.logs import about
from actors.runtime.process import code_version
from actors.runtime.ray_session import RayAwayError, session

log = logging.getLogger(__name__)


class GroupReader:
    """The member of one read, as the module says. It has joined when it is made; `leave` has to be called.

    Raises UnknownTopicOrPartitionError, KafkaError, within seconds if no broker answers, and KafkaTimeoutError without
    an assignment in time.
    """

    def __init__(self, plan: ReadPlan) -> None:
        self._plan = plan
        self._batches = 0
        self._seen = SeenTopics()
        check_brokers(plan.spec.bootstrap_servers, plan.spec.options, f"the read of group {plan.spec.group_id!r}")
        tell_kept_classic(plan.spec.options, plan.spec.group_id)
        with contextlib.ExitStack() as made:
            self._client = made.enter_context(self._make_client())
            ids = self._client.topic_ids(plan.spec.topics)
            starts, partitions = self._starts()
            self._member = RangeMember(replace(plan.spec, starts=starts, start_ids=ids))
            made.callback(self._member.stop)
            await_settled(lambda: [self._member.holding()], plan.spec, partitions, plan.settle_timeout_s)
            here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
            receipts = ReadReceipts.options(scheduling_strategy=here)  # type: ignore[attr-defined]
            self._receipts: Any = receipts.remote(code_version())
            made.callback(_kill, self._receipts)
            self._made = made.pop_all()

    def begin(self, most: int | None = None) -> ReadBatch:
        """Begin a batch of what the member holds; without ranges if there is nothing new."""
        holding = self._member.begin()
        ranges = self._fix(holding, most)
        if not ranges:
            self._member.finish({})
        batch = ReadBatch(
            self._batches,
            ranges,
            {(held.topic, held.partition): held.fencing_token for held in holding.partitions},
        )
        self._batches += 1
        return batch

    def dataset(self, batch: ReadBatch) -> Dataset:
        """The dataset of a batch."""
        session().call(_got, self._receipts.begin.remote, batch.number)
        dataset = dataset_of(batch.ranges, self._plan.reading, self._receipts, batch.number)
        if self._plan.quiet:
            dataset.context.enable_progress_bars = dataset.context.print_on_execution_start = False
        return dataset

    def unread(self, batch: ReadBatch) -> list[OffsetRange]:
        """The ranges that were not read to their end, or all while every evaluation had a limit."""
        read: set[OffsetRange] = session().call(_got, self._receipts.read.remote)
        return [wanted for wanted in batch.ranges if wanted not in read]

    def commit(self, batch: ReadBatch, ranges: Iterable[OffsetRange]) -> tuple[TopicPartition, ...]:
        """End the batch and commit the ends of these ranges. Returns the partitions for which that counted."""
        done = {(r.topic, r.partition): (r.until_offset, batch.fencing_tokens[r.topic, r.partition]) for r in ranges}
        committed = tuple(TopicPartition(*tp) for tp in self._member.finish(done))
        if lost := {TopicPartition(*tp) for tp in done} - set(committed):
            log.warning(
                "group %s: taken over by other members, so not committed: %s",
                self._plan.spec.group_id,
                lost,
                extra=about(group=self._plan.spec.group_id),
            )
        return committed

    def leave(self) -> None:
        """Leave the group; nothing more is committed."""
        self._made.close()

    def _make_client(self) -> Consumer:
        reading = self._plan.reading
        return Consumer(**reading.options, bootstrap_servers=reading.bootstrap_servers, allow_auto_create_topics=False)

    def _starts(self) -> tuple[dict[tuple[str, int], int], list[TopicPartition]]:
        """The starts of partitions without a committed offset, and all partitions."""
        spec, secured = self._plan.spec, security_settings(self._plan.reading.options)
        with Admin(bootstrap_servers=spec.bootstrap_servers, **secured) as admin:
            partitions = [tp for topic in spec.topics for tp in _partitions(self._client, topic)]
            known = topics_begun(admin, spec.group_id, partitions)
            fresh = [tp for tp in partitions if tp.topic not in known]
            at_end = self._plan.start == "latest"
            starts = self._client.end_offsets(fresh) if at_end else self._client.beginning_offsets(fresh)
        return {(tp.topic, tp.partition): at for tp, at in starts.items()}, partitions

    def _fix(self, holding: Holding, most: int | None) -> tuple[OffsetRange, ...]:
        if not holding.partitions:
            return ()
        fail = self._plan.reading.fail_on_data_loss
        held = self._seen.look(holding.partitions, fail=fail, setting="fail_on_data_loss")
        froms, ends = positions_and_ends(self._client, self._seen, held, fail=fail, setting="fail_on_data_loss")
        ranges = limited(froms, ends, most, self._seen.ids)
        return tuple(self._seen.still(self._client, ranges, fail=fail, setting="fail_on_data_loss"))


def _partitions(client: Consumer, topic: str) -> Collection[TopicPartition]:
    numbers = client.partitions_for_topic(topic)
    if numbers is None:
        raise UnknownTopicOrPartitionError(f"topics: there is no topic {topic!r}")
    return [TopicPartition(topic, number) for number in sorted(numbers)]


def _got(method: Any, *arguments: Any) -> Any:
    return ray.get(method(*arguments))


def _kill(actor: Any) -> None:
    """End it. It has ended with its Ray if that is away, or was left."""
    with contextlib.suppress(RayAwayError):
        session().call(ray.kill, actor)
