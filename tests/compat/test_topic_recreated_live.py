"""A topic is deleted and created again under a consumer and under a range member, on real brokers."""

from __future__ import annotations

import pytest

from actors.client import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from actors.client.admin.types import NewTopic
from actors.client.errors import CommitFailedError, KafkaError
from actors.members.ranges.group import RangeMemberSpec
from actors.members.ranges.member import RangeMember
from tests.compat.peers import Peer
from tests.compat.raw import await_topics
from tests.compat.support import ONE_PROCESS, against, wait_until

pytestmark = ONE_PROCESS

everywhere = against("kafka", "coterie")
OLD = [b"old %d" % n for n in range(100)]
NEW = [b"new %d" % n for n in range(150)]


def make(kafka: Peer, name: str, values: list[bytes]) -> None:
    def made() -> bool:
        try:
            admin.create_topics([NewTopic(name, 1, 1)])
        except KafkaError:  # brokers may take a moment to delete the old one
            return False
        return True

    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        wait_until(made, what="the topic")
    await_topics(kafka.bootstrap_servers, {name: 1})
    with Producer(bootstrap_servers=kafka.bootstrap_servers, allow_auto_create_topics=False) as producer:
        sent = [producer.send(name, value, partition=0) for value in values]
        producer.flush(30)
        assert all(each.succeeded() for each in sent)


def remake(kafka: Peer, name: str) -> None:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_topics([name])
    make(kafka, name, NEW)


@everywhere
@pytest.mark.parametrize("member", [True, False], ids=["subscribed", "assigned"])
def test_every_record_of_the_new_topic_is_read_and_no_old_offset_is_committed_for_it(
    kafka: Peer, name: str, member: bool
) -> None:
    make(kafka, name, OLD)
    tp = TopicPartition(name, 0)
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "allow_auto_create_topics": False}
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, group_id=f"g-{name}", **settings) as consumer:
        if member:
            consumer.subscribe([name])
        else:
            consumer.assign([tp])
        seen: list[bytes] = []

        def read(until: bytes) -> bool:
            seen.extend(record.value for some in consumer.poll(100).values() for record in some)
            return until in seen

        wait_until(lambda: read(OLD[-1]), what="the old records")
        consumer.commit()
        remake(kafka, name)
        with pytest.raises(CommitFailedError):  # of the old topic, or of the generation that had it
            consumer.commit({tp: OffsetAndMetadata(100)})
        wait_until(lambda: read(NEW[-1]), what="the new records")
        assert [value for value in seen if value not in OLD] == NEW
        consumer.commit()
        assert consumer.committed(tp) == OffsetAndMetadata(150, "", 0)


@everywhere
def test_a_range_member_gives_up_what_it_held_in_the_old_topic(kafka: Peer, name: str) -> None:
    make(kafka, name, OLD)
    member = RangeMember(RangeMemberSpec(f"g-{name}", kafka.bootstrap_servers, (name,)))
    try:
        wait_until(lambda: member.holding().settled, what="the member")
        (old,) = member.begin().partitions
        remake(kafka, name)
        assert member.finish({(name, 0): (100, old.fencing_token)}) == []
        wait_until(lambda: (found := member.holding()).settled and found.partitions, what="the new topic")
        (new,) = member.begin().partitions
        assert (new.position, new.topic_id != old.topic_id) == (0, True)
        assert member.finish({(name, 0): (150, new.fencing_token)}) == [TopicPartition(name, 0)]
    finally:
        member.stop()
