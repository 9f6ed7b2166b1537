"""FindCoordinator: who coordinates a group, and the lazy creation of the offsets topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.controller.decisions.elections import broker_lost, broker_registered
from actors.security.acl import AclOperation
from actors.wire.errors import ErrorCode
from actors.wire.messages import FindCoordinatorRequest
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC, BrokerInfo
from placement.records import BrokerRecord, PartitionRecord
from tests.support.acls import GROUP, allowed
from tests.support.handler_helpers import AUTHORIZER, Broker, led_by

VERSIONS = range(7)


def lookup(group: str, version: int, key_type: int = 0) -> FindCoordinatorRequest:
    if version >= 4:
        return FindCoordinatorRequest(coordinator_keys=[group], key_type=key_type)
    return FindCoordinatorRequest(key=group, key_type=key_type)


def found(broker: Broker, group: str, version: int = 4, key_type: int = 0) -> tuple[int, int, str, int]:
    """(error, node, host, port)"""
    answer = broker.ask(lookup(group, version, key_type), version)
    if version >= 4:
        (answer,) = answer.coordinators
        assert answer.key == group
    return answer.error_code, answer.node_id, answer.host, answer.port


@pytest.mark.conformance("A-06")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_lookup_without_offsets_topic_is_retriable_and_starts_one_creation(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    assert found(broker, "g", version) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)
    assert broker.controller.operations == ["create_offsets_topic"]


@pytest.mark.conformance("A-07")
def test_lookups_while_the_creation_is_in_flight_start_no_second_one(tmp_path: Path) -> None:
    broker = Broker(tmp_path, offsets_topic_replication_factor="1")
    broker.controller.prompt = False
    answers = [found(broker, group)[0] for group in ("g", "h", "i")]
    assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    assert broker.controller.operations == ["create_offsets_topic"]
    broker.controller.answer()
    assert found(broker, "g") == (0, 0, "host0", 9092)
    assert broker.controller.operations == ["create_offsets_topic"]


@pytest.mark.conformance("A-09")
def test_with_too_few_brokers_lookups_fail_until_there_are_enough(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    assert [found(broker, "g")[0] for _ in range(3)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    assert OFFSETS_TOPIC not in broker.metadata.topics
    broker.metadata.apply(BrokerRecord(BrokerInfo(2, "host2", 9094, None, 0)))
    found(broker, "g")  # the one that creates it
    assert found(broker, "g")[0] == 0


def test_a_failed_creation_is_tried_again_by_the_next_lookup(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    found(broker, "g")
    broker.controller.fail("the connection to the controller was lost")
    found(broker, "g")
    assert broker.controller.operations == ["create_offsets_topic"] * 2


@pytest.mark.conformance("A-10")
@pytest.mark.parametrize("version", VERSIONS)
def test_any_broker_names_the_living_leader_of_the_groups_partition(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path, brokers=3)
    partitions = [led_by(i % 3) for i in range(50)]
    broker.topic(OFFSETS_TOPIC, *partitions)
    for group in ("consume_group", "a", "payments-service.v2", ""):
        leader = partition_for_group(group, 50) % 3
        assert found(broker, group, version) == (0, leader, f"host{leader}", 9092 + leader)


@pytest.mark.conformance("A-05")
def test_groups_with_equal_hashes_share_a_coordinator(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=3)
    broker.topic(OFFSETS_TOPIC, *[led_by(i % 3) for i in range(50)])
    assert partition_for_group("Aa", 50) == partition_for_group("BB", 50) == 12
    assert found(broker, "Aa") == found(broker, "BB") == (0, 0, "host0", 9092)


@pytest.mark.conformance("A-11")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_without_leader_has_no_coordinator_for_now(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic(OFFSETS_TOPIC, led_by(-1, 1))
    assert found(broker, "g", version)[:2] == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


def test_a_leader_that_is_not_alive_is_none(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic(OFFSETS_TOPIC, led_by(1))
    broker.metadata.apply(BrokerRecord(BrokerInfo(1, "host1", 9093, None, 0, alive=False)))
    assert found(broker, "g")[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.conformance("A-12")
@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize("key_type", [2, 3, 17, -1])
def test_an_unknown_key_type_is_an_invalid_request(tmp_path: Path, version: int, key_type: int) -> None:
    broker = Broker(tmp_path)
    assert found(broker, "g", version, key_type) == (ErrorCode.INVALID_REQUEST, -1, "", -1)
    assert broker.controller.operations == []


@pytest.mark.conformance("A-16")
def test_a_lookup_after_leadership_moved_names_the_new_leader(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic(OFFSETS_TOPIC, led_by(0, 1, isr=(0, 1)))
    assert found(broker, "g")[1] == 0
    broker.metadata.apply(PartitionRecord(OFFSETS_TOPIC, 0, led_by(1, 0, epoch=1)))
    assert found(broker, "g") == (0, 1, "host1", 9093)


@pytest.mark.conformance("A-16")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_lookup_after_the_leaders_death_names_who_was_elected(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path, brokers=3)
    broker.topic(OFFSETS_TOPIC, led_by(1, 2, 0, isr=(1, 0)))
    assert found(broker, "g", version) == (0, 1, "host1", 9093)
    for record in broker_lost(broker.metadata, 1):
        broker.metadata.apply(record)
    assert found(broker, "g", version) == (0, 0, "host0", 9092)
    for record in (*broker_lost(broker.metadata, 0), *broker_registered(broker.metadata, 1)):
        broker.metadata.apply(record)
    assert found(broker, "g", version)[:2] == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1), "neither was in sync"


@pytest.mark.parametrize("version", range(1, 7))
def test_transactional_producers_are_told_at_once_and_for_good(tmp_path: Path, version: int) -> None:
    broker = Broker(tmp_path)
    answer = broker.ask(lookup("tx", version, 1), version)
    if version >= 4:
        (answer,) = answer.coordinators
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert answer.error_message == "transactions are not supported yet"


@pytest.mark.conformance("A-14")
def test_a_batch_is_answered_key_by_key(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic(OFFSETS_TOPIC, led_by(0), led_by(1), led_by(-1, 1))
    groups = ["consume_group", "a", "my-group"]
    answers = broker.ask(FindCoordinatorRequest(coordinator_keys=groups), 4).coordinators
    assert [answer.key for answer in answers] == groups
    expected = [[0, 1, -1][partition_for_group(group, 3)] for group in groups]
    assert [answer.node_id for answer in answers] == expected


def test_a_lookup_of_a_group_led_here_starts_its_shard(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic(OFFSETS_TOPIC, *[led_by(i % 2) for i in range(50)])
    found(broker, "consume_group")  # partition 34
    found(broker, "a")  # partition 47, led by broker 1
    assert broker.shards.awaited == [34]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lookup_is_answered_once_the_groups_shard_serves(tmp_path: Path, version: int) -> None:
    """Found at once, the group's first join met a shard that was being started, and was refused."""
    broker = Broker(tmp_path)
    broker.topic(OFFSETS_TOPIC, led_by(0))
    broker.shards.starting = {0}
    pending = broker.send(lookup("g", version), version)
    assert not pending.answered
    broker.shards.settle(0)
    answer = pending.response
    if version >= 4:
        (answer,) = answer.coordinators
    assert (answer.error_code, answer.node_id, answer.port) == (0, 0, 9092)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_lookup_whose_shard_does_not_come_is_told_to_ask_again(tmp_path: Path, code: ErrorCode) -> None:
    broker = Broker(tmp_path)
    broker.topic(OFFSETS_TOPIC, led_by(0))
    broker.shards.starting = {0}
    pending = broker.send(lookup("g", 3), 3)
    broker.shards.settle(0, code)
    assert (pending.response.error_code, pending.response.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


def test_a_lookup_that_waited_for_a_shard_that_moves_away_names_its_new_leader(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic(OFFSETS_TOPIC, led_by(0, 1, isr=(0, 1)))
    broker.shards.starting = {0}
    pending = broker.send(lookup("g", 3), 3)
    broker.metadata.apply(PartitionRecord(OFFSETS_TOPIC, 0, led_by(1, 0, epoch=1)))
    broker.shards.settle(0, ErrorCode.NOT_COORDINATOR)
    assert (pending.response.error_code, pending.response.node_id) == (0, 1)


def test_a_batch_waits_for_all_its_shards_and_is_answered_key_by_key(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic(OFFSETS_TOPIC, led_by(0), led_by(1), led_by(0))
    groups = [next(g for g in (f"g{n}" for n in range(99)) if partition_for_group(g, 3) == index) for index in range(3)]
    broker.shards.starting = {0, 2}
    pending = broker.send(FindCoordinatorRequest(coordinator_keys=[*groups, groups[0]]), 4)
    assert broker.shards.awaited == [0, 2], "each shard once"
    broker.shards.settle(2)
    assert not pending.answered
    broker.shards.settle(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    late = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [(c.key, c.error_code) for c in pending.response.coordinators] == [
        (groups[0], late),
        (groups[1], 0),
        (groups[2], 0),
        (groups[0], late),
    ]


def guarded(tmp_path: Path, *groups: str, brokers: int = 1) -> Broker:
    """A broker whose clients may describe these groups alone."""
    broker = Broker(tmp_path, brokers, authorizer_class_name=AUTHORIZER)
    broker.allow(*(allowed(AclOperation.DESCRIBE, GROUP, group) for group in groups))
    return broker


@pytest.mark.conformance("A-13")
@pytest.mark.parametrize("version", VERSIONS)
def test_who_may_not_describe_a_group_is_not_told_its_coordinator(tmp_path: Path, version: int) -> None:
    broker = guarded(tmp_path, "h")
    refused = (ErrorCode.GROUP_AUTHORIZATION_FAILED, -1, "", -1)
    assert found(broker, "g", version) == refused
    assert broker.controller.operations == []  # not even the topic is created for a stranger
    broker.topic(OFFSETS_TOPIC, *[led_by(0)] * 50)
    assert found(broker, "g", version) == refused
    assert broker.shards.awaited == [], "nor is a process started"
    assert found(broker, "h", version) == (0, 0, "host0", 9092)


@pytest.mark.conformance("A-14")
def test_one_forbidden_group_of_three_does_not_spoil_the_others(tmp_path: Path) -> None:
    broker = guarded(tmp_path, "consume_group", "a", brokers=2)
    broker.topic(OFFSETS_TOPIC, *[led_by(i % 2) for i in range(50)])
    groups = ["consume_group", "secret", "a"]  # partitions 34 and 47 are those of the first and the last
    answer = broker.ask(FindCoordinatorRequest(coordinator_keys=groups, key_type=0), 4)
    assert [(c.key, c.error_code, c.node_id, c.host, c.port) for c in answer.coordinators] == [
        ("consume_group", ErrorCode.NONE, 0, "host0", 9092),
        ("secret", ErrorCode.GROUP_AUTHORIZATION_FAILED, -1, "", -1),
        ("a", ErrorCode.NONE, 1, "host1", 9093),
    ]
    assert broker.shards.awaited == [34]
