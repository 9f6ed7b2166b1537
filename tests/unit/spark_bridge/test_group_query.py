"""The turns of a query, with members, a broker and a Spark that are made up: its reads, commits and waits."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import spark_bridge
from actors.client import TopicPartition
from actors.client.errors import ConfigurationError, DataLossError, KafkaTimeoutError
from actors.client.records import OffsetRange
from actors.members.ranges.group import Held, RangeMemberSpec
from spark_bridge import executors
from spark_bridge import query as query_module
from spark_bridge.batch import Batch
from spark_bridge.members import Members, Share
from spark_bridge.query import PATIENCE_SECONDS, GroupQuery, Plan
from spark_bridge.source import Reading
from spark_bridge.spark_config import SessionError
from spark_bridge.stream import GroupStream
from tests.support.pyspark_there import NEEDS_PYSPARK

pytestmark = NEEDS_PYSPARK  # a query's thread is one of PySpark's

Key = tuple[str, int]


class Group:
    """Stands for the members and for the broker: committed offsets, ends of logs, and partitions that are missing."""

    def __init__(self, ends: dict[int, int]) -> None:
        self.ends = {("t", partition): end for partition, end in ends.items()}
        self.committed = dict.fromkeys(self.ends, 0)
        self.missing: set[Key] = set()
        self.stable = self.ends  # the last stable offsets
        self.deleted: set[str] = set()
        self.ids: dict[str, bytes] = {}
        self.settles = 0
        self.hanging: threading.Event | None = None
        self.stopped = threading.Event()

    def await_settled(self, partitions: Any, give_up: Callable[[], bool], timeout_s: float) -> None:
        self.settles += 1
        self.missing.clear()

    def begin(self) -> dict[Key, Share]:
        return {
            key: Share(0, Held(*key, at, "token", self.ids.get(key[0], b"")))
            for key, at in self.committed.items()
            if key not in self.missing
        }

    def finish(self, until: dict[Key, int], shares: dict[Key, Share]) -> set[Key]:
        if self.hanging is not None and until:
            self.hanging.set()
            assert self.stopped.wait(20)
            raise RuntimeError("this member has been stopped")
        counted = set(until) - self.missing
        self.committed.update({key: until[key] for key in counted})
        return counted

    def stop(self) -> None:
        self.stopped.set()

    def end_offsets(self, asked: list[TopicPartition], isolation_level: int | None = None) -> dict[TopicPartition, int]:
        return {tp: (self.stable if isolation_level is None else self.ends)[tp] for tp in asked}

    def beginning_offsets(self, asked: list[TopicPartition]) -> dict[TopicPartition, int]:
        if any(tp.topic in self.deleted for tp in asked):
            raise KafkaTimeoutError("not known within 60000 ms: UNKNOWN_TOPIC_OR_PARTITION")
        return dict.fromkeys(asked, 0)

    def topic_ids(self, topics: set[str]) -> dict[str, bytes]:
        return {topic: self.ids[topic] for topic in topics if topic in self.ids}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return None if topic in self.deleted else {0}

    def wakeup(self) -> None: ...

    def close(self) -> None: ...


class Jvm:
    """The JVM's context as PySpark sees it, until it is stopped."""

    def sc(self) -> Jvm:
        return self

    def isStopped(self) -> bool:
        return False


class Context:
    """A Spark's context, which can cancel nothing any more."""

    def __init__(self) -> None:
        self._jsc: Jvm | None = Jvm()

    def setJobGroup(self, *args: Any, **kwargs: Any) -> None: ...

    def cancelJobGroup(self, group: str) -> None:
        raise AttributeError("'NoneType' object has no attribute 'sc'")


