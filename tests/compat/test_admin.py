"""Administration through the clients people use for it: confluent-kafka and kafka-python.

Groups (list, describe, delete), their offsets (list, alter, delete), topics (describe, partitions, configs, delete
records, delete), and look-ups of offsets by time and by leader epoch.
"""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

from actors.client import Admin
from actors.client.admin.types import ScramDeletion, ScramUpsertion
from actors.security.scram import ScramMechanism
from actors.settings.secret import Secret
from actors.wire.messages import MetadataRequest, OffsetForLeaderEpochRequest
from tests.compat.drivers import Confluent, kafka_python
from tests.compat.drivers import kafka as kafka_module
from tests.compat.driving import all_closed
from tests.compat.peers import Peer
from tests.compat.raw import RETRIABLE_JOIN, Raw, await_topics, leader_of
from tests.compat.support import ONE_PROCESS, against, in_subprocess, numbered_records, wait_until

pytestmark = ONE_PROCESS

TIMEOUT_S = 60

brokers = against("kfake", "kafka", "coterie")


def _admin(servers: str) -> Any:
    return confluent_kafka.admin.AdminClient({"bootstrap.servers": servers})


def _consumed_group(servers: str, topic: str, group: str, records: int = 60) -> None:
    """A topic of three partitions, read to its end and committed by a group that is then empty."""
    driver = Confluent()
    driver.create_topic(servers, topic, 3)
    driver.produce(servers, topic, numbered_records(records), compression="none", idempotent=False)
    members = [driver.join(servers, group, topic)]
    with all_closed(members):
        wait_until(lambda: len(members[0].seen()) >= records, what="all records")
        members[0].commit()


@pytest.fixture
def python_admin(kafka: Peer) -> Any:
    admin = kafka_python.KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers.split(","))
    yield admin
    admin.close()


# ------------------------------------------------------------------ groups, confluent-kafka


@brokers
def test_confluent_lists_describes_and_deletes_groups(kafka: Peer, name: str) -> None:
    admin, driver = _admin(kafka.bootstrap_servers), Confluent()
    driver.create_topic(kafka.bootstrap_servers, name, 4)
    members = [driver.join(kafka.bootstrap_servers, name, name) for _ in range(2)]
    with all_closed(members):
        # Two partitions each: while the first has all four, the second is still to join.
        wait_until(lambda: [len(m.owned()) for m in members] == [2, 2], what="shares")
        stable = confluent_kafka.ConsumerGroupState.STABLE
        wait_until(lambda: getattr(_listed(admin, name), "state", None) == stable, what="a stable group listed")
        described = admin.describe_consumer_groups([name])[name].result(TIMEOUT_S)
        assert described.state == stable
        assert described.partition_assignor == "range"
        owned = [p.partition for m in described.members for p in m.assignment.topic_partitions]
        assert sorted(owned) == [0, 1, 2, 3]
        assert all(m.client_id == "rdkafka" and m.host for m in described.members)
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            admin.delete_consumer_groups([name])[name].result(TIMEOUT_S)
        assert refused.value.args[0].code() == confluent_kafka.KafkaError.NON_EMPTY_GROUP
    admin.delete_consumer_groups([name])[name].result(TIMEOUT_S)
    assert _listed(admin, name) is None
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        admin.delete_consumer_groups([name])[name].result(TIMEOUT_S)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.GROUP_ID_NOT_FOUND


def _listed(admin: Any, group: str) -> Any:
    def complete() -> Any:
        """None while a broker still loads the groups of other tests."""
        found = admin.list_consumer_groups().result(TIMEOUT_S)
        assert all(error.args[0].code() in RETRIABLE_JOIN for error in found.errors), found.errors
        return None if found.errors else found

    groups = wait_until(complete, what="a list from all brokers")
    return next((g for g in groups.valid if g.group_id == group), None)


