"""The consumer protocol (KIP-848) with real clients: librdkafka and Java's, with `group.protocol=consumer`."""

from __future__ import annotations

from collections.abc import Mapping

import confluent_kafka
import pytest

from tests.compat.consumer_members import member
from tests.compat.driving import OPERATION_TIMEOUT_S, all_closed
from tests.compat.peers import Peer
from tests.compat.raw import create_topics
from tests.compat.remote import Remote, RemoteClient
from tests.compat.support import ONE_PROCESS, numbered_records, wait_until

pytestmark = ONE_PROCESS

PARTITIONS = 6
ALL = frozenset(range(PARTITIONS))


def committed(servers: str, name: str) -> Mapping[int, int]:
    reader = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": name})
    try:
        asked = [confluent_kafka.TopicPartition(name, each) for each in range(PARTITIONS)]
        return {each.partition: each.offset for each in reader.committed(asked, OPERATION_TIMEOUT_S)}
    finally:
        reader.close()


def produce(servers: str, name: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for index, (key, value) in enumerate(numbered_records(count)):
        producer.produce(name, value, key, partition=index % PARTITIONS)
    assert producer.flush(OPERATION_TIMEOUT_S) == 0


@pytest.mark.conformance("K-I-13", "K-I-20")
def test_a_group_of_the_consumer_protocol_grows_commits_and_shrinks(kafka: Peer, name: str) -> None:
    servers = kafka.bootstrap_servers
    create_topics(servers, {name: PARTITIONS})
    produce(servers, name, 60)
    with member(servers, name) as first:
        wait_until(lambda: first.owned() == ALL and len(first.seen()) == 60, what="all partitions, and all records")
        first.commit()
        assert committed(servers, name) == dict.fromkeys(range(PARTITIONS), 10)
        with member(servers, name) as second:
            wait_until(lambda: len(first.owned()) == len(second.owned()) == PARTITIONS // 2, what="a share for each")
            assert first.owned() | second.owned() == ALL
        wait_until(lambda: first.owned() == ALL, what="everything back")
        assert len(first.seen()) == 60, "what it has read it has not read again"


@pytest.mark.conformance("K-I-13", "K-I-20", "K-B-73")
@pytest.mark.parametrize("pattern", [False, True], ids=["by its name", "by a pattern"])
def test_javas_members_share_a_topic(kafka: Peer, java: Remote, name: str, pattern: bool) -> None:
    """A pattern is resolved by the broker."""
    servers = kafka.bootstrap_servers
    create_topics(servers, {name: PARTITIONS, f"other-{name}": 1})
    produce(servers, name, 60)
    settings = {"bootstrap.servers": servers, "group.protocol": "consumer"}
    client, topic = RemoteClient("java", java, settings), f"~{name[:-1]}." if pattern else name
    members = [client.join(servers, name, topic)]
    with all_closed(members):
        wait_until(
            lambda: members[0].owned() == ALL and len(members[0].seen()) == 60, what="all partitions and records"
        )
        members[0].commit()
        assert committed(servers, name) == dict.fromkeys(range(PARTITIONS), 10)
        members.append(client.join(servers, name, topic))
        wait_until(lambda: all(len(each.owned()) == PARTITIONS // 2 for each in members), what="a share for each")
        assert members[0].owned() | members[1].owned() == ALL
        members.pop().close()
        wait_until(lambda: members[0].owned() == ALL, what="everything back")
