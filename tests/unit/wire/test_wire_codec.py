"""The generated codec against kio's reader and writer, and against bytes that are not what they should be."""

from __future__ import annotations

import importlib
import json

import pytest
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from actors.wire.errors import TooManyEntriesError, WireError
from actors.wire.framing import (
    decode_request_header,
    decode_response,
    encode_large_response,
    encode_request,
    encode_response,
)
from actors.wire.messages import (
    ApiVersionsResponse,
    ConsumerGroupHeartbeatRequest,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    MetadataRequest,
    OffsetFetchRequest,
    message_class,
)
from actors.wire.varints import uvarint
from tests.support.random_messages import random_message
from tools.generate_messages import APIS, WIRE, stub


def messages_of_every_version() -> list[tuple[str, str, int]]:
    """Those that kio knows. tests/compat/test_message_schemas.py has Kafka's own classes read all."""
    found = []
    for api in APIS:
        for version, entities in schema_name_map[api].items():
            found += [(api, entities[e].split(":")[1], version) for e in (EntityType.request, EntityType.response)]
    return found


@pytest.mark.parametrize("version", range(10))
def test_a_tagged_field_of_ours_is_sent_where_there_are_tags(version: int) -> None:
    request = JoinGroupRequest(group_id="g", member_id="m", expected_members=3, process="pool pid 7")
    plain = encode_request(JoinGroupRequest(group_id="g", member_id="m"), version, 1, "c")
    sent = encode_request(request, version, 1, "c")
    assert (sent == plain) is (version < 6)
    body = decode_request_header(sent, 4).body_offset
    heard = JoinGroupRequest.decode(sent, version, body)
    assert (heard.expected_members, heard.process) == ((3, "pool pid 7") if version >= 6 else (0, ""))


@pytest.mark.parametrize("version", [0, 1])
def test_what_a_heartbeat_says_of_its_process_stands_behind_all_that_kafka_knows(version: int) -> None:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", process="pool pid 7")
    plain = encode_request(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m"), version, 1, "c")
    sent = encode_request(request, version, 1, "c")
    assert sent[4 : len(plain) - 1] == plain[4:-1]
    body = decode_request_header(sent, 4).body_offset
    assert ConsumerGroupHeartbeatRequest.decode(sent, version, body).process == "pool pid 7"


@pytest.mark.parametrize(("api", "name", "version"), messages_of_every_version())
def test_bytes_equal_those_of_kio(api: str, name: str, version: int) -> None:
    cls = message_class(name)
    module = importlib.import_module(
        f"kio.schema.{api}.v{version}.{'request' if name.endswith('Request') else 'response'}"
    )
    kio_class = getattr(module, name)
    read = entity_reader(kio_class)
    write = entity_writer(kio_class)
    for seed in range(8):
        message = random_message(cls, version, seed)
        ours = message.encode(version)
        theirs, size = read(ours, 0)
        assert size == len(ours)
        buffer = __import__("io").BytesIO()
        write(buffer, theirs)
        assert buffer.getvalue() == ours
        assert cls.decode(ours, version) == message


def test_type_checkers_are_told_what_the_schema_has() -> None:
    assert (WIRE / "messages.pyi").read_text() == stub(json.loads((WIRE / "schema.json").read_text()))


def test_unknown_tagged_fields_are_skipped() -> None:
    body = HeartbeatRequest(group_id="g", member_id="m").encode(4)
    tagged = body[:-1] + b"\x02" + b"\x05\x03abc" + b"\x63\x00"
    assert HeartbeatRequest.decode(tagged, 4) == HeartbeatRequest(group_id="g", member_id="m")


@pytest.mark.parametrize("version", [0, 4])
def test_every_truncation_is_a_wire_error(version: int) -> None:
    body = HeartbeatRequest(group_id="group", generation_id=3, member_id="member").encode(version)
    for size in range(len(body)):
        with pytest.raises(WireError, match="HeartbeatRequest"):
            HeartbeatRequest.decode(body[:size], version)


def test_a_huge_array_count_is_refused_before_anything_is_made() -> None:
    with pytest.raises(WireError):
        MetadataRequest.decode(b"\x7f\xff\xff\xff", 4)
    with pytest.raises(WireError):
        MetadataRequest.decode(b"\xff\xff\xff\xff\x0f", 12)


def test_null_where_null_may_not_be_is_refused() -> None:
    with pytest.raises(WireError, match="null"):
        HeartbeatRequest.decode(b"\xff\xff\x00\x00\x00\x01\x00\x01m", 0)


def test_a_value_out_of_range_names_the_message() -> None:
    with pytest.raises(WireError, match="HeartbeatRequest v0"):
        HeartbeatRequest(group_id="g", generation_id=1 << 40).encode(0)


def test_an_unknown_version_is_an_error_that_names_it() -> None:
    with pytest.raises(WireError, match="no version 99"):
        HeartbeatRequest().encode(99)


@pytest.mark.parametrize("client_id", ["client", "", None])
@pytest.mark.parametrize("version", [0, 4])
def test_request_header_round_trip(client_id: str | None, version: int) -> None:
    message = HeartbeatRequest(group_id="g", generation_id=7, member_id="m")
    frame = encode_request(message, version, 99, client_id)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = decode_request_header(frame, 4)
    assert header[:4] == (12, version, 99, client_id)
    assert HeartbeatRequest.decode(frame, version, header.body_offset) == message


def test_response_headers_are_flexible_but_for_api_versions() -> None:
    frame = encode_response(HeartbeatResponse(error_code=27), 4, 5)
    assert frame[4:9] == b"\0\0\0\5\0"
    assert decode_response(HeartbeatResponse, 4, frame[4:]) == (5, HeartbeatResponse(error_code=27))
    plain = encode_response(ApiVersionsResponse(error_code=35), 3, 5)
    assert plain[4:10] == b"\0\0\0\5\0\x23"
    assert decode_response(ApiVersionsResponse, 3, plain[4:])[1].error_code == 35


@pytest.mark.parametrize("version", [4, 12])
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_large_response_comes_in_parts_and_its_records_are_not_copied(version: int, size: int) -> None:
    records = bytes(size)
    partition = FetchResponse.PartitionData(records=records)
    response = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])])
    frame = encode_large_response(response, version, 5)
    assert isinstance(frame, bytes) == (size == 1)
    whole = frame if isinstance(frame, bytes) else b"".join(frame)
    assert whole == encode_response(response, version, 5)
    if isinstance(frame, list):
        assert any(part is records for part in frame)


