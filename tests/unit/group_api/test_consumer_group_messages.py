"""ConsumerGroupHeartbeat and ConsumerGroupDescribe between the wire and the coordinator, by Kafka's bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.coordinator.consumer import messages as core
from actors.coordinator.consumer.validation import check
from actors.group_api import MODULES, Topics, consumer_group_describe, consumer_group_heartbeat, error_answer
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode
from actors.wire.framing import RequestHeader, decode_request_header, decode_response, encode_request
from actors.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OffsetFetchRequest,
)
from actors.wire.operations import GROUP_OPERATIONS

T1 = bytes(range(16))
HOST = "/10.0.0.9"
NO_TOPICS = Topics()

JOIN = core.ConsumerGroupHeartbeatRequest(
    group_id="g1",
    member_id="A",
    member_epoch=0,
    rebalance_timeout_ms=300_000,
    subscribed_topic_names=("foo",),
    topic_partitions={},
    client_id="tests",
    client_host=HOST,
)
BEAT = core.ConsumerGroupHeartbeatRequest("g1", "A", 1, client_id="tests", client_host=HOST)


def header(
    version: int, api: ApiKey = ApiKey.CONSUMER_GROUP_HEARTBEAT, client_id: str | None = "tests"
) -> RequestHeader:
    return RequestHeader(int(api), version, 7, client_id, 0)


def beat(text: str, version: int = 1) -> core.ConsumerGroupHeartbeatRequest:
    """The coordinator's request that these bytes make."""
    message = ConsumerGroupHeartbeatRequest.decode(bytes.fromhex(text), version)
    assert message.encode(version).hex() == text
    return consumer_group_heartbeat.parse(header(version), message, HOST, NO_TOPICS)


@pytest.mark.conformance("K-A-67", "K-A-07")
def test_a_join() -> None:
    assert beat("0367310241000000000000000493e00204666f6f00000100") == JOIN


@pytest.mark.conformance("K-A-68", "K-A-03")
def test_a_join_of_version_0_has_no_expression() -> None:
    found = beat("0367310241000000000000000493e00204666f6f000100", 0)
    assert (found.subscribed_topic_regex, found.subscribed_topic_names, found.api_version) == (None, ("foo",), 0)


@pytest.mark.conformance("K-A-69")
def test_a_heartbeat_that_says_nothing_new() -> None:
    assert beat("0367310241000000010000ffffffff0000000000") == BEAT


@pytest.mark.conformance("K-A-70")
def test_a_heartbeat_that_says_what_is_owned() -> None:
    owned = "02000102030405060708090a0b0c0d0e0f040000000000000001000000020000"
    found = beat(f"0367310241000000010000ffffffff000000{owned}")
    assert found.topic_partitions == {T1: frozenset((0, 1, 2))}


@pytest.mark.conformance("K-A-71")
def test_a_leave() -> None:
    found = beat("0367310241ffffffff0000ffffffff0000000000")
    assert (found.member_epoch, found.is_leave) == (-1, True)


def test_what_is_owned_is_one_set_however_it_is_written() -> None:
    owned = ConsumerGroupHeartbeatRequest.TopicPartitions
    rows = [owned(topic_id=T1, partitions=[2, 0]), owned(topic_id=T1, partitions=[2, 1]), owned(topic_id=bytes(16))]
    message = ConsumerGroupHeartbeatRequest(group_id="g1", member_id="A", topic_partitions=rows)
    parsed = consumer_group_heartbeat.parse(header(1), message, HOST, NO_TOPICS)
    assert parsed.topic_partitions == {T1: frozenset((0, 1, 2)), bytes(16): frozenset()}


@pytest.mark.conformance("K-A-25")
def test_a_member_joined_though_it_named_a_topic_as_its_own_of_which_it_has_no_partition() -> None:
    """Kafka refuses the list, because it is not empty."""
    row = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=T1)
    message = ConsumerGroupHeartbeatRequest(
        group_id="g1", member_id="A", rebalance_timeout_ms=1, subscribed_topic_names=["foo"], topic_partitions=[row]
    )
    refusal = check(consumer_group_heartbeat.parse(header(1), message, HOST, NO_TOPICS), ("uniform",))
    assert refusal is not None
    assert refusal.error == ErrorCode.INVALID_REQUEST