def confluent_group_offsets(servers: str, group: str, topic: str) -> list[list[int]]:
    """The offsets that the admin lists before and after it sets partition 1 to 3 (runs in a process of its own)."""
    admin = _admin(servers)

    def read() -> list[int]:
        asked = confluent_kafka.ConsumerGroupTopicPartitions(group)
        answer = admin.list_consumer_group_offsets([asked])[group].result(TIMEOUT_S)
        return [p.offset for p in sorted(answer.topic_partitions, key=lambda p: p.partition)]

    before = read()
    target = confluent_kafka.ConsumerGroupTopicPartitions(group, [confluent_kafka.TopicPartition(topic, 1, 3)])
    admin.alter_consumer_group_offsets([target])[group].result(TIMEOUT_S)
    return [before, read()]


@brokers
def test_confluent_lists_and_alters_group_offsets(kafka: Peer, name: str) -> None:
    _consumed_group(kafka.bootstrap_servers, name, name)
    before, after = in_subprocess(confluent_group_offsets, kafka.bootstrap_servers, name, name)
    assert sum(before) == 60
    assert after == [before[0], 3, before[2]]


# ------------------------------------------------------------------ groups, kafka-python


@brokers
def test_kafka_python_lists_describes_and_deletes_groups(kafka: Peer, name: str, python_admin: Any) -> None:
    _consumed_group(kafka.bootstrap_servers, name, name)
    assert name in {g["group_id"] for g in python_admin.list_groups()}
    described = python_admin.describe_groups([name])[name]
    assert described["group_state"] == "Empty"
    assert described["members"] == []
    assert _no_error(python_admin.delete_groups([name])[name])
    assert name not in {g["group_id"] for g in python_admin.list_groups()}
    assert not _no_error(python_admin.delete_groups([name])[name])


def _no_error(result: Any) -> bool:
    return result in (None, "OK") or getattr(result, "errno", None) == 0


@brokers
def test_kafka_python_lists_alters_and_deletes_group_offsets(kafka: Peer, name: str, python_admin: Any) -> None:
    _consumed_group(kafka.bootstrap_servers, name, name)
    places = [kafka_python.TopicPartition(name, p) for p in range(3)]
    before = python_admin.list_group_offsets({name: places})[name]
    assert sum(before[p].offset for p in places) == 60
    altered = python_admin.alter_group_offsets(name, {places[0]: kafka_python.OffsetAndMetadata(1, "by hand", -1)})
    assert _no_error(altered[places[0]])
    after = python_admin.list_group_offsets({name: places})[name]
    assert (after[places[0]].offset, after[places[0]].metadata) == (1, "by hand")
    assert after[places[1]] == before[places[1]]
    deleted = python_admin.delete_group_offsets(name, [places[2]])
    assert _no_error(deleted[places[2]])
    left = python_admin.list_group_offsets({name: None})[name]
    assert set(left) == set(places[:2])


# ------------------------------------------------------------------ topics


@brokers
def test_confluent_describes_and_changes_topic_configs(kafka: Peer, name: str) -> None:
    admin = _admin(kafka.bootstrap_servers)
    new = confluent_kafka.admin.NewTopic(name, 2, 1, config={"retention.ms": "3600000"})
    admin.create_topics([new])[name].result(TIMEOUT_S)
    await_topics(kafka.bootstrap_servers, {name: 2})
    resource = confluent_kafka.admin.ConfigResource("topic", name)
    configs = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert configs["retention.ms"].value == "3600000"
    assert not configs["retention.ms"].is_default
    assert configs["cleanup.policy"].value == "delete"
    change = confluent_kafka.admin.ConfigEntry(
        "retention.ms", "7200000", incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET
    )
    wanted = confluent_kafka.admin.ConfigResource("topic", name, incremental_configs=[change])
    admin.incremental_alter_configs([wanted])[wanted].result(TIMEOUT_S)

    def retention() -> str:
        return str(admin.describe_configs([resource])[resource].result(TIMEOUT_S)["retention.ms"].value)

    wait_until(lambda: retention() == "7200000", what="the change")


@brokers
def test_kafka_python_describes_broker_configs(kafka: Peer, python_admin: Any) -> None:
    broker = str(python_admin.describe_cluster()["brokers"][0]["broker_id"])
    resource = kafka_module.admin.ConfigResource("BROKER", broker)
    configs = python_admin.describe_configs([resource], config_filter="all")
    values = next(iter(configs.values()))[broker]
    assert kafka.kind == "kfake" or values["offsets.topic.num.partitions"]["value"] == "50"
    assert values


