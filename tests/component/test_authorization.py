"""What clients are told by the rights that they have, where the walk (test_authorization_walk.py) sees only codes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from actors.security.acl import ANONYMOUS, AclOperation, PatternType, ResourceType
from actors.settings import BrokerConfig, SettingError
from actors.wire import messages as m
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response
from placement.metadata import OFFSETS_TOPIC
from tests.support.acl_world import RELAYED, World, name_id
from tests.support.acls import CLUSTER, GROUP, TOPIC, allowed, forbidden
from tests.support.handler_helpers import AUTHORIZER, Broker
from tests.support.log_helpers import values

READ, WRITE, CREATE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE
ALTER_CONFIGS = AclOperation.ALTER_CONFIGS
DESCRIBE, ALTER, ALL = AclOperation.DESCRIBE, AclOperation.ALTER, AclOperation.ALL
NOT_ASKED = -(2**31)
DENIED_TOPIC, DENIED_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED


# --- settings ---


@pytest.mark.conformance("XC-10", "XC-11")
def test_settings_of_the_authorizer() -> None:
    for name in ("", AUTHORIZER, "kafka.security.authorizer.AclAuthorizer"):
        BrokerConfig.from_mapping({"authorizer.class.name": name})
    for texts in (
        {"authorizer.class.name": "my.Authorizer"},
        {"super.users": "admin"},
        {"super.users": "User:admin;:x"},
        {"super.users": "User:"},
    ):
        with pytest.raises(SettingError):
            BrokerConfig.from_mapping(texts)
    BrokerConfig.from_mapping({"super.users": " User:CN=a,O=b ; User:c;"})


@pytest.mark.conformance("XC-10")
def test_a_super_user_may_have_commas_in_its_name(tmp_path: Path) -> None:
    world = World(tmp_path, super_users="User:CN=a,O=b;User:c")
    world.connection.principal = "User:CN=a,O=b"
    assert world.ask(m.HeartbeatRequest(group_id="g"), 4) == RELAYED
    world.connection.principal = "User:CN=a"
    assert world.ask(m.HeartbeatRequest(group_id="g"), 4).error_code == DENIED_GROUP


@pytest.mark.conformance("XC-03", "XC-05")
def test_hosts_and_principals_are_those_of_the_connection(tmp_path: Path) -> None:
    world = World(tmp_path, [allowed(READ, GROUP, "g", by="User:a", at="0:0:0:0:0:0:0:1")])
    heartbeat = m.HeartbeatRequest(group_id="g")
    world.connection.principal, world.connection.peer = "User:a", "::1"
    assert world.ask(heartbeat, 4) == RELAYED
    world.connection = world.broker.connect()
    world.connection.principal, world.connection.peer = "User:a", "::2"
    assert world.ask(heartbeat, 4).error_code == DENIED_GROUP
    world.connection = world.broker.connect()
    world.connection.principal, world.connection.peer = ANONYMOUS, "::1"
    assert world.ask(heartbeat, 4).error_code == DENIED_GROUP


@pytest.mark.conformance("XC-21", "XC-87")
def test_a_changed_acl_counts_for_the_next_request(tmp_path: Path) -> None:
    world = World(tmp_path, [allowed(READ, GROUP, "g")])
    assert world.ask(m.HeartbeatRequest(group_id="g"), 4) == RELAYED
    world.broker.allow()
    assert world.ask(m.HeartbeatRequest(group_id="g"), 4).error_code == DENIED_GROUP


@pytest.mark.conformance("XC-01")
def test_everybody_may_use_what_no_acl_is_about(tmp_path: Path) -> None:
    world = World(tmp_path, [forbidden(READ, GROUP, "g", by="User:b")], allow_everyone_if_no_acl_found="true")
    assert world.ask(m.HeartbeatRequest(group_id="other"), 4) == RELAYED
    assert world.ask(m.HeartbeatRequest(group_id="g"), 4).error_code == DENIED_GROUP


# --- the forms of denials ---


@pytest.mark.conformance("XC-30")
def test_a_denied_produce(tmp_path: Path) -> None:
    """Nothing is written, not even for the topic that is allowed beside it in the place of the other."""
    world = World(tmp_path, [allowed(WRITE, TOPIC, "t")], ["t", "secret"])
    data = m.ProduceRequest.PartitionProduceData(records=values(b"v"))
    topics = [m.ProduceRequest.TopicProduceData(name=name, partition_data=[data]) for name in ("secret", "t", "none")]
    answer = world.ask(m.ProduceRequest(acks=1, topic_data=topics), 9)
    parts = [topic.partition_responses[0] for topic in answer.responses]
    assert [part.error_code for part in parts] == [DENIED_TOPIC, 0, DENIED_TOPIC]
    assert [(part.base_offset, part.error_message) for part in parts] == [(-1, None), (0, None), (-1, None)]
    assert world.touched == ["log of t"]


@pytest.mark.conformance("XC-30")
def test_a_denied_produce_that_waits_for_no_answer_ends_its_connection(tmp_path: Path) -> None:
    world = World(tmp_path, [allowed(READ, TOPIC, "t")])
    data = m.ProduceRequest.PartitionProduceData(records=values(b"v"))
    topics = [m.ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
    assert world.ask(m.ProduceRequest(acks=0, topic_data=topics), 9) is None
    transport: Any = world.connection.transport
    assert transport.aborted
    assert world.touched == []


@pytest.mark.conformance("XC-30", "XC-36")
def test_producers_are_told_apart_from_those_for_whom_there_are_no_transactions(tmp_path: Path) -> None:
    """The code is the same, the text is not."""
    find = m.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
    produce = m.ProduceRequest(
        acks=1,
        transactional_id="x",
        topic_data=[
            m.ProduceRequest.TopicProduceData(name="t", partition_data=[m.ProduceRequest.PartitionProduceData()])
        ],
    )
    texts = []
    for acls in ([], [allowed(WRITE, ResourceType.TRANSACTIONAL_ID, "x")]):
        world = World(tmp_path, acls)
        coordinator = world.ask(find, 4).coordinators[0]
        part = world.ask(produce, 9).responses[0].partition_responses[0]
        assert coordinator.error_code == part.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        texts.append((coordinator.error_message, part.error_message))
    assert texts == [(None, None), ("transactions are not supported yet",) * 2]


@pytest.mark.conformance("XC-31")
def test_a_denied_fetch_is_answered_at_once_and_waits_for_nobody(tmp_path: Path) -> None:
    world = World(tmp_path, [allowed(READ, TOPIC, "t")], ["t", "secret"])
    part = m.FetchRequest.FetchPartition(partition_max_bytes=1000, current_leader_epoch=-1, last_fetched_epoch=-1)
    topics = [m.FetchRequest.FetchTopic(topic=name, partitions=[part]) for name in ("secret", "t")]
    request = m.FetchRequest(
        max_wait_ms=60_000, min_bytes=1000, max_bytes=1000, session_epoch=-1, topics=topics, replica_id=-1
    )
    answer = world.ask(request, 12)
    secret, mine = (topic.partitions[0] for topic in answer.responses)
    assert (secret.error_code, secret.high_watermark, secret.records) == (DENIED_TOPIC, -1, b"")
    assert mine.error_code == 0
    assert list(world.broker.context.fetches.partitions()) == []
    assert world.touched == ["log of t"]


@pytest.mark.conformance("XC-85", "XC-87")
def test_a_fetch_that_waits_is_not_judged_again(tmp_path: Path) -> None:
    """What comes after a right was taken is told to the fetch that was there, and to no other one."""
    world = World(tmp_path, [allowed(READ, TOPIC, "t"), allowed(WRITE, TOPIC, "t")])
    part = m.FetchRequest.FetchPartition(partition_max_bytes=1000, current_leader_epoch=-1, last_fetched_epoch=-1)
    fetch = m.FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        max_bytes=1000,
        session_epoch=-1,
        topics=[m.FetchRequest.FetchTopic(topic="t", partitions=[part])],
        replica_id=-1,
    )
    assert world.ask(fetch, 12) is None, "it waits"
    world.broker.allow(allowed(WRITE, TOPIC, "t"))
    other = world.broker.connect()
    reader, world.connection = world.connection, other
    data = m.ProduceRequest.PartitionProduceData(records=values(b"v"))
    topics = [m.ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
    assert world.ask(m.ProduceRequest(acks=1, topic_data=topics), 9).responses[0].partition_responses[0].error_code == 0
    world.broker.loop.turn()
    transport: Any = reader.transport
    answer = decode_response(m.FetchResponse, 12, b"".join(transport.written)[4:])[1]
    assert answer.responses[0].partitions[0].records
    assert world.ask(fetch, 12).responses[0].partitions[0].error_code == DENIED_TOPIC


@pytest.mark.conformance("XC-37")
@pytest.mark.parametrize("version", range(10))
def test_a_denied_join(tmp_path: Path, version: int) -> None:
    protocol = m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"secret")
    request = m.JoinGroupRequest(group_id="g", member_id="mine", protocol_type="consumer", protocols=[protocol])
    answer = World(tmp_path).ask(request, version)
    assert (answer.error_code, answer.generation_id, answer.leader, answer.member_id, answer.members) == (
        DENIED_GROUP, -1, "", "", [],
    )  # fmt: skip
    assert answer.protocol_name == (None if version >= 7 else "")


@pytest.mark.conformance("XC-39")
def test_a_denied_sync_and_a_sync_without_a_protocol(tmp_path: Path) -> None:
    """What is malformed comes before the check."""
    world = World(tmp_path)
    named = m.SyncGroupRequest(group_id="g", member_id="mine", protocol_type="consumer", protocol_name="range")
    answer = world.ask(named, 5)
    assert (answer.error_code, answer.assignment) == (DENIED_GROUP, b"")
    unnamed = m.SyncGroupRequest(group_id="g", member_id="mine", protocol_type=None, protocol_name="range")
    assert world.ask(unnamed, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.ask(unnamed, 4).error_code == DENIED_GROUP
    assert world.touched == []


@pytest.mark.conformance("XC-81")
def test_denials_stand_in_the_order_of_the_requests(tmp_path: Path) -> None:
    world = World(tmp_path, [allowed(READ, GROUP, "g")])
    slot = world.connection.slots.open(0, 12, 4, 1)
    assert world.ask(m.LeaveGroupRequest(group_id="no"), 5) is None, "it waits for the answer before it"
    slot.finish(b"first")
    world.connection.flush()
    transport: Any = world.connection.transport
    assert transport.written[0].startswith(b"first")
    assert len(transport.written[0]) > len(b"first")


# --- offsets ---


def commit(*names: str, version: int = 9) -> m.OffsetCommitRequest:
    r = m.OffsetCommitRequest
    parts = [r.OffsetCommitRequestPartition(partition_index=i, committed_offset=5) for i in (0, 1)]
    return r(
        group_id="g",
        member_id="mine",
        topics=[
            r.OffsetCommitRequestTopic(
                name=name, topic_id=name_id(name) if version >= 10 else bytes(16), partitions=parts
            )
            for name in names
        ],
    )


@pytest.mark.conformance("XC-34")
def test_a_commit_of_two_topics_of_which_one_is_denied(tmp_path: Path) -> None:
    """The other one is committed."""
    world = World(tmp_path, [allowed(READ, GROUP, "g"), allowed(READ, TOPIC, "t")], ["t", "secret"])
    answer = world.ask(commit("secret", "t", "none"), 9)
    rows = [(topic.name, [part.error_code for part in topic.partitions]) for topic in answer.topics]
    assert rows == [("secret", [DENIED_TOPIC] * 2), ("t", [0, 0]), ("none", [DENIED_TOPIC] * 2)]
    (asked,) = world.shards.asked
    assert [topic.name for topic in asked.topics] == ["t"]
    assert (asked.group_id, asked.member_id) == ("g", "mine")


@pytest.mark.conformance("XC-34")
def test_a_commit_by_ids(tmp_path: Path) -> None:
    """An id is judged by its name; one that no topic has is told as such."""
    world = World(tmp_path, [allowed(READ, GROUP, "g"), allowed(READ, TOPIC, "t")], ["t", "secret"])
    answer = world.ask(commit("secret", "none", "t", version=10), 10)
    assert [topic.partitions[0].error_code for topic in answer.topics] == [DENIED_TOPIC, ErrorCode.UNKNOWN_TOPIC_ID, 0]
    assert [topic.topic_id for topic in answer.topics] == [name_id(name) for name in ("secret", "none", "t")]


@pytest.mark.conformance("XC-82")
@pytest.mark.parametrize("version", [2, 5, 8, 9])
def test_who_may_read_every_topic_commits_as_ever(tmp_path: Path, version: int) -> None:
    """The request goes to its shard as it came."""
    for acls in ([allowed(READ, TOPIC, "*")], [allowed(READ, TOPIC, "t")]):
        world = World(tmp_path, [allowed(READ, GROUP, "g"), *acls])
        assert world.ask(commit("t"), version) == RELAYED
    world = World(tmp_path, [allowed(READ, GROUP, "g"), allowed(READ, TOPIC, "*"), forbidden(READ, TOPIC, "t")])
    assert world.ask(commit("t"), version).topics[0].partitions[0].error_code == DENIED_TOPIC


def all_offsets(version: int) -> m.OffsetFetchRequest:
    r = m.OffsetFetchRequest
    if version < 8:
        return r(group_id="g", topics=None)
    return r(groups=[r.OffsetFetchRequestGroup(group_id="g", topics=None)])


@pytest.mark.conformance("XC-35", "XC-83")
@pytest.mark.parametrize("version", range(2, 11))
def test_a_fetch_of_all_offsets_leaves_out_what_may_not_be_seen(tmp_path: Path, version: int) -> None:
    world = World(tmp_path, [allowed(DESCRIBE, GROUP, "g"), allowed(DESCRIBE, TOPIC, "t")], ["t", "other"])
    answer = world.ask(all_offsets(version), version)
    topics = answer.groups[0].topics if version >= 8 else answer.topics
    assert [topic.topic_id == name_id("t") if version >= 10 else topic.name == "t" for topic in topics] == [True]
    assert topics[0].partitions[0].error_code == 0
    everywhere = World(tmp_path, [allowed(ALL, GROUP, "*"), allowed(ALL, TOPIC, "*")])
    assert everywhere.ask(all_offsets(version), version) == RELAYED


@pytest.mark.conformance("XC-35")
@pytest.mark.parametrize("version", range(1, 11))
def test_a_fetch_of_two_topics_of_which_one_is_denied(tmp_path: Path, version: int) -> None:
    world = World(tmp_path, [allowed(READ, GROUP, "g"), allowed(READ, TOPIC, "t")], ["t", "secret"])
    r = m.OffsetFetchRequest
    make: Any = r.OffsetFetchRequestTopic if version < 8 else r.OffsetFetchRequestTopics
    topics = [
        make(partition_indexes=[0], **({"topic_id": name_id(name)} if version >= 10 else {"name": name}))
        for name in ("secret", "t")
    ]
    request = r(group_id="g", topics=topics) if version < 8 else r(
        groups=[r.OffsetFetchRequestGroup(group_id="g", topics=topics)]
    )  # fmt: skip
    answer = world.ask(request, version)
    found = answer.groups[0].topics if version >= 8 else answer.topics
    rows = [(t.topic_id if version >= 10 else t.name, t.partitions[0]) for t in found]
    mine, secret = (name_id("t"), name_id("secret")) if version >= 10 else ("t", "secret")
    assert [(name, p.error_code, p.committed_offset) for name, p in rows] == [(mine, 0, 5), (secret, DENIED_TOPIC, -1)]


@pytest.mark.conformance("XC-35")
@pytest.mark.parametrize("version", range(1, 11))
def test_a_denied_fetch_of_offsets(tmp_path: Path, version: int) -> None:
    """Versions 0 and 1 have no field for the group's error, so each partition has it."""
    r = m.OffsetFetchRequest
    topic: Any = (r.OffsetFetchRequestTopic if version < 8 else r.OffsetFetchRequestTopics)(partition_indexes=[0, 1])
    if version < 10:
        topic.name = "t"
    request = r(group_id="g", topics=[topic]) if version < 8 else r(
        groups=[r.OffsetFetchRequestGroup(group_id="g", topics=[topic])]
    )  # fmt: skip
    answer = World(tmp_path).ask(request, version)
    if version >= 8:
        assert [(g.error_code, g.topics) for g in answer.groups] == [(DENIED_GROUP, [])]
    elif version >= 2:
        assert (answer.error_code, answer.topics) == (DENIED_GROUP, [])
    else:
        assert [p.error_code for p in answer.topics[0].partitions] == [DENIED_GROUP] * 2


