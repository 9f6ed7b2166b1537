"""An Admin describes groups by either of Kafka's two requests for that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.client import Admin, TopicPartition
from actors.client.admin.types import GroupDescription
from actors.client.errors import GroupAuthorizationError
from actors.wire import messages as m
from tests.support.client_broker import ScriptedBroker, broker

Answer = m.ConsumerGroupDescribeResponse
DEAD = m.DescribeGroupsResponse.DescribedGroup(group_id="g", group_state="Dead")


@pytest.fixture
def kafka() -> Iterator[ScriptedBroker]:
    with broker() as made:
        made.versions |= {m.DescribeGroupsRequest: (0, 5), m.ConsumerGroupDescribeRequest: (0, 1)}
        made.script(m.DescribeGroupsRequest, m.DescribeGroupsResponse(groups=[DEAD]))
        yield made


def described(kafka: ScriptedBroker) -> GroupDescription:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        (group,) = admin.describe_consumer_groups(["g"])
    return group


def test_a_group_of_the_consumer_protocol_has_members_and_is_not_dead(kafka: ScriptedBroker) -> None:
    """DescribeGroups says of it that it is Dead. A pool and a stream waited for such a group to be Stable for ever."""
    topic = Answer.TopicPartitions(topic_id=b"t" * 16, topic_name="t", partitions=[0, 2])
    member = Answer.Member(
        member_id="m",
        instance_id="i",
        client_id="c",
        client_host="/127.0.0.1",
        subscribed_topic_names=["t"],
        assignment=Answer.Assignment(topic_partitions=[topic]),
        target_assignment=Answer.Assignment(),
    )
    group = Answer.DescribedGroup(group_id="g", group_state="Stable", assignor_name="uniform", members=[member])
    kafka.script(m.ConsumerGroupDescribeRequest, Answer(groups=[group]))
    found = described(kafka)
    assert (found.state, found.type, found.protocol_type, found.protocol) == (
        "Stable",
        "consumer",
        "consumer",
        "uniform",
    )
    (one,) = found.members
    assert (one.member_id, one.group_instance_id, one.client_id, one.topics) == ("m", "i", "c", ("t",))
    assert one.assignment == (TopicPartition("t", 0), TopicPartition("t", 2))
    assert found.tells_members


@pytest.mark.parametrize("code", [69, 35])
def test_what_neither_request_knows_is_dead(kafka: ScriptedBroker, code: int) -> None:
    group = Answer.DescribedGroup(error_code=code, group_id="g")
    kafka.script(m.ConsumerGroupDescribeRequest, Answer(groups=[group]))
    assert described(kafka).state == "Dead"


def test_a_kafka_without_such_groups_is_not_asked_for_them(kafka: ScriptedBroker) -> None:
    del kafka.versions[m.ConsumerGroupDescribeRequest]
    assert described(kafka).state == "Dead"
    assert kafka.requests(m.ConsumerGroupDescribeRequest) == []


def test_a_refusal_to_describe_such_a_group_is_an_error(kafka: ScriptedBroker) -> None:
    group = Answer.DescribedGroup(error_code=30, group_id="g")
    kafka.script(m.ConsumerGroupDescribeRequest, Answer(groups=[group]))
    with pytest.raises(GroupAuthorizationError):
        described(kafka)