@brokers
def test_confluent_describes_topics_and_the_cluster(kafka: Peer, name: str) -> None:
    admin = _admin(kafka.bootstrap_servers)
    Confluent().create_topic(kafka.bootstrap_servers, name, 5)
    topics = confluent_kafka.TopicCollection([name])
    described = admin.describe_topics(topics)[name].result(TIMEOUT_S)
    assert [p.id for p in described.partitions] == list(range(5))
    assert all(p.leader is not None and p.replicas and p.isr for p in described.partitions)
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    addresses = {f"{n.host}:{n.port}" for n in cluster.nodes}
    assert addresses == set(kafka.bootstrap_servers.split(","))
    assert cluster.controller.id in {n.id for n in cluster.nodes}
    assert cluster.cluster_id


@brokers
def test_partitions_are_added(kafka: Peer, name: str, python_admin: Any) -> None:
    admin = _admin(kafka.bootstrap_servers)
    Confluent().create_topic(kafka.bootstrap_servers, name, 2)
    admin.create_partitions([confluent_kafka.admin.NewPartitions(name, 4)])[name].result(TIMEOUT_S)
    wait_until(lambda: len(admin.list_topics(name, TIMEOUT_S).topics[name].partitions) == 4, what="4 partitions")
    python_admin.create_partitions({name: 6})
    wait_until(lambda: len(admin.list_topics(name, TIMEOUT_S).topics[name].partitions) == 6, what="6 partitions")
    await_topics(kafka.bootstrap_servers, {name: 6})
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        admin.create_partitions([confluent_kafka.admin.NewPartitions(name, 3)])[name].result(TIMEOUT_S)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.INVALID_PARTITIONS
    records = numbered_records(120)
    Confluent().produce(kafka.bootstrap_servers, name, records, compression="none", idempotent=False)
    assert sorted(Confluent().consume(kafka.bootstrap_servers, name, 120)) == records


@brokers
def test_records_are_deleted_up_to_an_offset(kafka: Peer, name: str, python_admin: Any) -> None:
    driver, admin = Confluent(), _admin(kafka.bootstrap_servers)
    driver.create_topic(kafka.bootstrap_servers, name, 1)
    records = numbered_records(50)
    driver.produce(kafka.bootstrap_servers, name, records, compression="none", idempotent=False)
    place = confluent_kafka.TopicPartition(name, 0, 20)
    deleted = admin.delete_records([place])[place].result(TIMEOUT_S)
    assert deleted.low_watermark == 20
    assert driver.consume(kafka.bootstrap_servers, name, 30) == records[20:]
    python_admin.delete_records({kafka_python.TopicPartition(name, 0): 45})
    assert driver.consume(kafka.bootstrap_servers, name, 5) == records[45:]


@brokers
def test_a_topic_is_deleted(kafka: Peer, name: str) -> None:
    admin = _admin(kafka.bootstrap_servers)
    Confluent().create_topic(kafka.bootstrap_servers, name, 3)
    wait_until(lambda: name in admin.list_topics(timeout=TIMEOUT_S).topics, what="the topic")
    admin.delete_topics([name])[name].result(TIMEOUT_S)
    wait_until(lambda: name not in admin.list_topics(timeout=TIMEOUT_S).topics, what="its end")
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        admin.delete_topics([name])[name].result(TIMEOUT_S)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART


@brokers
def test_creating_a_topic_twice_is_refused(kafka: Peer, name: str) -> None:
    admin = _admin(kafka.bootstrap_servers)
    new = confluent_kafka.admin.NewTopic(name, 1, 1)
    admin.create_topics([new])[name].result(TIMEOUT_S)
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        admin.create_topics([new])[name].result(TIMEOUT_S)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS


# ------------------------------------------------------------------ looking offsets up