def test_a_client_without_an_id_has_an_empty_one() -> None:
    message = ConsumerGroupHeartbeatRequest(group_id="g1", member_id="A")
    assert consumer_group_heartbeat.parse(header(1, client_id=None), message, HOST, NO_TOPICS).client_id == ""


OWNED = {T1: frozenset((0, 1, 2))}
ANSWERS = {
    "0000000000000002410000000100001388" + "0102000102030405060708090a0b0c0d0e0f04000000000000000100000002000000": (
        core.ConsumerGroupHeartbeatResponse(0, None, "A", 1, 5000, OWNED)
    ),
    "0000000000000002410000000200001388ff00": core.ConsumerGroupHeartbeatResponse(0, None, "A", 2, 5000),
    "000000000000000242000000020000138801010000": core.ConsumerGroupHeartbeatResponse(0, None, "B", 2, 5000, {}),
    "00000000006e00000000000000000000ff00": core.ConsumerGroupHeartbeatResponse(110),
}


@pytest.mark.conformance("K-A-72", "K-A-73", "K-A-74", "K-A-75", "K-A-12")
@pytest.mark.parametrize(("text", "answer"), ANSWERS.items())
@pytest.mark.parametrize("version", [0, 1])
def test_an_answer(text: str, answer: core.ConsumerGroupHeartbeatResponse, version: int) -> None:
    asked = ConsumerGroupHeartbeatRequest()
    assert consumer_group_heartbeat.answer(asked, answer, version, NO_TOPICS).encode(version).hex() == text


@pytest.mark.conformance("K-A-76")
def test_a_question_for_a_description() -> None:
    message = ConsumerGroupDescribeRequest.decode(bytes.fromhex("020367310000"), 1)
    assert message.encode(1).hex() == "020367310000"
    asked = consumer_group_describe.parse(header(1, ApiKey.CONSUMER_GROUP_DESCRIBE), message, HOST, NO_TOPICS)
    assert asked == core.ConsumerGroupDescribeRequest(("g1",))


def described() -> core.ConsumerGroupDescribeResponse:
    topics = (core.DescribedTopic(T1, "foo", (0, 1)),)
    member = core.DescribedMember("A", "i", "r", 3, "c", HOST, ("foo",), "", topics, (), 1)
    group = core.DescribedConsumerGroup("g1", 0, None, "Stable", 3, 2, "range", (member,))
    return core.ConsumerGroupDescribeResponse((group, core.DescribedConsumerGroup("g2", 69, "none")))


@pytest.mark.conformance("K-A-04", "K-A-57", "K-A-58", "K-A-66")
@pytest.mark.parametrize(("version", "member_type"), [(0, -1), (1, 1)])
@pytest.mark.parametrize(("asks", "operations"), [(True, GROUP_OPERATIONS), (False, -(2**31))])
def test_a_description(version: int, member_type: int, asks: bool, operations: int) -> None:
    asked = ConsumerGroupDescribeRequest(group_ids=["g1", "g2"], include_authorized_operations=asks)
    made = consumer_group_describe.answer(asked, described(), version, NO_TOPICS)
    one, other = ConsumerGroupDescribeResponse.decode(made.encode(version), version).groups
    said = (one.group_id, one.error_code, one.group_state, one.group_epoch, one.assignment_epoch, one.assignor_name)
    assert said == ("g1", 0, "Stable", 3, 2, "range")
    assert one.authorized_operations == operations
    (m,) = one.members
    assert (m.member_id, m.instance_id, m.rack_id, m.member_epoch, m.client_id, m.client_host) == (
        *("A", "i", "r", 3, "c"),
        HOST,
    )
    assert (m.subscribed_topic_names, m.subscribed_topic_regex, m.member_type) == (["foo"], "", member_type)
    assert m.assignment is not None
    assert [(t.topic_id, t.topic_name, t.partitions) for t in m.assignment.topic_partitions] == [(T1, "foo", [0, 1])]
    assert m.target_assignment is not None
    assert m.target_assignment.topic_partitions == []
    assert (other.group_id, other.error_code, other.error_message) == ("g2", 69, "none")
    assert other.authorized_operations == -(2**31)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