class Spark:
    def __init__(self) -> None:
        self.sparkContext = self._sc = Context()

    def stop(self) -> None:
        self._sc._jsc = None


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., GroupQuery]]:
    monkeypatch.setattr(query_module, "ranges_dataframe", lambda spark, ranges, reading: ranges)
    queries: list[GroupQuery] = []

    def start(
        group: Any,
        function: Callable[..., Any],
        interval_s: float | None = None,
        fail: bool = True,
        scaling: Any = None,
        spark: Spark | None = None,
        patience_s: float = PATIENCE_SECONDS,
        **plan: Any,
    ) -> GroupQuery:
        made = Plan("g", function, Reading("127.0.0.1:1", fail_on_data_loss=fail), interval_s, **plan)
        parts: Any = (spark or Spark(), made, group, group, "run", scaling)
        queries.append(GroupQuery(*parts, patience_s=patience_s))
        return queries[-1]

    yield start
    for query in queries:
        query.stop()


def test_what_is_there_is_read_to_the_end_though_a_member_is_replaced_meanwhile(
    start: Callable[..., GroupQuery],
) -> None:
    group = Group({0: 10, 1: 10})

    def lose_a_member(df: Any, batch: Batch) -> None:
        if batch == 0:
            group.missing.add(("t", 1))

    assert start(group, lose_a_member).await_termination(20)
    assert group.committed == group.ends


def test_enough_records_wait_though_a_batch_may_take_only_fewer(start: Callable[..., GroupQuery]) -> None:
    """Three partitions' shares of a hundred are 33 each, which are fewer than the hundred asked for."""
    group, seen = Group({0: 1000, 1: 1000, 2: 1000}), threading.Event()
    limits = {"max_offsets_per_trigger": 100, "min_offsets_per_trigger": 100}
    start(group, lambda df, batch: seen.set(), 0.0, **limits)
    assert seen.wait(20)


@pytest.mark.parametrize("fail", [True, False])
def test_a_group_beyond_the_last_stable_offset_waits_for_the_transaction(
    start: Callable[..., GroupQuery], fail: bool
) -> None:
    group = Group({0: 10})
    group.committed["t", 0], group.stable = 8, {("t", 0): 5}
    query = start(group, lambda df, batch: None, fail=fail)
    assert query.await_termination(20)
    assert (query.last_progress, group.committed) == (None, {("t", 0): 8})
    group.stable = group.ends
    assert start(group, lambda df, batch: None, fail=fail).await_termination(20)
    assert group.committed == {("t", 0): 10}


def test_a_position_beyond_the_log_is_a_loss(start: Callable[..., GroupQuery]) -> None:
    group = Group({0: 10})
    group.committed["t", 0] = 11
    with pytest.raises(DataLossError, match="goes on at offset 11, the log has 0 to 10"):
        start(group, lambda df, batch: None).await_termination(20)


def test_a_topic_that_was_deleted_is_named_or_left_out(start: Callable[..., GroupQuery]) -> None:
    group = Group({0: 10})
    group.ends["gone", 0], group.committed["gone", 0] = 10, 0
    group.deleted.add("gone")
    with pytest.raises(DataLossError, match="topics gone do not exist any more; set failOnDataLoss to false"):
        start(group, lambda df, batch: None).await_termination(20)
    assert start(group, lambda df, batch: None, fail=False).await_termination(20)
    assert group.committed == {("t", 0): 10, ("gone", 0): 0}
    again = threading.Event()
    start(group, lambda ranges, batch: again.set() if ranges[0].topic == "gone" else None, 0.0, fail=False)
    group.deleted.clear()
    assert again.wait(20), "it was made anew"


@pytest.mark.parametrize("fail", [True, False])
def test_a_topic_that_was_deleted_and_created_again_was_read_from_where_the_old_one_ended(
    start: Callable[..., GroupQuery], fail: bool
) -> None:
    group, seen = Group({0: 10}), threading.Event()
    group.ids["t"] = b"first"

    def replace(df: Any, batch: Batch) -> None:
        if batch == 0:
            group.ends["t", 0] = 25
            group.committed["t", 0] = 0
            group.ids["t"] = b"second"
        elif df[0].topic_id == b"second":
            seen.set()

    query = start(group, replace, 0.0, fail=fail)
    if fail:
        with pytest.raises(DataLossError, match=r"deleted and created again: t.*set failOnDataLoss to false"):
            query.await_termination(20)
    else:
        assert seen.wait(20)