def _timed_records(servers: str, topic: str) -> int:
    """Ten records whose timestamps are a second apart; returns the first timestamp in ms."""
    Confluent().create_topic(servers, topic, 1)
    first_ms = int(time.time() * 1000) - 60_000
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for n in range(10):
        producer.produce(topic, b"%d" % n, timestamp=first_ms + 1000 * n, partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    return first_ms


@brokers
def test_offsets_are_found_by_time(kafka: Peer, name: str, python_admin: Any) -> None:
    first_ms = _timed_records(kafka.bootstrap_servers, name)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": name})
    try:
        cases = {first_ms - 1: 0, first_ms: 0, first_ms + 3500: 4, first_ms + 9000: 9}
        for timestamp, offset in cases.items():
            asked = [confluent_kafka.TopicPartition(name, 0, timestamp)]
            assert consumer.offsets_for_times(asked, TIMEOUT_S)[0].offset == offset
        later = [confluent_kafka.TopicPartition(name, 0, first_ms + 9001)]
        assert consumer.offsets_for_times(later, TIMEOUT_S)[0].offset == confluent_kafka.OFFSET_END
        assert consumer.get_watermark_offsets(later[0], TIMEOUT_S) == (0, 10)
    finally:
        consumer.close()
    place = kafka_python.TopicPartition(name, 0)
    found = python_admin.list_partition_offsets({place: first_ms + 3500})[place]
    assert (found.offset, found.timestamp) == (4, first_ms + 4000)


@brokers
def test_confluent_admin_lists_offsets(kafka: Peer, name: str) -> None:
    first_ms = _timed_records(kafka.bootstrap_servers, name)
    admin, place = _admin(kafka.bootstrap_servers), confluent_kafka.TopicPartition(name, 0)
    spec = confluent_kafka.admin.OffsetSpec
    cases = [(spec.earliest(), 0), (spec.latest(), 10), (spec.for_timestamp(first_ms + 100), 1)]
    cases += [(spec.max_timestamp(), 9)]
    for asked, offset in cases:
        assert admin.list_offsets({place: asked})[place].result(TIMEOUT_S).offset == offset


@brokers
def test_the_end_offset_of_a_leader_epoch(kafka: Peer, name: str) -> None:
    _timed_records(kafka.bootstrap_servers, name)
    address = leader_of(kafka.bootstrap_servers, name)
    with Raw(address) as raw:
        topic = MetadataRequest.MetadataRequestTopic(name=name)
        epoch = raw.call(MetadataRequest(topics=[topic]), 8).topics[0].partitions[0].leader_epoch
        cls = OffsetForLeaderEpochRequest
        partition = cls.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
        request = cls(replica_id=-2, topics=[cls.OffsetForLeaderTopic(topic=name, partitions=[partition])])
        (answer,) = raw.call(request, 3).topics[0].partitions
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, epoch, 10)


# ------------------------------------------------------------------ users


@against("kafka", "coterie")
@pytest.mark.conformance("XB-32", "XB-33", "XB-43")
def test_passwords_are_set_described_and_deleted(kafka: Peer, name: str) -> None:
    first, second = ScramMechanism.SHA_256, ScramMechanism.SHA_512
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:

        def described() -> dict[str, int]:
            return admin.describe_user_scram_credentials([name]).get(name, {})

        def code(*changes: ScramUpsertion | ScramDeletion) -> int:
            upsertions = [each for each in changes if isinstance(each, ScramUpsertion)]
            deletions = [each for each in changes if isinstance(each, ScramDeletion)]
            (outcome,) = admin.alter_user_scram_credentials(upsertions, deletions, raise_errors=False).values()
            return 0 if outcome is None else int(getattr(outcome, "error_code", outcome.code))

        assert described() == {}
        assert code(ScramUpsertion(name, Secret("pencil"), first, 4096)) == 0
        assert code(ScramUpsertion(name, Secret("pencil"), second, 8192)) == 0
        wait_until(lambda: described() == {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 8192})
        assert code(ScramUpsertion(name, Secret("pencil"), first), ScramDeletion(name, second)) == 92
        assert code(ScramUpsertion(name, Secret("pencil"), first, 16385)) == 93
        assert code(ScramDeletion(name, first)) == 0
        wait_until(lambda: described() == {"SCRAM-SHA-512": 8192})
        assert code(ScramDeletion(name, first)) == 91
        assert code(ScramDeletion(name, second)) == 0
        wait_until(lambda: described() == {})
