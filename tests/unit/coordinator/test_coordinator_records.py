"""The bytes of records: statements D-01, D-02 and D-12."""

from __future__ import annotations

import pytest

from actors.coordinator.classic.records import (
    GroupDeleted,
    GroupMetadata,
    decode_group_value,
    group_key,
    group_value,
    subscribed_topics,
)
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.messages import OffsetCommitRequest, Partitions, TopicOffsets
from actors.coordinator.groups.offset_records import (
    OffsetAndMetadata,
    decode_offset_key,
    decode_offset_value,
    offset_key,
)
from actors.coordinator.records import CorruptRecordError, Record
from tests.support.coordination import Client, Driver, subscription
from tests.support.coordination_groups import ASSIGNMENT, GROUP, STAMP, SUBSCRIPTION
from tests.support.offset_rows import commit_request, value_bytes

TOPIC_ID = bytes(range(16))
SUBSCRIPTION_V3 = bytes.fromhex(
    "00030000000100066f7264657273ffffffff0000000100066f72646572730000000200000000000000010000000700067261636b2d61"
)
GROUP_V3 = (
    "00030008636f6e73756d657200000001000572616e67650003632d310000018bcfe56800000000010003632d31ffff0001630"
    "00a2f3132372e302e302e31000493e00000afc80000001200000000000100066f7264657273ffffffff0000001e0000000000"
    "0100066f7264657273000000020000000000000001ffffffff"
)


@pytest.mark.conformance("D-01")
def test_keys() -> None:
    key = bytes.fromhex("00010002673100066f726465727300000003")
    assert offset_key("g1", "orders", 3) == key
    assert decode_offset_key(key) == ("g1", "orders", 3)
    assert group_key("g1") == bytes.fromhex("000200026731")
    assert GROUP_RECORDS.decode(group_key("g1"), None) == GroupDeleted("g1")


@pytest.mark.conformance("D-01")
@pytest.mark.parametrize(
    ("value", "data"),
    [
        (OffsetAndMetadata(42, 5, "", STAMP), "0004000000000000002a00000005010000018bcfe5680000"),
        (
            OffsetAndMetadata(42, 5, "m", STAMP, topic_id=TOPIC_ID),
            "0004000000000000002a00000005026d0000018bcfe56800010010" + TOPIC_ID.hex(),
        ),
        (
            OffsetAndMetadata(42, -1, "m", STAMP, STAMP + 60_000),
            "0001000000000000002a00016d0000018bcfe568000000018bcfe65260",
        ),
        (OffsetAndMetadata(1, -1, "é", STAMP), "00040000000000000001ffffffff03c3a90000018bcfe5680000"),
    ],
)
def test_offset_values(value: OffsetAndMetadata, data: str) -> None:
    assert value_bytes(value).hex() == data
    assert decode_offset_value(bytes.fromhex(data)) == value


@pytest.mark.conformance("K-C-28", "K-D-14")
def test_the_offset_of_a_topic_with_an_id_is_kafkas_bytes() -> None:
    driver = Driver()
    offsets = [(42).to_bytes(8, "big") + (7).to_bytes(4, "big")]
    topic = TopicOffsets("foo", Partitions([bytes(4)]), offsets, None, TOPIC_ID)
    driver.call(OffsetCommitRequest("g1", -1, "", None, [topic]))
    key, value = driver.log[0]
    assert (key.hex(), (value or b"").hex()) == (
        "0001000267310003666f6f00000000",
        "0004000000000000002a00000007010000018bcfe56800010010000102030405060708090a0b0c0d0e0f",
    )
    assert decode_offset_value(value or b"") == OffsetAndMetadata(42, 7, "", STAMP, topic_id=TOPIC_ID)


def test_a_topic_id_of_another_length_is_corrupt() -> None:
    with pytest.raises(CorruptRecordError, match="a topic id has 2 bytes"):
        decode_offset_value(bytes.fromhex("0004000000000000002a00000005010000018bcfe568000100020001"))


@pytest.mark.conformance("D-01")
@pytest.mark.parametrize(
    ("group", "data"),
    [
        (GroupMetadata("", 0, None, None, STAMP), "0003000000000000ffffffff0000018bcfe5680000000000"),
        (GROUP, GROUP_V3),
    ],
)
def test_group_values(group: GroupMetadata, data: str) -> None:
    assert group_value(group).hex() == data
    assert decode_group_value(bytes.fromhex(data)) == group


@pytest.mark.conformance("D-01")
def test_the_records_of_a_commit_and_a_group_are_kafkas_bytes() -> None:
    driver = Driver()
    driver.call(commit_request("g1", -1, "", None, [("orders", 3, 42, 5, "")]))
    key, value = driver.log[0]
    assert (key.hex(), (value or b"").hex()) == (
        "00010002673100066f726465727300000003",
        "0004000000000000002a00000005010000018bcfe5680000",
    )
    Client(driver, group_id="g1", version=4).ask_join(member_id="")
    Client(driver, group_id="g2", version=4).ask_join()
    assert driver.log[-1] == Record(group_key("g2"), bytes.fromhex("0003000000000000ffffffff0000018bcfe5680000000000"))