@pytest.mark.parametrize("key", [ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE])
@pytest.mark.conformance("K-A-12", "K-A-30")
def test_an_error_that_is_answered_without_a_shard(key: ApiKey, code: ErrorCode) -> None:
    asked = ConsumerGroupDescribeRequest(group_ids=["g1"])
    message = asked if key is ApiKey.CONSUMER_GROUP_DESCRIBE else ConsumerGroupHeartbeatRequest(group_id="g1")
    frame = encode_request(message, 1, 9, "tests")[4:]
    answer = error_answer(decode_request_header(frame), frame, code)
    if key is ApiKey.CONSUMER_GROUP_DESCRIBE:
        groups = decode_response(ConsumerGroupDescribeResponse, 1, answer[4:])[1].groups
        assert [(each.group_id, each.error_code) for each in groups] == [("g1", code)]
    else:
        said = decode_response(ConsumerGroupHeartbeatResponse, 1, answer[4:])[1]
        assert (said.error_code, said.member_id, said.member_epoch, said.assignment) == (code, None, 0, None)


@pytest.mark.conformance("K-A-01")
def test_the_versions_that_are_served() -> None:
    assert MODULES[68].VERSIONS == MODULES[69].VERSIONS == (0, 1)
    assert ConsumerGroupHeartbeatRequest.flexible_from == ConsumerGroupDescribeRequest.flexible_from == 0


@pytest.mark.conformance("K-A-05", "K-D-15", "K-D-16")
def test_a_fetch_of_offsets_names_its_member_from_version_9_on() -> None:
    """An empty id is one; without any id, and without an epoch, anybody asks."""
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    for member, epoch in (("A", 3), ("", -1), (None, -1)):
        request = OffsetFetchRequest(groups=[group(group_id="g1", member_id=member, member_epoch=epoch, topics=None)])
        for version in (8, 9, 10):
            read = OffsetFetchRequest.decode(request.encode(version), version)
            asked = MODULES[9].parse(header(version, ApiKey.OFFSET_FETCH), read, HOST, NO_TOPICS)
            assert (asked.member_id, asked.member_epoch) == ((member, epoch) if version >= 9 else (None, -1))
    old = OffsetFetchRequest(group_id="g1", topics=None)
    asked = MODULES[9].parse(header(7, ApiKey.OFFSET_FETCH), old, HOST, NO_TOPICS)
    assert (asked.member_id, asked.member_epoch) == (None, -1)


@pytest.mark.parametrize("version", range(consumer_group_describe.VERSIONS[1] + 1))
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 300])
def test_an_answer_in_pieces_has_the_bytes_of_one_that_was_made_at_once(version: int, size: int) -> None:
    topics = (core.DescribedTopic(T1, "foo", tuple(range(size))),)
    members = tuple(
        core.DescribedMember(f"m-{n}", None, "r", n, "c", HOST, ("foo", "bar"), "" if n % 2 else None, topics, ())
        for n in range(size)
    )
    group = core.DescribedConsumerGroup("g", state="Stable", group_epoch=3, members=members)
    other = core.DescribedConsumerGroup("h", 69, "no such group")
    whole = core.ConsumerGroupDescribeResponse((group, other, group))
    for also in (False, True):
        m = ConsumerGroupDescribeRequest(group_ids=["g", "h", "g"], include_authorized_operations=also)
        told = consumer_group_describe.Description(version)
        told.add(core.MembersDescribed(0, ((0, members[:100]),)))
        told.add(core.MembersDescribed(0, ((0, members[100:]), (2, members[:50]))))
        rest = core.ConsumerGroupDescribeResponse(
            (replace(group, members=()), other, replace(group, members=members[50:]))
        )
        assert told.body(m, rest) == consumer_group_describe.answer(m, whole, version, NO_TOPICS).encode(version)


def test_what_was_told_of_a_group_is_no_part_of_its_refusal() -> None:
    member = core.DescribedMember("m", None, None, 1, "c", HOST, (), None, (), ())
    m = ConsumerGroupDescribeRequest(group_ids=["g"])
    refused = core.ConsumerGroupDescribeRequest(("g",)).refused(16)
    told = consumer_group_describe.Description(1)
    told.add(core.MembersDescribed(0, ((0, (member,)),)))
    assert told.body(m, refused) == consumer_group_describe.answer(m, refused, 1, NO_TOPICS).encode(1)