# --- how much there may be ---


def with_tags(count: int) -> bytes:
    """A heartbeat with so many tagged fields that nobody knows."""
    body = HeartbeatRequest(group_id="g", generation_id=1, member_id="m").encode(4)
    return body[:-1] + uvarint(count) + b"\x63\x00" * count


@pytest.mark.parametrize("version", [4, 12, 18])
def test_the_lists_of_a_message_count_together(version: int) -> None:
    topics = [FetchRequest.FetchTopic(partitions=[FetchRequest.FetchPartition()] * count) for count in (3, 0, 4)]
    body = FetchRequest(topics=topics).encode(version)
    assert len(FetchRequest.decode(body, version, 0, 10).topics) == 3
    with pytest.raises(TooManyEntriesError):
        FetchRequest.decode(body, version, 0, 9)


def test_lists_of_numbers_and_of_names_count_too() -> None:
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[1, 2, 3])]
    body = OffsetFetchRequest(groups=[group(group_id="g", topics=topics)]).encode(9)
    assert OffsetFetchRequest.decode(body, 9, 0, 5).groups[0].topics == topics
    with pytest.raises(TooManyEntriesError):
        OffsetFetchRequest.decode(body, 9, 0, 4)
    described = message_class("DescribeGroupsRequest")(groups=["a", "b"])
    with pytest.raises(TooManyEntriesError):
        type(described).decode(described.encode(5), 5, 0, 1)


def test_tagged_fields_count_too() -> None:
    assert HeartbeatRequest.decode(with_tags(20), 4, 0, 20).group_id == "g"
    with pytest.raises(TooManyEntriesError):
        HeartbeatRequest.decode(with_tags(21), 4, 0, 20)


def test_a_header_has_no_thousands_of_tagged_fields() -> None:
    """Nobody needs them, and each costs time before anybody has looked at the request."""
    head = encode_request(HeartbeatRequest(), 4, 7, "me")[4:14] + b"me"
    assert decode_request_header(head + uvarint(1000) + b"\x63\x00" * 1000).client_id == "me"
    with pytest.raises(WireError):
        decode_request_header(head + uvarint(1001) + b"\x63\x00" * 1001)