class Scaling:
    """Hears of the lag before each batch."""

    wanted = 3

    def __init__(self) -> None:
        self.looks: list[tuple[dict[Key, int], int]] = []

    def look(self, lags: dict[Key, int], records: int) -> None:
        self.looks.append((lags, records))

    def progress(self) -> dict[str, Any]:
        return {"wanted": self.wanted}


def test_how_many_executors_are_wanted_is_decided_by_what_waits_before_each_batch(
    start: Callable[..., GroupQuery],
) -> None:
    scaling = Scaling()
    query = start(Group({0: 10, 1: 0}), lambda df, batch: None, scaling=scaling, max_offsets_per_trigger=8)
    assert query.await_termination(20)
    found = {key: [lags["t", key] for lags, _ in scaling.looks] for key in (0, 1)}
    assert found[0][:3] == [10, 2, 0]
    assert set(found[1]) == {0}
    assert [records for _, records in scaling.looks][:3] == [0, 8, 10]
    assert query.wanted_executors == 3
    assert [progress["executors"] for progress in query.recent_progress] == [{"wanted": 3}] * 2


def test_without_a_rule_nothing_is_said_of_executors(start: Callable[..., GroupQuery]) -> None:
    query = start(Group({0: 10}), lambda df, batch: None)
    assert query.await_termination(20)
    assert query.wanted_executors is None
    assert [progress.get("executors") for progress in query.recent_progress] == [None]


def test_a_query_can_be_stopped_after_its_session(start: Callable[..., GroupQuery]) -> None:
    query = start(Group({0: 0}), lambda df, batch: None, 0.0)
    query.stop()
    assert not query.is_active


def test_a_stop_does_not_wait_for_members_that_wait_for_others(
    start: Callable[..., GroupQuery],
) -> None:
    group = Group({0: 10})
    group.hanging = threading.Event()
    query = start(group, lambda df, batch: None, 0.0, patience_s=0.0)
    assert group.hanging.wait(20)
    stopper = threading.Thread(target=query.stop)
    stopper.start()
    stopper.join(15)
    assert not stopper.is_alive()
    assert query.exception() is None


def test_a_batch_that_a_udf_mentions_travels_as_its_number() -> None:
    batch = Batch(3, (OffsetRange("t", 0, 0, 8),), threading.Event().is_set)  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(batch)) == 3


# --- the members ---


class Host:
    """A member that is only described."""

    made: list[RangeMemberSpec]

    def __init__(self, spec: RangeMemberSpec, node_id: str | None = None) -> None:
        Host.made.append(spec)


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """The group.instance.ids of two members."""
    monkeypatch.setattr(Host, "made", [], raising=False)

    def named(group_id: str, nodes: list[str | None] | None = None, **options: Any) -> list[Any]:
        spec = RangeMemberSpec(group_id, "127.0.0.1:1", ("t",), options=options)
        Members(spec, 2, nodes, f"{group_id}-1234", Host)  # type: ignore[arg-type]
        return [spec.options.get("group_instance_id") for spec in Host.made]

    return named


def test_a_group_may_have_a_name_that_no_instance_may_have(named: Callable[..., list[Any]]) -> None:
    assert named("billing: Zürich", [None]) == ["billing__Z_rich-1234-0", "billing__Z_rich-1234-1"]


def test_members_with_one_client_id_are_not_one_instance(named: Callable[..., list[Any]]) -> None:
    assert named("g", [None], client_id="mine") == ["g-1234-0", "g-1234-1"]


@pytest.mark.parametrize("nodes", [None, [None]])
def test_a_given_instance_id_is_not_shared_by_the_members(named: Callable[..., list[Any]], nodes: Any) -> None:
    assert named("g", nodes, group_instance_id="mine") == ["mine-0", "mine-1"]