@pytest.mark.conformance("XC-60")
def test_a_deletion_of_offsets_of_two_topics_of_which_one_is_denied(tmp_path: Path) -> None:
    r = m.OffsetDeleteRequest
    topics = [
        r.OffsetDeleteRequestTopic(name=name, partitions=[r.OffsetDeleteRequestPartition(partition_index=0)])
        for name in ("secret", "t")
    ]
    world = World(tmp_path, [allowed(DELETE, GROUP, "g"), allowed(READ, TOPIC, "t")])
    answer = world.ask(r(group_id="g", topics=topics), 0)
    assert [(t.name, t.partitions[0].error_code) for t in answer.topics] == [("secret", DENIED_TOPIC), ("t", 0)]


# --- groups ---


@pytest.mark.conformance("XC-41")
def test_groups_that_may_not_be_seen_are_not_listed(tmp_path: Path) -> None:
    acls = [allowed(READ, GROUP, "oth", pattern=PatternType.PREFIXED)]
    assert [g.group_id for g in World(tmp_path, acls).ask(m.ListGroupsRequest(), 5).groups] == ["other"]
    all_groups = World(tmp_path, [allowed(DESCRIBE, CLUSTER)]).ask(m.ListGroupsRequest(), 5)
    assert [g.group_id for g in all_groups.groups] == ["g", "other"]


