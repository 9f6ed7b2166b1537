"""Brokers on drained Ray nodes: who leads instead, what is placed there, and how Ray is asked. No Ray here."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from actors.controller.decisions.draining import drained_led_elsewhere
from actors.controller.decisions.elections import leadership_balanced, preferred_elected
from actors.controller.decisions.removal import planned_moves, removal_begun, removals_go_on
from actors.controller.draining import DrainLook
from actors.wire.errors import ErrorCode
from placement.metadata import NO_LEADER, BrokerInfo, PartitionInfo, TopicInfo
from placement.pairs import Pair
from placement.records import BrokerRecord, PairRecord, PartitionRecord, Record, TopicRecord
from tests.support.decisions import Cluster


class Drained(Cluster):
    """Four brokers. The node of broker 3 is drained."""

    def __init__(self, brokers: int = 4, **settings: str) -> None:
        super().__init__(brokers, **settings)
        self.metadata.draining = frozenset({3})

    def hold(self, name: str, *partitions: PartitionInfo) -> None:
        self.metadata.apply(TopicRecord(TopicInfo(name, name.encode().ljust(16), partitions)))

    def step(self, *present: int) -> list[Record]:
        records = drained_led_elsewhere(self.metadata, self.config, present or range(4))
        self.metadata.apply_all(records)
        return records

    def leaders(self, name: str = "t") -> list[int]:
        return [each.leader for each in self.partitions(name)]

    def die(self, broker_id: int) -> None:
        self.metadata.apply(BrokerRecord(BrokerInfo(broker_id, "h", 9092, None, 0, alive=False)))


def led(*replicas: int, isr: tuple[int, ...] | None = None) -> PartitionInfo:
    """A partition that its first replica leads."""
    return PartitionInfo(replicas[0], 4, replicas, replicas if isr is None else isr)


# --- leaders ----------------------------------------------------------------------------------------------------


@pytest.mark.conformance("N-A-13")
def test_others_in_sync_lead_at_once_and_the_broker_stays_in_sync() -> None:
    cluster = Drained()
    cluster.hold("t", led(3, 1, 0), led(0, 3), led(3, 2, isr=(3, 2)))
    cluster.step()
    assert cluster.leaders() == [1, 0, 2]
    first, untouched, _ = cluster.partitions("t")
    assert (first.isr, first.leader_epoch, first.replicas) == ((3, 1, 0), 5, (3, 1, 0))
    assert untouched.leader_epoch == 4
    assert cluster.step() == [], "once is enough"


def test_what_nobody_else_can_lead_is_led_on_until_another_replica_has_caught_up() -> None:
    cluster = Drained()
    cluster.hold("t", led(3), led(3, 1, isr=(3,)))
    assert cluster.step() == []
    before = cluster.partitions("t")[1]
    cluster.metadata.apply(PartitionRecord("t", 1, PartitionInfo(3, 4, before.replicas, (3, 1))))
    cluster.step()
    assert cluster.leaders() == [3, 1]


def test_one_that_is_dead_or_has_not_come_to_this_controller_yet_does_not_lead() -> None:
    cluster = Drained()
    cluster.hold("t", led(3, 0, 1, 2), led(3, 0, 1))
    cluster.die(0)
    cluster.step(0, 2, 3)
    assert cluster.leaders() == [2, 3]


def test_one_that_is_being_removed_leads_only_if_nobody_else_can_and_keeps_it() -> None:
    cluster = Drained(offsets_topic_replication_factor="1")
    cluster.hold("t", led(3, 0, 1), led(3, 0))
    cluster.metadata.apply_all(removal_begun(cluster.metadata, 0, 0, None))
    cluster.step()
    assert cluster.leaders() == [1, 0]
    removals_go_on(cluster.metadata, cluster.config)
    assert cluster.step() == []
    assert cluster.leaders() == [1, 0]


def test_two_nodes_that_are_drained_do_not_pass_leaders_to_each_other() -> None:
    cluster = Drained()
    cluster.metadata.draining = frozenset({2, 3})
    cluster.hold("t", led(3, 2), led(3, 2, 1))
    cluster.step()
    assert cluster.leaders() == [3, 1]


def test_partitions_that_are_led_together_go_to_a_broker_that_is_in_sync_for_all() -> None:
    cluster = Drained()
    cluster.hold("t", led(3, 0, 1))
    cluster.hold("__state", led(3, 0, 1, isr=(3, 1)))
    cluster.metadata.apply(PairRecord(Pair(b"t".ljust(16), 0, "__state", 0)))
    cluster.step()
    assert (cluster.leaders(), cluster.leaders("__state")) == ([1], [1])


def test_one_of_them_that_has_no_leader_keeps_the_others_from_nothing() -> None:
    cluster = Drained()
    cluster.hold("t", led(3, 0))
    cluster.hold("__state", PartitionInfo(NO_LEADER, 4, (3, 0), (2,)))
    cluster.metadata.apply(PairRecord(Pair(b"t".ljust(16), 0, "__state", 0)))
    cluster.step()
    assert cluster.leaders() == [0]


def test_leaders_do_not_go_back_before_the_drain_is_taken_back() -> None:
    cluster = Drained()
    cluster.hold("t", led(3, 0))
    cluster.step()
    assert preferred_elected(cluster.metadata, config=cluster.config) == []
    assert leadership_balanced(cluster.metadata, 0, config=cluster.config) == []
    told = cluster.do(
        "elect_leaders",
        type=0,
        partitions=[["t", 0]],
    )[0]
    assert told["error_code"] == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert told["error_message"] == "broker 3 is on a Ray node that is drained"
    cluster.metadata.draining = frozenset()
    cluster.metadata.apply_all(leadership_balanced(cluster.metadata, 0, config=cluster.config))
    assert cluster.leaders() == [3]


# --- replicas ---------------------------------------------------------------------------------------------------


@pytest.mark.conformance("N-D-06")
def test_nothing_new_is_placed_there_if_there_are_enough_others() -> None:
    cluster = Drained(default_replication_factor="3")
    assert cluster.create({"name": "t", "partitions": 8}) == [0]
    cluster.do("create_partitions", topics=[{"name": "t", "count": 16, "assignments": None}])
    assert len(cluster.partitions("t")) == 16
    assert all(3 not in each.replicas for each in cluster.partitions("t"))
    assert cluster.create({"name": "u", "partitions": 1, "factor": 4}) == [0], (
        "else nobody could have a group meanwhile"
    )
    cluster.step()
    assert cluster.leaders("u") != [3]


def test_who_names_it_is_told() -> None:
    cluster = Drained()
    told = "replica assignment [0, 3] names broker 3, whose Ray node is drained"
    assert cluster.create({"name": "t", "assignments": [[0, 3]]}) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert cluster.results[0]["error_message"] == told
    cluster.hold("t", led(0, 1))
    assert reassigned(cluster, [0, 3]) == told


def test_a_partition_that_is_there_may_be_reassigned() -> None:
    cluster = Drained()
    cluster.hold("t", led(0, 3))
    assert reassigned(cluster, [1, 3]) is None
    assert reassigned(cluster, [0, 1]) is None


def reassigned(cluster: Drained, replicas: list[int]) -> str | None:
    told = cluster.do("alter_reassignments", partitions=[["t", 0, replicas]], allow_factor_change=True)
    message: str | None = told[0]["error_message"]
    return message


def test_a_broker_that_is_removed_gives_nothing_to_it() -> None:
    cluster = Drained(offsets_topic_replication_factor="1")
    cluster.hold("t", *(led(0, 1) for _ in range(6)))
    cluster.metadata.apply_all(removal_begun(cluster.metadata, 0, 0, None))
    assert {broker for replicas in planned_moves(cluster.metadata).values() for broker in replicas} == {1, 2}


# --- what Ray is asked ------------------------------------------------------------------------------------------


class Ray:
    """Answers one look after the other. `asked` counts them."""

    def __init__(self, *answers: Mapping[str, int] | None) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.told: list[Mapping[str, int]] = []
        self.nodes = {"a", "b"}
        self.look = DrainLook(lambda: self.nodes, self.ask, self.told.append).look

    def ask(self) -> Mapping[str, int] | None:
        self.asked += 1
        return self.answers.pop(0)


def test_drained_nodes_are_told_at_each_look_and_once_that_there_are_none_any_more() -> None:
    ray = Ray({}, {"a": 7}, {"a": 7}, {}, {})
    for _ in range(5):
        ray.look()
    assert ray.told == [{"a": 7}, {"a": 7}, {}]


def test_while_ray_does_not_tell_what_it_told_last_counts() -> None:
    ray = Ray(None, {"a": 7}, None, {})
    for _ in range(4):
        ray.look()
    assert ray.told == [{"a": 7}, {}]


def test_ray_is_not_asked_while_all_brokers_are_on_one_node() -> None:
    ray = Ray({"a": 7})
    ray.nodes = {"a"}
    ray.look()
    assert (ray.asked, ray.told) == (0, [])
    ray.nodes = {"a", "b"}
    ray.look()
    ray.nodes = {"a"}
    ray.look()
    assert (ray.asked, ray.told) == (1, [{"a": 7}, {}])


def test_a_look_that_fails_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    looked, asked = threading.Event(), list[bool]()

    def ask() -> dict[str, int]:
        asked.append(True)
        if len(asked) == 1:
            raise RuntimeError("a bug")
        looked.set()
        return {}

    look = DrainLook(lambda: {"a", "b"}, ask, lambda nodes: None, interval_s=0.001)
    look.start()
    assert looked.wait(60)
    look.end()
    assert "a bug" in caplog.text
