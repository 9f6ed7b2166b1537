"""Answers about topics and the cluster by the rights of the client."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.security.acl import AclOperation
from actors.wire import messages as m
from actors.wire.errors import ErrorCode
from placement.metadata import OFFSETS_TOPIC
from tests.support.acl_requests import metadata
from tests.support.acl_world import World, name_id
from tests.support.acls import CLUSTER, GROUP, TOPIC, allowed
from tests.support.handler_helpers import AUTHORIZER, Broker

READ, WRITE, CREATE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE
DESCRIBE, ALTER, ALTER_CONFIGS = AclOperation.DESCRIBE, AclOperation.ALTER, AclOperation.ALTER_CONFIGS
ALL = AclOperation.ALL
DENIED_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NOT_ASKED = -(2**31)


@pytest.mark.conformance("XC-33", "XC-70", "XC-72", "XC-78")
def test_metadata_tells_nothing_of_what_may_not_be_seen(tmp_path: Path) -> None:
    world = World(tmp_path, [allowed(READ, TOPIC, "t"), allowed(DESCRIBE, CLUSTER)], ["t", "secret"])
    all_topics = world.ask(metadata(), 10)
    assert [(topic.name, topic.topic_authorized_operations) for topic in all_topics.topics] == [("t", 1 << 3 | 1 << 8)]
    assert all_topics.cluster_authorized_operations == 1 << 8
    named = world.ask(metadata("secret", "none", OFFSETS_TOPIC), 10).topics
    for topic in named:
        assert (topic.error_code, topic.topic_id, topic.is_internal, topic.partitions) == (
            DENIED_TOPIC, bytes(16), False, [],
        )  # fmt: skip
        assert topic.topic_authorized_operations == NOT_ASKED
    by_id = m.MetadataRequest(
        topics=[
            m.MetadataRequest.MetadataRequestTopic(name=None, topic_id=name_id(name))
            for name in ("secret", "none", "t")
        ]
    )
    rows = [(topic.error_code, topic.name, topic.topic_id) for topic in world.ask(by_id, 12).topics]
    assert rows == [
        (DENIED_TOPIC, None, name_id("secret")),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, name_id("none")),
        (0, "t", name_id("t")),
    ]


@pytest.mark.conformance("XC-53")
@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("kind", [m.AlterConfigsRequest, m.IncrementalAlterConfigsRequest])
def test_settings_of_several_resources_are_changed_by_the_right_on_each(tmp_path: Path, kind, validate_only) -> None:
    world = World(tmp_path, [allowed(ALTER_CONFIGS, TOPIC, "t")], ["t", "secret"])
    named = [(2, "secret"), (2, "t"), (32, "g"), (4, "0"), (2, "none"), (2, "twice"), (2, "twice")]
    resources = [kind.AlterConfigsResource(resource_type=type_, resource_name=name) for type_, name in named]
    results = world.ask(kind(resources=resources, validate_only=validate_only), 1).responses
    assert [(each.resource_type, each.resource_name) for each in results] == named
    denied = [DENIED_TOPIC, 0, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    twice = [ErrorCode.INVALID_REQUEST] * 2  # before rights
    assert [each.error_code for each in results] == [*denied, DENIED_TOPIC, *twice]


@pytest.mark.conformance("XC-71")
def test_topics_are_created_for_who_may_create_them(tmp_path: Path) -> None:
    reader = World(tmp_path, [allowed(READ, TOPIC, "new")])
    assert [topic.error_code for topic in reader.ask(metadata("new"), 10).topics] == [DENIED_TOPIC]
    assert reader.ask(metadata("new", create=False), 10).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reader.touched == []
    for right in (allowed(CREATE, TOPIC, "new"), allowed(CREATE, CLUSTER)):
        world = World(tmp_path, [allowed(READ, TOPIC, "new"), right])
        looks = [world.ask(metadata("new"), 10).topics[0].error_code for _ in range(2)]
        assert looks == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
        assert world.touched == ["create_topics"]


@pytest.mark.conformance("XC-71")
def test_who_may_create_but_not_see_a_topic_creates_none_by_asking(tmp_path: Path) -> None:
    """CREATE does not give DESCRIBE."""
    world = World(tmp_path, [allowed(CREATE, TOPIC, "new"), allowed(CREATE, CLUSTER)])
    assert world.ask(metadata("new"), 10).topics[0].error_code == DENIED_TOPIC
    assert world.touched == []


@pytest.mark.conformance("XC-74")
def test_the_offsets_topic_is_made_for_who_may_see_a_group(tmp_path: Path) -> None:
    """Without a right to create topics."""
    broker = Broker(tmp_path, authorizer_class_name=AUTHORIZER, offsets_topic_replication_factor="1")
    broker.allow(allowed(READ, GROUP, "g"))
    for _ in range(2):
        found = broker.ask(m.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4).coordinators[0]
    assert found.error_code == 0
    assert broker.controller.operations == ["create_offsets_topic"]


@pytest.mark.conformance("XC-64", "XC-78")
def test_a_bit_field_of_a_cluster_that_may_not_be_described_is_empty(tmp_path: Path) -> None:
    world = World(tmp_path, [allowed(ALTER_CONFIGS, CLUSTER)])
    request = m.DescribeClusterRequest(include_cluster_authorized_operations=True, endpoint_type=1)
    assert world.ask(request, 2).cluster_authorized_operations == 0
    world.broker.allow(allowed(ALTER, CLUSTER))
    assert world.ask(request, 2).cluster_authorized_operations == 1 << 7 | 1 << 8


@pytest.mark.conformance("XC-68", "XC-78")
def test_described_pages_leave_out_what_may_not_be_seen(tmp_path: Path) -> None:
    world = World(tmp_path, [allowed(WRITE, TOPIC, "t"), allowed(WRITE, TOPIC, "none")], ["t", "secret"])
    r = m.DescribeTopicPartitionsRequest
    everything = world.ask(r(topics=[], response_partition_limit=100), 0)
    assert [(topic.name, topic.topic_authorized_operations) for topic in everything.topics] == [("t", 1 << 4 | 1 << 8)]
    named = [r.TopicRequest(name=name) for name in ("none", "secret", "t")]
    rows = [
        (topic.name, topic.error_code, topic.topic_authorized_operations, len(topic.partitions))
        for topic in world.ask(r(topics=named, response_partition_limit=100), 0).topics
    ]
    assert rows == [
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 1 << 4 | 1 << 8, 0),
        ("secret", DENIED_TOPIC, NOT_ASKED, 0),
        ("t", 0, 1 << 4 | 1 << 8, 1),
    ]


@pytest.mark.conformance("XC-43")
def test_created_topics_show_their_settings_to_who_may_see_them(tmp_path: Path) -> None:
    world = World(
        tmp_path, [allowed(CREATE, TOPIC, "new"), allowed(CREATE, TOPIC, "open"), allowed(ALL, TOPIC, "open")]
    )
    topics = [
        m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        for name in ("new", "twice", "open", "secret", "twice")
    ]
    new, twice, opened, secret, again = world.ask(m.CreateTopicsRequest(topics=topics), 7).topics
    assert (new.error_code, new.topic_config_error_code, new.num_partitions, new.replication_factor, new.configs) == (
        0, DENIED_TOPIC, -1, -1, [],
    )  # fmt: skip
    assert (opened.error_code, opened.topic_config_error_code, opened.num_partitions) == (0, 0, 2)
    assert opened.configs
    assert (secret.error_code, secret.error_message) == (DENIED_TOPIC, "Authorization failed.")
    assert twice.error_code == again.error_code == ErrorCode.INVALID_REQUEST
    assert set(world.broker.metadata.topics) >= {"new", "open"}
    assert "secret" not in world.broker.metadata.topics


@pytest.mark.conformance("XC-44")
def test_topics_that_are_named_twice_are_not_deleted_by_who_may_not(tmp_path: Path) -> None:
    """The right to delete does not matter: the request is invalid."""
    for acls in ([], [allowed(DELETE, TOPIC, "t")]):
        world = World(tmp_path, acls)
        answer = world.ask(m.DeleteTopicsRequest(topic_names=["t", "t"]), 5)
        assert [topic.error_code for topic in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
        assert "t" in world.broker.metadata.topics
        assert world.touched == []


@pytest.mark.conformance("XC-44")
def test_deleted_by_id_and_by_name(tmp_path: Path) -> None:
    """The answers have the order of the request."""
    acls = [allowed(DELETE, TOPIC, "mine"), allowed(READ, TOPIC, "seen")]
    world = World(tmp_path, acls, ["mine", "seen", "secret"])
    r = m.DeleteTopicsRequest
    state = r.DeleteTopicState
    asked = [state(name=None, topic_id=name_id(name)) for name in ("secret", "seen", "none", "mine")]
    answer = world.ask(r(topics=[*asked, state(name=None), state(name="secret", topic_id=name_id("secret"))]), 6)
    assert [(t.name, t.error_code) for t in answer.responses] == [
        (None, DENIED_TOPIC),
        ("seen", DENIED_TOPIC),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ("mine", 0),
        (None, ErrorCode.INVALID_REQUEST),
        ("secret", ErrorCode.INVALID_REQUEST),
    ]
    assert {"seen", "secret"} < set(world.broker.metadata.topics)


@pytest.mark.conformance("XC-44")
def test_a_cluster_wide_right_to_delete_does_not_show_names(tmp_path: Path) -> None:
    world = World(tmp_path, [allowed(DELETE, CLUSTER)])
    by_name = world.ask(m.DeleteTopicsRequest(topic_names=["t", "none"]), 5)
    assert [topic.error_code for topic in by_name.responses] == [DENIED_TOPIC] * 2
    r = m.DeleteTopicsRequest
    (by_id,) = world.ask(r(topics=[r.DeleteTopicState(name=None, topic_id=name_id("t"))]), 6).responses
    assert by_id.error_code == 0