@pytest.mark.conformance("XC-40", "XC-56", "XC-84")
def test_denied_groups_keep_their_places(tmp_path: Path) -> None:
    world = World(tmp_path, [allowed(DELETE, GROUP, "g")])
    described = world.ask(
        m.DescribeGroupsRequest(groups=["no", "g", "nor"], include_authorized_operations=True), 5
    ).groups
    assert [(g.group_id, g.error_code, g.group_state, g.authorized_operations) for g in described] == [
        ("no", DENIED_GROUP, "", NOT_ASKED),
        ("g", 0, "Stable", 1 << 6 | 1 << 8),
        ("nor", DENIED_GROUP, "", NOT_ASKED),
    ]
    deleted = world.ask(m.DeleteGroupsRequest(groups_names=["no", "g", "no"]), 2).results
    assert [(r.group_id, r.error_code) for r in deleted] == [("no", DENIED_GROUP), ("g", 0)]
    assert [asked.groups_names for asked in world.shards.asked[1:]] == [["g"]]


# --- topics ---


def metadata(*names: str, create: bool = True) -> m.MetadataRequest:
    topics = [m.MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return m.MetadataRequest(
        topics=topics or None,
        allow_auto_topic_creation=create,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )


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


@pytest.mark.conformance("XC-71")
def test_topics_are_created_for_who_may_create_them(tmp_path: Path) -> None:
    reader = World(tmp_path, [allowed(READ, TOPIC, "new")])
    assert [topic.error_code for topic in reader.ask(metadata("new"), 10).topics] == [DENIED_TOPIC]
    assert reader.ask(metadata("new", create=False), 10).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reader.touched == []
    for right in (allowed(CREATE, TOPIC, "new"), allowed(CREATE, CLUSTER)):
        world = World(tmp_path, [allowed(READ, TOPIC, "new"), right])
        assert [topic.error_code for topic in world.ask(metadata("new"), 10).topics] == [0]
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
    """Nor by who may."""
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


# --- without an authorizer, and what is logged ---


@pytest.mark.conformance("XC-14", "XC-77", "XC-88")
def test_without_an_authorizer_nothing_is_asked(tmp_path: Path) -> None:
    world = World(tmp_path, authorizer_class_name="")
    assert world.broker.context.authorizer is None
    assert world.ask(commit("t"), 9) == RELAYED
    assert world.ask(metadata(), 10).cluster_authorized_operations == 8096
    filters = m.DeleteAclsRequest.DeleteAclsFilter()
    assert world.ask(m.DescribeAclsRequest(), 3).error_code == ErrorCode.SECURITY_DISABLED
    assert (
        world.ask(m.DeleteAclsRequest(filters=[filters]), 3).filter_results[0].error_code == ErrorCode.SECURITY_DISABLED
    )
    created = world.ask(m.CreateAclsRequest(creations=[m.CreateAclsRequest.AclCreation()] * 2), 3)
    assert [result.error_code for result in created.results] == [ErrorCode.SECURITY_DISABLED] * 2


class Counted:
    """A broker's context that counts how often a part of it is looked for."""

    def __init__(self, context: Any, counted: str) -> None:
        self.context = context
        self.counted = counted
        self.times = 0

    def __getattr__(self, name: str) -> Any:
        if name == self.counted:
            self.times += 1
        return getattr(self.context, name)


@pytest.mark.conformance("XC-88", "XD-08")
@pytest.mark.parametrize("part", ["authorizer", "quotas"])
def test_without_an_authorizer_or_quotas_one_look_is_all_that_a_request_of_a_group_costs(
    tmp_path: Path, part: str
) -> None:
    world = World(tmp_path, authorizer_class_name="")
    counted: Any = Counted(world.broker.context, part)
    world.door._broker = counted
    assert world.ask(commit("t"), 9) == RELAYED
    assert counted.times == 1


def audited(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    found = [(r.levelno, r.getMessage()) for r in caplog.records if r.name == "coterie.audit"]
    caplog.clear()
    return found


@pytest.mark.conformance("XC-09")
def test_denials_are_logged_once_a_second(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "coterie.audit")
    world = World(tmp_path, [allowed(READ, GROUP, "g"), forbidden(READ, TOPIC, "t")])
    for _ in range(3):
        world.ask(m.HeartbeatRequest(group_id="a\n'b"), 4)
    world.ask(m.HeartbeatRequest(group_id="g"), 4)
    assert audited(caplog) == [
        (
            logging.INFO,
            r"""denied 'User:ANONYMOUS' at 127.0.0.1: READ on Group "a\n'b" for Heartbeat, """
            "rule: no ACL is about the resource",
        )
    ]
    world.broker.loop.now += 1.0
    world.ask(commit("t"), 9)
    (_, more), (_, other) = audited(caplog)
    assert more.endswith("2 more times")
    assert other == (
        "denied 'User:ANONYMOUS' at 127.0.0.1: READ on Topic 't' for OffsetCommit, "
        "rule: DENY READ of 'User:ANONYMOUS' at '*' on LITERAL 't'"
    )


@pytest.mark.conformance("XC-09")
def test_what_is_allowed_is_logged_for_who_wants_it_and_lists_are_no_denials(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "coterie.audit")
    world = World(tmp_path, [allowed(READ, GROUP, "g")])
    world.ask(m.HeartbeatRequest(group_id="g"), 4)
    ((level, text),) = audited(caplog)
    assert (level, text.split(":")[0]) == (logging.DEBUG, "allowed 'User")
    world.ask(m.ListGroupsRequest(), 5)
    world.ask(metadata(), 10)
    assert audited(caplog) == []


@pytest.mark.conformance("XC-09")
def test_made_up_names_do_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "coterie.audit")
    world = World(tmp_path)
    for number in range(1_100):
        world.ask(m.HeartbeatRequest(group_id=f"{number}" + "x" * 1_000), 4)
    lines = audited(caplog)
    assert len(lines) == 1_000
    assert max(len(text) for _, text in lines) < 450
    world.broker.loop.now += 1.0
    world.ask(m.HeartbeatRequest(group_id="g"), 4)
    assert audited(caplog)[0][1] == "100 more decisions, which are too many to list"
