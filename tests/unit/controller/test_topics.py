"""The controller's rules: topics, the offsets topic, partitions, and producer ids."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controller.decisions.topics import MAX_NEW_PARTITIONS
from actors.wire.errors import ErrorCode
from placement.metadata import OFFSETS_TOPIC, PartitionInfo, TopicInfo
from placement.records import TopicRecord
from tests.support.decisions import Cluster

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
    cluster.create({"name": "t", "partitions": 2, "factor": 3, "configs": {"retention.ms": "1"}})
    topic = cluster.metadata.topics["t"]
    assert cluster.results == [
        {"name": "t", "error_code": 0, "error_message": None, "topic_id": topic.id, "partitions": 2, "factor": 3}
    ]
    assert topic.configs == {"retention.ms": "1"}


@pytest.mark.parametrize("key", ["segment.bytes", "cleanup.policy", "internal.segment.bytes", "no.such"])
def test_a_setting_that_is_null_is_refused(key: str) -> None:
    cluster = Cluster()
    assert cluster.create({"name": "t", "configs": {"retention.ms": "1", key: None}}) == [40]
    assert key in cluster.results[0]["error_message"]
    assert "t" not in cluster.metadata.topics


def test_topic_ids_are_never_zero_and_never_reused() -> None:
    cluster = Cluster()
    cluster.metadata.apply(TopicRecord(TopicInfo("old", (1).to_bytes(16, "big"), (PartitionInfo(0, 0, (0,), (0,)),))))
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
    assert cluster.alter(OFFSETS_TOPIC, ["segment.bytes", 0, "5000000"]) == 0


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


def test_blocks_of_producer_ids_never_overlap() -> None:
    cluster = Cluster()
    blocks = [cluster.do("allocate_producer_ids") for _ in range(3)]
    assert blocks == [{"first": first, "count": 1000} for first in (0, 1000, 2000)]


def test_an_unknown_operation_is_a_bug() -> None:
    with pytest.raises(KeyError):
        Cluster().do("no_such_operation")