def test_settings_that_no_member_can_have_are_refused_before_one_is_made(named: Callable[..., list[Any]]) -> None:
    with pytest.raises(ConfigurationError, match="heartbeat_interval_ms=7000 must be below session_timeout_ms=6000"):
        named("g", [None], heartbeat_interval_ms=7000, session_timeout_ms=6000)
    assert Host.made == []


@pytest.mark.parametrize("lazy", [lambda df, batch: (each for each in df), lambda df, batch: map(str, df)])
def test_a_batch_whose_function_returned_a_generator_was_committed(
    start: Callable[..., GroupQuery], lazy: Callable[..., Any]
) -> None:
    group = Group({0: 10})
    query = start(group, lazy)
    with pytest.raises(TypeError, match=r"the batch function has returned a (generator|map) instead of doing its work"):
        query.await_termination(20)
    assert group.committed == {("t", 0): 0}


# --- a session that ends ---


def test_a_query_that_waits_for_records_ends_with_its_session(start: Callable[..., GroupQuery]) -> None:
    """It went on for as long as no record came, and by its calls of Ray's started another Ray."""
    spark = Spark()
    query = start(Group({0: 0}), lambda df, batch: None, 0.0, spark=spark)
    spark.stop()
    with pytest.raises(SessionError, match=r"^the Spark session has ended before its query"):
        query.await_termination(20)


def test_a_batch_whose_session_ends_says_so(start: Callable[..., GroupQuery], caplog: pytest.LogCaptureFixture) -> None:
    """It said: 'NoneType' object has no attribute 'sc'."""
    spark = Spark()

    def stop_it(df: Any, batch: Batch) -> None:
        spark.stop()
        spark._sc._jsc.sc()  # type: ignore[union-attr]  # as each of PySpark's calls does

    query = start(Group({0: 10}), stop_it, spark=spark)
    with pytest.raises(SessionError, match=r"^the Spark session has ended") as raised:
        query.await_termination(20)
    assert isinstance(raised.value.__cause__, AttributeError)
    assert "NoneType" not in caplog.text


def test_a_functions_own_error_is_told_while_the_session_lives(start: Callable[..., GroupQuery]) -> None:
    def fails(df: Any, batch: Batch) -> None:
        raise AttributeError("mine")

    with pytest.raises(AttributeError, match=r"^mine$"):
        start(Group({0: 10}), fails).await_termination(20)


STOPPED = Spark()
STOPPED.stop()
NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    "use",
    [
        lambda: executors.executor_count(STOPPED),
        lambda: executors.prepare(STOPPED),
        lambda: GroupStream(STOPPED, "t", "g", NOWHERE).foreach_batch(lambda df, batch: None).start(),
        lambda: GroupStream(STOPPED, "t", "g", NOWHERE, members=2).foreach_batch(lambda df, batch: None).start(),
        lambda: spark_bridge.read_topic(STOPPED, "t", NOWHERE),
        lambda: spark_bridge.write_topic(SimpleNamespace(sparkSession=STOPPED), NOWHERE, "t"),
        lambda: spark_bridge.lag(STOPPED, ["g"], NOWHERE),
        lambda: spark_bridge.offsets_history(STOPPED, NOWHERE),
        lambda: spark_bridge.summarise_groups(STOPPED, NOWHERE),
        lambda: spark_bridge.commit_progress(STOPPED, "g", NOWHERE),
        lambda: spark_bridge.OnceFiles("/nowhere").read(STOPPED),
        lambda: spark_bridge.OnceTable("t", "/nowhere").repair(STOPPED),
    ],
)
def test_whatever_is_asked_of_a_session_that_has_ended_says_so(use: Callable[[], Any]) -> None:
    with pytest.raises(SessionError, match=r"^the Spark session has ended: use one that has not been stopped$"):
        use()
