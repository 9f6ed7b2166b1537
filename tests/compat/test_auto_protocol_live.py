"""Members that take whichever group protocol their brokers serve, as those of pools and streams do, on real brokers."""

from __future__ import annotations

import pytest

from actors.client import Admin, TopicPartition
from actors.client.by_default import by_default
from actors.members.ranges.group import RangeMemberSpec
from actors.members.ranges.member import RangeMember
from actors.wire.messages import ConsumerGroupHeartbeatRequest
from tests.compat.own_clients import COUNT, consumer, make_topic, numbered, produce, read
from tests.compat.peers import Peer
from tests.compat.raw import Raw, serving_coordinator
from tests.compat.support import ONE_PROCESS, against, wait_until

pytestmark = ONE_PROCESS

everywhere = against("kfake", "kafka", "coterie")
FIRST, STATIC_FOR_A_WHILE = 0, -2


def type_of(kafka: Peer, group: str) -> str:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        (found,) = admin.describe_consumer_groups([group])
    return found.type


@everywhere
def test_each_broker_has_members_of_the_protocol_that_it_serves(kafka: Peer, name: str) -> None:
    make_topic(kafka, name)
    produce(kafka, name, numbered(50))
    with consumer(kafka, name, group_id=name, **by_default({})) as reader:
        assert sorted(read(reader, 50)) == numbered(50)
        reader.commit()
        if kafka.kind != "kfake":
            assert type_of(kafka, name) == "consumer"
    with consumer(kafka, group_id=name) as reader:
        committed = reader.committed_offsets([TopicPartition(name, n) for n in range(COUNT)])
        assert sum(at.offset for at in committed.values() if at is not None) == 50


@pytest.mark.conformance("K-A-40")
@against("kafka", "coterie")
def test_a_successor_of_a_killed_static_member_has_its_partitions_before_the_session_has_ended(
    kafka: Peer, name: str
) -> None:
    """The coordinator refused it for 45 seconds: the killed one had not left."""
    partitions = make_topic(kafka, name)
    with Raw(serving_coordinator(kafka.bootstrap_servers, name)) as killed:
        join = ConsumerGroupHeartbeatRequest(
            group_id=name,
            member_id="the killed one",
            member_epoch=FIRST,
            instance_id="i-0",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[name],
            topic_partitions=[],
        )
        wait_until(lambda: killed.call(join, 1).error_code == 0, what="a first member")
    with consumer(kafka, name, group_id=name, group_instance_id="i-0", **by_default({})) as successor:

        def has_all() -> bool:
            successor.poll(100)
            return successor.assignment() == set(partitions)

        wait_until(has_all, timeout_s=20, what="the partitions of the killed member")
        assert successor.group_metadata().member_id != "the killed one"


@against("kafka", "coterie")
def test_a_partition_that_moves_waits_for_the_batch_that_has_it(kafka: Peer, name: str) -> None:
    """Members whose records others read are of either protocol, too."""
    make_topic(kafka, name, 4)
    produce(kafka, name, numbered(40))
    spec = RangeMemberSpec(name, kafka.bootstrap_servers, (name,), revoke_wait_ms=60_000)
    first = RangeMember(spec)
    second = None
    try:
        wait_until(lambda: len(first.holding().partitions) == 4 and first.holding().settled, what="all partitions")
        batch = first.begin()
        second = RangeMember(spec)
        wait_until(lambda: second.holding().generation_id > 0, what="the second member")
        assert type_of(kafka, name) == "consumer"
        done = {(held.topic, held.partition): (held.position + 1, held.fencing_token) for held in batch.partitions}
        assert len(first.finish(done)) == 4, "whatever is to move was still its own"
        wait_until(lambda: len(second.holding().partitions) == 2 and second.holding().settled, what="a share")
        assert {held.position for held in second.holding().partitions} <= {
            held.position + 1 for held in batch.partitions
        }
    finally:
        first.stop()
        if second is not None:
            second.stop()
