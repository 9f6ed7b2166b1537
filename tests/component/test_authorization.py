"""Answers to clients by their rights, in more detail than the walk (test_authorization_walk.py), which sees codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.security.acl import ANONYMOUS, AclOperation, ResourceType
from actors.settings import BrokerConfig, SettingError
from actors.wire import messages as m
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response
from tests.support.acl_world import RELAYED, World
from tests.support.acls import GROUP, TOPIC, allowed, forbidden
from tests.support.handler_helpers import AUTHORIZER
from tests.support.log_helpers import values

READ, WRITE = AclOperation.READ, AclOperation.WRITE
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
    """Nothing is written to denied topics. The allowed one between them keeps its place in the answer."""
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
    """Records that come after the right was taken go to the fetch that waited, and to no later one."""
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
    """A malformed request is refused as such before rights are checked."""
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