@pytest.mark.conformance("D-02")
@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("0000000000000000002a00016d0000018bcfe56800", OffsetAndMetadata(42, -1, "m", STAMP)),
        ("0001000000000000002a00016d0000018bcfe56800ffffffffffffffff", OffsetAndMetadata(42, -1, "m", STAMP)),
        ("0002000000000000002a00016d0000018bcfe56800", OffsetAndMetadata(42, -1, "m", STAMP)),
        ("0003000000000000002a0000000500016d0000018bcfe56800", OffsetAndMetadata(42, 5, "m", STAMP)),
        ("0003000000000000002a0000000500000000018bcfe56800", OffsetAndMetadata(42, 5, "", STAMP)),
        ("0004000000000000002a00000005026d0000018bcfe5680001070161", OffsetAndMetadata(42, 5, "m", STAMP)),
    ],
)
def test_old_and_new_offset_values(data: str, value: OffsetAndMetadata) -> None:
    assert decode_offset_value(bytes.fromhex(data)) == value


def group_bytes(version: int) -> bytes:
    """GROUP in a given version, put together by hand."""
    compact = version >= 4

    def string(text: str | None) -> bytes:
        if text is None:
            return b"\x00" if compact else b"\xff\xff"
        data = text.encode()
        return (bytes([len(data) + 1]) if compact else len(data).to_bytes(2, "big")) + data

    def blob(data: bytes) -> bytes:
        return (bytes([len(data) + 1]) if compact else len(data).to_bytes(4, "big")) + data

    tags = b"\x01\x05\x02zz" if compact else b""
    member = string("c-1") + (string(None) if version >= 3 else b"") + string("c") + string("/127.0.0.1")
    member += (300_000).to_bytes(4, "big") if version >= 1 else b""
    member += (45_000).to_bytes(4, "big") + blob(SUBSCRIPTION) + blob(ASSIGNMENT) + tags
    data = version.to_bytes(2, "big") + string("consumer") + (1).to_bytes(4, "big") + string("range") + string("c-1")
    data += STAMP.to_bytes(8, "big") if version >= 2 else b""
    return data + (b"\x02" if compact else (1).to_bytes(4, "big")) + member + tags


@pytest.mark.conformance("D-02")
@pytest.mark.parametrize("version", range(5))
def test_old_and_new_group_values(version: int) -> None:
    decoded = decode_group_value(group_bytes(version))
    assert decoded.state_timestamp_ms == (STAMP if version >= 2 else -1)
    (member,) = decoded.members
    assert member.rebalance_timeout_ms == (300_000 if version >= 1 else 45_000)
    assert (decoded.protocol_type, decoded.generation_id, decoded.protocol_name) == ("consumer", 1, "range")
    assert (member.member_id, member.group_instance_id, member.session_timeout_ms) == ("c-1", None, 45_000)
    assert (member.subscription, member.assignment) == (SUBSCRIPTION, ASSIGNMENT)
    if version == 3:
        assert group_bytes(3).hex() == GROUP_V3


def test_a_rebalance_timeout_of_minus_one_is_the_session_timeout() -> None:
    data = group_bytes(3).replace((300_000).to_bytes(4, "big"), b"\xff\xff\xff\xff")
    assert decode_group_value(data).members[0].rebalance_timeout_ms == 45_000


CUT = [(offset_key("g", "t", 1), value_bytes(OffsetAndMetadata(1, 2, "m", 3)), n) for n in (0, 1, 9, 13, 16, 20)]
CUT += [(group_key("g"), group_value(GROUP), n) for n in (1, 8, 20, 30, 40, 80, 100, -1)]


@pytest.mark.conformance("D-12")
@pytest.mark.parametrize(("key", "value", "length"), CUT)
def test_a_value_cut_short_is_corrupt(key: bytes, value: bytes, length: int) -> None:
    with pytest.raises(CorruptRecordError):
        GROUP_RECORDS.decode(key, value[:length])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\x00", b""),
        (b"\x00\x01\x00\x05ab", None),
        (offset_key("g", "t", 1) + b"\x00", None),
        (b"\x00\x02\x00\x01\xff", None),
        (b"\x00\x02\xff\xff", None),
        (offset_key("g", "t", 1), b"\x00\x05" + bytes(30)),
        (group_key("g"), b"\x00\x05" + bytes(30)),
        (group_key("g"), b"\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x7f\xff\xff\xff"),
        (offset_key("g", "t", 1), b"\x00\x04" + bytes(12) + b"\xff\xff\xff\xff\xff\xff"),
    ],
)
def test_nonsense_is_corrupt(key: bytes, value: bytes | None) -> None:
    with pytest.raises(CorruptRecordError):
        GROUP_RECORDS.decode(key, value)


@pytest.mark.parametrize(
    ("blob", "topics"),
    [
        (SUBSCRIPTION, {"orders"}),
        (SUBSCRIPTION_V3, {"orders"}),
        (subscription("a", "b"), {"a", "b"}),
        (b"\x00\x09" + SUBSCRIPTION[2:], {"orders"}),
        (b"", None),
        (b"\x00\x00\x00\x00\x00\x01\x00\x09", None),
        (b"\xff\xff" + SUBSCRIPTION[2:], None),
    ],
)
def test_subscribed_topics(blob: bytes, topics: set[str] | None) -> None:
    assert subscribed_topics(blob) == (None if topics is None else frozenset(topics))
