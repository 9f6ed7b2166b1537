"""The controller's rules: topics, partitions, settings, elections, producer ids."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from actors.controller.decisions import topics
from actors.controller.decisions.topics import MAX_NEW_PARTITIONS, broker_lost, broker_registered
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from placement.metadata import (
    NO_LEADER,
    OFFSETS_TOPIC,
    BrokerInfo,
    ClusterMetadata,
    PartitionInfo,
    TopicInfo,
    broker_record,
    topic_record,
)
from tests.support import calls


class Cluster:
    """Metadata, and the operations on it applied as the controller does."""

    def __init__(self, brokers: int = 3, racks: tuple[str, ...] = (), **settings: str) -> None:
        self.config = BrokerConfig.from_mapping({name.replace("_", "."): value for name, value in settings.items()})
        self.metadata = ClusterMetadata()
        self._ids = itertools.count()
        for i in range(brokers):
            rack = racks[i] if racks else None
            self.metadata.apply(broker_record(BrokerInfo(i, f"host{i}", 9092, rack, 0)))

    def do(self, operation: str, **arguments: Any) -> Any:
        asked = calls.operation(operation, **arguments)
        result, records = topics.operate(self.metadata, self.config, asked, lambda: next(self._ids).to_bytes(16, "big"))
        for record in records:
            self.metadata.apply(record)
        # What the controller logs and sends must survive the journey.
        assert ClusterMetadata.from_wire(self.metadata.to_wire()) == self.metadata
        return calls.plain(result)

    def create(self, *topics: dict[str, Any], **more: Any) -> list[int]:
        asked = [{"partitions": -1, "factor": -1, "assignments": None, "configs": {}, **topic} for topic in topics]
        self.results: list[dict[str, Any]] = self.do("create_topics", topics=asked, **more)
        return [result["error_code"] for result in self.results]

    def alter(self, name: str, *operations: list[Any], kind: int = 2, replace: bool = False, **more: Any) -> int:
        resource = {"type": kind, "name": name, "replace": replace, "operations": list(operations)}
        (self.result,) = self.do("alter_configs", resources=[resource], **more)
        return int(self.result["error_code"])

    def partitions(self, topic: str) -> tuple[PartitionInfo, ...]:
        return self.metadata.topics[topic].partitions

    def register(self, broker_id: int, epoch: int) -> None:
        self.metadata.apply(broker_record(BrokerInfo(broker_id, f"host{broker_id}", 9092, None, epoch)))
        for record in broker_registered(self.metadata, broker_id):
            self.metadata.apply(record)

    def lose(self, broker_id: int) -> None:
        for record in broker_lost(self.metadata, broker_id):
            self.metadata.apply(record)


# --- create_topics ---


def test_a_new_topic_is_spread_over_the_brokers_and_its_first_replica_leads() -> None:
    cluster = Cluster()
    assert cluster.create({"name": "t", "partitions": 6, "factor": 2}) == [0]
    partitions = cluster.partitions("t")
    assert sorted(p.leader for p in partitions) == [0, 0, 1, 1, 2, 2]
    assert all(p.replicas[0] == p.leader and len(set(p.replicas)) == 2 for p in partitions)
    assert all((p.isr, p.leader_epoch) == (p.replicas, 0) for p in partitions)


def test_topics_of_one_partition_do_not_all_go_to_one_broker() -> None:
    cluster = Cluster()
    cluster.create(*[{"name": f"t{i}"} for i in range(6)])
    assert sorted(cluster.partitions(f"t{i}")[0].leader for i in range(6)) == [0, 0, 1, 1, 2, 2]


def test_replicas_are_spread_over_racks() -> None:
    cluster = Cluster(brokers=4, racks=("a", "a", "b", "b"))
    cluster.create({"name": "t", "partitions": 8, "factor": 2})
    assert all(len({"aabb"[r] for r in p.replicas}) == 2 for p in cluster.partitions("t"))


def test_defaults_are_the_brokers() -> None:
    cluster = Cluster(num_partitions="4", default_replication_factor="3")
    cluster.create({"name": "t"})
    assert [len(p.replicas) for p in cluster.partitions("t")] == [3] * 4


def test_a_result_says_what_was_made() -> None:
    cluster = Cluster()
    cluster.create({"name": "t", "partitions": 2, "factor": 3, "configs": {"retention.ms": "1", "flush.ms": None}})
    topic = cluster.metadata.topics["t"]
    assert cluster.results == [
        {"name": "t", "error_code": 0, "error_message": None, "topic_id": topic.id, "partitions": 2, "factor": 3}
    ]
    assert topic.configs == {"retention.ms": "1"}


def test_topic_ids_are_never_zero_and_never_reused() -> None:
    cluster = Cluster()
    cluster.metadata.apply(topic_record(TopicInfo("old", (1).to_bytes(16, "big"), (PartitionInfo(0, 0, (0,), (0,)),))))
    cluster.create({"name": "t"}, {"name": "u"})
    assert [result["topic_id"][-1] for result in cluster.results] == [2, 3]


REFUSED = [
    ({"name": ""}, 17, "empty"),
    ({"name": "."}, 17, "'.'"),
    ({"name": "a b"}, 17, "'a b'"),
    ({"name": "x" * 250}, 17, "249"),
    ({"name": "old.topic"}, 36, "'old.topic'"),
    ({"name": "old_topic"}, 17, "'old.topic'"),
    ({"name": "t", "partitions": 0}, 37, "0"),
    ({"name": "t", "partitions": -2}, 37, "-2"),
    ({"name": "t", "partitions": MAX_NEW_PARTITIONS + 1}, 44, str(MAX_NEW_PARTITIONS)),
    ({"name": "t", "factor": 0}, 38, "0"),
    ({"name": "t", "factor": 4}, 38, "4 is larger than the 3"),
    ({"name": "t", "configs": {"no.such": "1"}}, 40, "no.such"),
    ({"name": "t", "configs": {"retention.ms": "soon"}}, 40, "'soon' for retention.ms"),
    ({"name": "t", "configs": {"cleanup.policy": "shred"}}, 40, "cleanup.policy"),
    ({"name": OFFSETS_TOPIC, "configs": {"cleanup.policy": "delete"}}, 40, "compact"),
    ({"name": "t", "assignments": [[0], [1]], "partitions": 2}, 42, "-1"),
    ({"name": "t", "assignments": []}, 39, "no partition"),
    ({"name": "t", "assignments": [[]]}, 39, "empty"),
    ({"name": "t", "assignments": [[0, 0]]}, 39, "twice"),
    ({"name": "t", "assignments": [[0, 1], [1]]}, 39, "2 replica"),
    ({"name": "t", "assignments": [[7]]}, 39, "unknown broker 7"),
]


@pytest.mark.parametrize(("topic", "code", "text"), REFUSED)
def test_a_refused_topic_is_told_why(topic: dict[str, Any], code: int, text: str) -> None:
    cluster = Cluster()
    cluster.create({"name": "old.topic"})
    version = cluster.metadata.version
    assert cluster.create(topic) == [code]
    assert text in cluster.results[0]["error_message"]
    assert cluster.metadata.version == version


def test_topics_of_one_call_are_judged_together() -> None:
    cluster = Cluster()
    assert cluster.create({"name": "a.b"}, {"name": "a_b"}, {"name": "x"}, {"name": "x"}) == [0, 17, 42, 42]
    assert set(cluster.metadata.topics) == {"a.b"}


def test_one_call_makes_a_bounded_number_of_partitions() -> None:
    cluster = Cluster()
    half = MAX_NEW_PARTITIONS // 2
    codes = cluster.create(*[{"name": name, "partitions": half} for name in "abc"], validate_only=True)
    assert codes == [0, 0, ErrorCode.POLICY_VIOLATION]


def test_replicas_go_where_the_caller_wants_them_and_a_living_one_leads() -> None:
    cluster = Cluster()
    cluster.lose(1)
    assert cluster.create({"name": "t", "assignments": [[1, 2], [0, 1]]}) == [0]
    assert [(p.leader, p.replicas, p.isr) for p in cluster.partitions("t")] == [(2, (1, 2), (2,)), (0, (0, 1), (0,))]
    assert cluster.create({"name": "u", "assignments": [[1]]}) == [39]


def test_only_living_brokers_get_partitions() -> None:
    cluster = Cluster()
    cluster.lose(2)
    cluster.create({"name": "t", "partitions": 4, "factor": 2})
    assert {r for p in cluster.partitions("t") for r in p.replicas} == {0, 1}
    assert cluster.create({"name": "u", "factor": 3}) == [38]


def test_validation_alone_changes_nothing() -> None:
    cluster = Cluster()
    assert cluster.create({"name": "t", "partitions": 5}, validate_only=True) == [0]
    assert (cluster.results[0]["partitions"], cluster.metadata.topics) == (5, {})


# --- the offsets topic ---


@pytest.mark.conformance("A-08")
def test_the_offsets_topic_has_kafkas_defaults_and_needs_two_replicas_for_a_commit() -> None:
    cluster = Cluster()
    assert cluster.do("create_offsets_topic") == {"error_code": 0, "error_message": None}
    topic = cluster.metadata.topics[OFFSETS_TOPIC]
    assert len(topic.partitions) == 50
    assert {len(p.replicas) for p in topic.partitions} == {3}
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
        "min.insync.replicas": "2",
    }


@pytest.mark.conformance("A-07")
def test_creating_the_offsets_topic_twice_is_no_error_and_one_topic() -> None:
    cluster = Cluster()
    cluster.do("create_offsets_topic")
    before, version = cluster.metadata.topics[OFFSETS_TOPIC], cluster.metadata.version
    assert cluster.do("create_offsets_topic") == {"error_code": 0, "error_message": None}
    assert (cluster.metadata.topics[OFFSETS_TOPIC], cluster.metadata.version) == (before, version)


@pytest.mark.conformance("A-09")
def test_the_offsets_topic_waits_for_enough_brokers() -> None:
    cluster = Cluster(brokers=2)
    result = cluster.do("create_offsets_topic")
    assert result["error_code"] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "offsets.topic.replication.factor" in result["error_message"]
    assert cluster.metadata.topics == {}
    cluster.register(2, 0)
    assert cluster.do("create_offsets_topic")["error_code"] == 0


@pytest.mark.conformance("A-08")
def test_the_offsets_topic_follows_the_settings() -> None:
    cluster = Cluster(
        brokers=1,
        offsets_topic_num_partitions="7",
        offsets_topic_replication_factor="1",
        offsets_topic_segment_bytes="1000",
    )
    cluster.do("create_offsets_topic")
    topic = cluster.metadata.topics[OFFSETS_TOPIC]
    assert (len(topic.partitions), topic.configs["segment.bytes"]) == (7, "1000")


def test_an_operator_may_create_the_offsets_topic_beforehand() -> None:
    cluster = Cluster()
    assert cluster.create({"name": OFFSETS_TOPIC, "partitions": 3, "factor": 1}) == [0]
    assert cluster.do("create_offsets_topic")["error_code"] == 0
    topic = cluster.metadata.topics[OFFSETS_TOPIC]
    assert (len(topic.partitions), topic.configs["cleanup.policy"]) == (3, "compact")


def test_the_offsets_topic_is_neither_deleted_nor_grown() -> None:
    cluster = Cluster()
    cluster.do("create_offsets_topic")
    (deleted,) = cluster.do("delete_topics", topics=[{"name": OFFSETS_TOPIC, "topic_id": None}])
    (grown,) = cluster.do("create_partitions", topics=[{"name": OFFSETS_TOPIC, "count": 60, "assignments": None}])
    assert (deleted["error_code"], grown["error_code"]) == (42, 42)
    assert cluster.alter(OFFSETS_TOPIC, ["cleanup.policy", 0, "delete"]) == 40
    assert cluster.alter(OFFSETS_TOPIC, ["segment.bytes", 0, "5000"]) == 0


# --- delete_topics ---


def test_topics_are_deleted_by_name_or_id() -> None:
    cluster = Cluster()
    cluster.create({"name": "a"}, {"name": "b"})
    ids = {name: topic.id for name, topic in cluster.metadata.topics.items()}
    results = cluster.do(
        "delete_topics", topics=[{"name": "a", "topic_id": None}, {"name": None, "topic_id": ids["b"]}]
    )
    assert [(r["name"], r["topic_id"], r["error_code"]) for r in results] == [("a", ids["a"], 0), ("b", ids["b"], 0)]
    assert (cluster.metadata.topics, cluster.metadata.names) == ({}, {})


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"name": "u", "topic_id": None}, 3),
        ({"name": None, "topic_id": b"?" * 16}, 100),
        ({"name": None, "topic_id": None}, 42),
        ({"name": None, "topic_id": bytes(16)}, 42),
        ({"name": "t", "topic_id": b"?" * 16}, 42),
    ],
)
def test_what_cannot_be_deleted(asked: dict[str, Any], code: int) -> None:
    cluster = Cluster()
    cluster.create({"name": "t"})
    (result,) = cluster.do("delete_topics", topics=[asked])
    assert (result["error_code"], bool(result["error_message"])) == (code, True)
    assert "t" in cluster.metadata.topics


def test_a_topic_is_deleted_once_though_named_twice() -> None:
    cluster = Cluster()
    cluster.create({"name": "t"})
    topic_id = cluster.metadata.topics["t"].id
    results = cluster.do("delete_topics", topics=[{"name": "t"}, {"topic_id": topic_id}])
    assert [result["error_code"] for result in results] == [0, 42]


# --- create_partitions ---


def grow(cluster: Cluster, count: int, assignments: Any = None, **more: Any) -> dict[str, Any]:
    asked = [{"name": "t", "count": count, "assignments": assignments}]
    (result,) = cluster.do("create_partitions", topics=asked, **more)
    return dict(result)


def test_partitions_are_added_behind_those_there_are() -> None:
    cluster = Cluster()
    cluster.create({"name": "t", "partitions": 2, "factor": 2})
    before = cluster.partitions("t")
    assert grow(cluster, 6)["error_code"] == 0
    after = cluster.partitions("t")
    assert (after[:2], len(after)) == (before, 6)
    assert all(len(p.replicas) == 2 and p.isr == p.replicas for p in after)
    assert sorted(p.leader for p in after) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (2, None, 37),
        (1, None, 37),
        (MAX_NEW_PARTITIONS + 3, None, 44),
        (4, [[0, 1]], 39),
        (3, [[0]], 39),
        (3, [[0, 9]], 39),
        (3, [[1, 0]], 0),
    ],
)
def test_partitions_only_grow_and_keep_the_factor(count: int, assignments: Any, code: int) -> None:
    cluster = Cluster()
    cluster.create({"name": "t", "partitions": 2, "factor": 2})
    assert grow(cluster, count, assignments)["error_code"] == code
    assert len(cluster.partitions("t")) == (count if code == 0 else 2)


def test_validation_alone_adds_no_partitions() -> None:
    cluster = Cluster()
    cluster.create({"name": "t"})
    assert grow(cluster, 3, validate_only=True)["error_code"] == 0
    assert len(cluster.partitions("t")) == 1


# --- alter_configs ---


def test_settings_are_set_unset_and_changed_item_by_item() -> None:
    cluster = Cluster()
    cluster.create({"name": "t", "configs": {"retention.ms": "1"}})
    assert cluster.alter("t", ["segment.bytes", 0, "2000"], ["retention.ms", 1, None]) == 0
    assert cluster.alter("t", ["cleanup.policy", 2, "compact"]) == 0
    assert cluster.metadata.topics["t"].configs == {"segment.bytes": "2000", "cleanup.policy": "delete,compact"}
    assert cluster.alter("t", ["cleanup.policy", 3, "delete"]) == 0
    assert cluster.metadata.topics["t"].configs["cleanup.policy"] == "compact"


def test_replacing_forgets_what_is_not_named() -> None:
    cluster = Cluster()
    cluster.create({"name": "t", "configs": {"retention.ms": "1", "segment.bytes": "2000"}})
    assert cluster.alter("t", ["retention.ms", 0, "5"], replace=True) == 0
    assert cluster.metadata.topics["t"].configs == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("operations", "code", "text"),
    [
        ([["no.such", 0, "1"]], 40, "no.such"),
        ([["retention.ms", 0, "soon"]], 40, "'soon'"),
        ([["retention.ms", 0, None]], 42, "retention.ms"),
        ([["retention.ms", 2, "1"]], 40, "no list"),
        ([["retention.ms", 9, "1"]], 42, "9"),
        ([["retention.ms", 0, "1"], ["retention.ms", 1, None]], 42, "more than once"),
        ([["cleanup.policy", 3, "delete"]], 40, "cleanup.policy"),
    ],
)
def test_a_refused_change_is_told_why_and_changes_nothing(operations: list[Any], code: int, text: str) -> None:
    cluster = Cluster()
    cluster.create({"name": "t", "configs": {"segment.bytes": "2000"}})
    assert cluster.alter("t", *operations) == code
    assert text in cluster.result["error_message"]
    assert cluster.metadata.topics["t"].configs == {"segment.bytes": "2000"}


def test_settings_of_one_broker_and_of_all() -> None:
    cluster = Cluster()
    assert cluster.alter("", ["log.retention.ms", 0, "1000"], kind=4) == 0
    assert cluster.alter("1", ["log.retention.ms", 0, "2000"], kind=4) == 0
    assert cluster.metadata.broker_configs == {"": {"log.retention.ms": "1000"}, "1": {"log.retention.ms": "2000"}}
    assert cluster.alter("1", ["log.retention.ms", 1, None], kind=4) == 0
    assert cluster.metadata.broker_configs["1"] == {}


@pytest.mark.parametrize(
    ("name", "kind", "operation", "code", "text"),
    [
        ("9", 4, ["log.retention.ms", 0, "1"], 42, "'9'"),
        ("x", 4, ["log.retention.ms", 0, "1"], 42, "'x'"),
        ("1", 4, ["group.max.size", 0, "1"], 42, "read-only"),
        ("1", 4, ["no.such", 0, "1"], 40, "no.such"),
        ("1", 4, ["log.retention.ms", 0, "-9"], 40, "'-9'"),
        ("u", 2, ["retention.ms", 0, "1"], 3, "'u'"),
        ("1", 8, ["retention.ms", 0, "1"], 42, "8"),
    ],
)
def test_what_cannot_be_altered(name: str, kind: int, operation: list[Any], code: int, text: str) -> None:
    cluster = Cluster()
    assert cluster.alter(name, operation, kind=kind) == code
    assert text in cluster.result["error_message"]
    assert cluster.metadata.broker_configs == {}


def test_validation_alone_alters_nothing() -> None:
    cluster = Cluster()
    cluster.create({"name": "t"})
    assert cluster.alter("t", ["retention.ms", 0, "1"], validate_only=True) == 0
    assert cluster.metadata.topics["t"].configs == {}


def test_a_resource_named_twice_is_refused() -> None:
    cluster = Cluster()
    cluster.create({"name": "t"})
    resource = {"type": 2, "name": "t", "replace": False, "operations": [["retention.ms", 0, "1"]]}
    results = cluster.do("alter_configs", resources=[resource, resource])
    assert [result["error_code"] for result in results] == [42, 42]


# --- brokers ---


def one(cluster: Cluster, *partitions: PartitionInfo) -> None:
    cluster.metadata.apply(topic_record(TopicInfo("t", b"t" * 16, partitions)))


@pytest.mark.conformance("A-11")
def test_a_partition_whose_only_replica_in_sync_dies_has_no_leader_until_it_is_back() -> None:
    cluster = Cluster()
    one(cluster, PartitionInfo(1, 4, (1, 2), (1,)), PartitionInfo(0, 2, (0,), (0,)))
    cluster.lose(1)
    assert not cluster.metadata.brokers[1].alive
    assert cluster.partitions("t") == (PartitionInfo(NO_LEADER, 5, (1, 2), (1,), 1), PartitionInfo(0, 2, (0,), (0,)))
    cluster.register(2, 1)
    assert cluster.partitions("t")[0].leader == NO_LEADER  # it is not in sync
    cluster.register(1, 1)
    assert cluster.partitions("t")[0] == PartitionInfo(1, 6, (1, 2), (1,), 2)


def test_another_replica_in_sync_takes_over_at_a_higher_epoch() -> None:
    cluster = Cluster()
    one(cluster, PartitionInfo(1, 4, (1, 2, 0), (1, 0)))
    cluster.lose(1)
    assert cluster.partitions("t") == (PartitionInfo(0, 5, (1, 2, 0), (0,), 1),)


@pytest.mark.parametrize(
    ("brokers", "topic", "leader"),
    [
        ({}, {}, NO_LEADER),
        ({"": "true"}, {}, 2),
        ({"": "true"}, {"unclean.leader.election.enable": "false"}, NO_LEADER),
        ({"": "false"}, {"unclean.leader.election.enable": "true"}, 2),
        ({"2": "true"}, {}, NO_LEADER),  # none of the brokers is the controller
    ],
)
def test_unclean_elections_are_allowed_while_the_cluster_runs(
    brokers: dict[str, str], topic: dict[str, str], leader: int
) -> None:
    cluster = Cluster()
    cluster.metadata.apply(topic_record(TopicInfo("t", b"t" * 16, (PartitionInfo(1, 4, (1, 2), (1,)),), topic)))
    for name, value in brokers.items():
        assert cluster.alter(name, ["unclean.leader.election.enable", 0, value], kind=4) == 0
    for record in broker_lost(cluster.metadata, 1, config=cluster.config):
        cluster.metadata.apply(record)
    assert cluster.partitions("t")[0].leader == leader
    for record in broker_registered(cluster.metadata, 2, config=cluster.config):
        cluster.metadata.apply(record)
    assert cluster.partitions("t")[0].leader == leader


def test_a_leader_that_stays_keeps_its_epoch_when_a_follower_dies() -> None:
    cluster = Cluster()
    one(cluster, PartitionInfo(1, 4, (1, 2), (1, 2)))
    cluster.lose(2)
    assert cluster.partitions("t") == (PartitionInfo(1, 4, (1, 2), (1,), 1),)


def test_a_process_that_replaces_one_nobody_saw_die_leads_at_a_new_epoch() -> None:
    cluster = Cluster()
    one(cluster, PartitionInfo(1, 4, (1,), (1,)), PartitionInfo(0, 2, (0,), (0,)))
    cluster.register(1, 1)
    assert cluster.partitions("t") == (PartitionInfo(1, 5, (1,), (1,), 1), PartitionInfo(0, 2, (0,), (0,)))


def test_losing_a_broker_twice_or_an_unknown_one_changes_nothing() -> None:
    cluster = Cluster()
    one(cluster, PartitionInfo(1, 4, (1,), (1,)))
    cluster.lose(1)
    assert broker_lost(cluster.metadata, 1) == []
    assert broker_lost(cluster.metadata, 9) == []


# --- producer ids ---


def test_blocks_of_producer_ids_never_overlap() -> None:
    cluster = Cluster()
    blocks = [cluster.do("allocate_producer_ids") for _ in range(3)]
    assert blocks == [{"first": first, "count": 1000} for first in (0, 1000, 2000)]


def test_an_unknown_operation_is_a_bug() -> None:
    with pytest.raises(KeyError):
        Cluster().do("no_such_operation")
