"""`GroupStream`: a Spark job as a consumer group.

    query = (
        GroupStream(spark, topics=["orders"], group_id="billing", bootstrap_servers=servers)
        .foreach_batch(lambda df, batch: df.write.mode("append").parquet("/data/orders"))
        .trigger(processing_time="5 seconds")
        .start()
    )
    query.await_termination()

This module describes a stream and checks it; `query` runs it, `members` has its members of the group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from actors.client import Admin, Consumer, TopicPartition
from actors.client.by_default import tell_kept_classic
from actors.client.config import consumer_config, security_settings
from actors.client.errors import UnknownTopicOrPartitionError
from actors.client.settings import ConsumerConfig
from actors.members.autoscale import Autoscale
from actors.members.brokers_there import check_brokers
from actors.members.ranges.group import RangeMemberSpec, member_settings, topics_begun
from actors.runtime import functions
from actors.runtime.environment import REAL, Environment, new_uuid
from actors.settings.durations import parse_duration
from spark_bridge.bounds import resolve
from spark_bridge.executor_changes import SessionExecutors
from spark_bridge.executor_scaling import ExecutorScaling, Resize
from spark_bridge.executors import check_session, prepare
from spark_bridge.members import Members, executor_nodes
from spark_bridge.options import OptionError, source_options
from spark_bridge.query import BatchFunction, GroupQuery, Plan
from spark_bridge.source import Reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTLE_S: Final = 60.0


class GroupStream:
    """A stream of micro-batches of topics for a function of yours. Its offsets are those of a consumer group.

    `options` are those of Spark's Kafka source: startingOffsets (for a group without commits; default latest),
    subscribePattern instead of `topics`, maxOffsetsPerTrigger, minPartitions, failOnDataLoss, includeHeaders,
    `kafka.*` for the client (a password by `kafka.sasl.password.file` or `.env`); and `batch.timeout.ms` (how long a
    batch may take before its partitions are given up) and `revoke.wait.ms` (how long a partition that is taken away
    waits for its batch). `members` is how many members the job has; by default one for each executor. Raises
    OptionError for what cannot be.
    """

    def __init__(
        self,
        spark: SparkSession,
        topics: str | Sequence[str] = (),
        group_id: str | None = None,
        bootstrap_servers: str | None = None,
        options: Mapping[str, Any] | None = None,
        members: int | None = None,
        environment: Environment = REAL,
    ) -> None:
        self._spark, self._environment = spark, environment
        self._options = read = source_options(options, streaming=True)
        self._group_id = _given("group_id", group_id, read.group_id)
        self._servers = _given("bootstrap_servers", bootstrap_servers, read.bootstrap_servers)
        self._topics = ((topics,) if isinstance(topics, str) else tuple(topics)) or read.subscribe
        if read.assign:
            raise OptionError("assign: the group gives out the partitions; subscribe to the topics")
        if bool(self._topics) == bool(read.subscribe_pattern):
            raise OptionError("topics: give either topics or the option subscribePattern")
        if members is not None and members < 1:
            raise OptionError(f"members={members}: must be at least 1")
        self._count = members
        self._function: BatchFunction | None = None
        self._interval_s: float | None = 0.0
        self._name: str | None = None
        self._policy: Autoscale | None = None
        self._resize: Resize | None = None

    def foreach_batch(self, function: BatchFunction) -> Self:
        """Have `function(df, batch)` called with each micro-batch. When it has returned, the offsets are committed.

        `df` has the columns of Spark's Kafka source. `batch` is a number that knows its `ranges`. If the function
        raises, the query ends with that error, and the batch comes again when the query is started again.
        """
        if why := functions.problem(function, ("df", "batch"), awaited=False):
            raise OptionError(f"foreach_batch={function!r}: must be a function of (df, batch). It {why}")
        self._function = function
        return self

    def trigger(self, *, available_now: bool | None = None, processing_time: str | None = None) -> Self:
        """Say when batches are made; by default as fast as possible.

        With `processing_time` ("5 seconds") there is one in each such time. With `available_now=True` the query ends
        when all that was there at its start has been read.
        """
        if (available_now is None) == (processing_time is None):
            raise OptionError("trigger: give either available_now=True or processing_time")
        if available_now is not None and not available_now:
            raise OptionError("available_now=False: must be True, or left out")
        self._interval_s = None if processing_time is None else _seconds(processing_time)
        return self

    def autoscale(self, policy: Autoscale, resize: Resize | None = None) -> Self:
        """Have the number of the session's executors follow the load, as the size of a ConsumerPool does.

        Sizes of the policy are executors. Spark is asked for more or fewer of them between two batches, or
        `resize(executors, reason)` is called instead. `query.wanted_executors` and the progress say how many are
        wanted, also where Spark cannot be asked: docs/spark.md says where. `drain_timeout_s` has no meaning here.
        """
        if policy.min_size < 1:
            raise OptionError("autoscale: min_size must be at least 1, because a query runs on executors")
        if resize is not None and (why := functions.problem(resize, ("executors", "reason"), awaited=False)):
            raise OptionError(f"resize={resize!r}: must be a function of (executors, reason). It {why}")
        self._policy, self._resize = policy, resize
        return self

    def query_name(self, name: str) -> Self:
        """Give the query a name."""
        self._name = name
        return self

    def start(self) -> GroupQuery:
        """Join the group and begin.

        Raises OptionError, BoundError, SessionError, UnknownTopicOrPartitionError for a topic that does not exist, and
        KafkaError within seconds if no broker answers.
        """
        if self._function is None:
            raise OptionError("foreach_batch: a stream needs a function before it can start")
        check_session(self._spark)
        read, run_id = self._options, str(new_uuid(self._environment.chance))
        check_brokers(self._servers, read.client, f"the stream of group {self._group_id!r}")
        tell_kept_classic(read.client, self._group_id)
        count = self._count or prepare(self._spark)
        client = Consumer(bootstrap_servers=self._servers, allow_auto_create_topics=False, **read.reader_settings)
        try:
            topics = list(self._present_topics(client))
            ids = client.topic_ids(topics)
            partitions = [tp for topic in topics for tp in _partitions(client, topic)]
            spec = RangeMemberSpec(
                group_id=self._group_id,
                bootstrap_servers=self._servers,
                topics=self._topics,
                pattern=read.subscribe_pattern,
                starts=self._starts(partitions),
                start_ids=ids,
                batch_timeout_ms=read.batch_timeout_ms,
                revoke_wait_ms=read.revoke_wait_ms,
                options=read.client,
            )
            prefix = f"{self._group_id[:200]}-{run_id[:8]}"
            scaling = self._scaling()
            members = Members(spec, count, executor_nodes(self._spark), prefix)
        except BaseException:  # Ctrl-C, too: the client's thread would stay
            client.close()
            raise
        plan = self._plan(self._function, partitions, consumer_config(member_settings(spec)))
        return GroupQuery(self._spark, plan, members, client, run_id, scaling, self._environment.clock)

    def _scaling(self) -> ExecutorScaling | None:
        if self._policy is None:
            return None
        executors = SessionExecutors(self._spark)
        least, monotonic = self._options.min_partitions, self._environment.clock.monotonic
        return ExecutorScaling(self._policy, executors, self._resize, least, monotonic)

    def _plan(self, function: BatchFunction, partitions: Sequence[TopicPartition], member: ConsumerConfig) -> Plan:
        read = self._options
        return Plan(
            group_id=self._group_id,
            function=function,
            reading=Reading(
                self._servers,
                headers=read.include_headers,
                fail_on_data_loss=read.fail_on_data_loss,
                poll_timeout_ms=read.poll_timeout_ms,
                consumer_options=read.reader_settings,
            ),
            interval_s=self._interval_s,
            partitions=tuple(partitions),
            max_offsets_per_trigger=read.max_offsets_per_trigger,
            min_offsets_per_trigger=read.min_offsets_per_trigger,
            max_trigger_delay_s=read.max_trigger_delay_ms / 1000,
            min_partitions=read.min_partitions,
            # As long as dead members are waited for, or the others' batches; no setting of theirs is known here.
            settle_timeout_s=_SETTLE_S + max(member.session_timeout_ms, read.revoke_wait_ms) / 1000,
            name=self._name,
        )

    def _starts(self, partitions: list[TopicPartition]) -> dict[tuple[str, int], int]:
        """The starts of partitions without a committed offset."""
        with Admin(bootstrap_servers=self._servers, **security_settings(self._options.client)) as admin:
            known = topics_begun(admin, self._group_id, partitions)
            if known.issuperset(tp.topic for tp in partitions):
                return {}
            found = resolve(
                admin,
                self._options.starting,
                [(tp.topic, tp.partition) for tp in partitions],
                committed=self._options.read_committed,
            )
        return {tp: at for tp, at in found.items() if tp[0] not in known}

    def _present_topics(self, client: Consumer) -> Iterable[str]:
        if self._options.subscribe_pattern is None:
            return self._topics
        return sorted(filter(re.compile(self._options.subscribe_pattern).fullmatch, client.topics()))


def _given(name: str, argument: str | None, option: str | None) -> str:
    if argument and option and argument != option:
        raise OptionError(f"{name}={argument!r}, but the options have {option!r}: give it once")
    if not (argument or option):
        raise OptionError(f"{name} is missing: give it as an argument or as an option")
    return argument or option or ""


def _partitions(client: Consumer, topic: str) -> list[TopicPartition]:
    numbers = client.partitions_for_topic(topic)
    if numbers is None:
        raise UnknownTopicOrPartitionError(f"topics: there is no topic {topic!r}")
    return [TopicPartition(topic, number) for number in sorted(numbers)]


def _seconds(interval: str) -> float:
    """Spark's "5 seconds", "500 milliseconds", "1 minute"; 0 is as fast as possible."""
    try:
        return parse_duration(str(interval).strip().lower().removeprefix("interval ").lstrip()).total_seconds()
    except ValueError:
        raise OptionError(
            f'processing_time={interval!r}: must be a time such as "5 seconds" or "500 milliseconds"'
        ) from None
