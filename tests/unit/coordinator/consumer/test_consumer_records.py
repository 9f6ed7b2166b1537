"""The records of consumer groups, byte for byte."""

from __future__ import annotations

import pytest

from actors.coordinator.consumer.encoding import current_value, epoch_value, member_value, read_current, read_member
from actors.coordinator.consumer.records import (
    AssignmentEpoch,
    CurrentAssignment,
    GroupEpoch,
    GroupRecord,
    LegacyTopics,
    MemberRecord,
    ResolvedRegex,
    TargetAssignment,
)
from actors.coordinator.consumer.values import ClassicMetadata, Current, MemberMetadata, MemberState, Resolved
from actors.coordinator.records import CorruptRecordError
from tests.support.consumer_groups import READ, T1, T2

HASH = 3513085387391295763
PLAIN = MemberMetadata(client_id="c", client_host="/127.0.0.1", names=frozenset({"foo"}), rebalance_timeout_ms=300_000)
STATIC = MemberMetadata("c", "/127.0.0.1", "i-a", "r1", regex="foo.*", rebalance_timeout_ms=300_000, assignor="range")
CLASSIC = MemberMetadata(
    "c",
    "/127.0.0.1",
    names=frozenset({"foo"}),
    rebalance_timeout_ms=300_000,
    classic=ClassicMetadata(45_000, (("range", b"\0\0"),)),
)
UNREVOKED = Current(2, 2, MemberState.UNREVOKED_PARTITIONS, {T1: {0: 2, 1: 2, 2: 2}}, {T1: {3: 2, 4: 2, 5: 2}})
AWAY = Current(-2, 2, MemberState.STABLE, {T1: {0: 0, 1: 0, 2: 0}}, {})
ID = "000102030405060708090a0b0c0d0e0f"

VECTORS: dict[str, tuple[GroupRecord, str, str]] = {
    "group epoch with a hash": (GroupEpoch("g1", 1, HASH), "000300026731", "00000000000101000830c0fc8bf512e113"),
    "group epoch without": (GroupEpoch("g1", 1), "000300026731", "00000000000100"),
    "legacy topics": (
        LegacyTopics("g1", ((T1, "foo", 6),)),
        "000400026731",
        f"000002{ID}04666f6f00000006010000",
    ),
    "member": (
        MemberRecord("g1", "A", PLAIN),
        "000500026731000141",
        "0000000002630b2f3132372e302e302e310204666f6f01000493e00001000100",
    ),
    "static member": (
        MemberRecord("g1", "A", STATIC),
        "000500026731000141",
        "000004692d6103723102630b2f3132372e302e302e310106666f6f2e2a000493e00672616e676501000100",
    ),
    "classic member": (
        MemberRecord("g1", "A", CLASSIC),
        "000500026731000141",
        "0000000002630b2f3132372e302e302e310204666f6f01000493e000010011010000afc8020672616e67650300000000",
    ),
    "assignment epoch": (
        AssignmentEpoch("g1", 2, 1_700_000_000_000),
        "000600026731",
        "0000000000020100080000018bcfe56800",
    ),
    "assignment epoch without a time": (AssignmentEpoch("g1", 2), "000600026731", "00000000000200"),
    "target": (
        TargetAssignment("g1", "A", {T1: frozenset({2, 0, 1})}),
        "000700026731000141",
        f"000002{ID}040000000000000001000000020000",
    ),
    "empty target": (TargetAssignment("g1", "A", {}), "000700026731000141", "00000100"),
    "current": (
        CurrentAssignment("g1", "A", UNREVOKED),
        "000800026731000141",
        f"000000000002000000020102{ID}0400000000000000010000000201000d04000000020000000200000002"
        f"02{ID}0400000003000000040000000501000d0400000002000000020000000200",
    ),
    "current of one who is away": (
        CurrentAssignment("g1", "A", AWAY),
        "000800026731000141",
        f"0000fffffffe000000020002{ID}0400000000000000010000000201000d040000000000000000000000000100",
    ),
    "regular expression": (
        ResolvedRegex("g1", "foo.*", Resolved(frozenset({"foobar", "foo"}), 1234, 1_700_000_000_000)),
        "0010000267310005666f6f2e2a",
        "00000304666f6f07666f6f62617200000000000004d20000018bcfe5680000",
    ),
}


@pytest.mark.conformance(
    "K-C-01", "K-C-02", "K-C-03", "K-C-04", "K-C-05", "K-C-06", "K-C-07", "K-C-08", "K-C-12", "K-C-13",
    "K-C-16", "K-C-17", "K-C-18", "K-C-19", "K-C-20", "K-C-21", "K-C-22", "K-C-23", "K-C-24", "K-C-25", "K-C-26",
    "K-C-27", "K-C-63",
)  # fmt: skip
@pytest.mark.parametrize("name", VECTORS)
def test_a_record_is_written_and_read_as_kafkas(name: str) -> None:
    change, key, value = VECTORS[name]
    (record,) = change.records()
    assert record.key.hex() == key
    assert record.value is not None
    assert record.value.hex() == value
    assert READ.decode(*record) == change


@pytest.mark.conformance("K-C-01")
@pytest.mark.parametrize("name", VECTORS)
def test_a_record_without_a_value_is_a_tombstone(name: str) -> None:
    change, key, _ = VECTORS[name]
    gone = READ.decode(bytes.fromhex(key), None)
    assert type(gone) is type(change)
    assert gone.is_tombstone
    assert [(record.key.hex(), record.value) for record in gone.records()] == [(key, None)]


@pytest.mark.conformance("K-C-09")
def test_a_tagged_field_at_its_default_is_left_out_and_that_of_a_member_never_is() -> None:
    assert epoch_value(7, 0).endswith(b"\0\0\0\x07\0")
    assert member_value(MemberMetadata()).endswith(b"\x01\x00\x01\x00")
    assert current_value(Current(1, 0, MemberState.STABLE, {T1: {3: 1}})).count(b"\x01\x00\x05\x02") == 1


@pytest.mark.conformance("K-C-10")
def test_the_tag_of_a_classic_member_has_a_varint_before_the_struct() -> None:
    value = member_value(CLASSIC)
    at = value.index(b"\x01\x00\x11")
    assert value[at + 3 : at + 8] == b"\x01" + (45_000).to_bytes(4, "big")


@pytest.mark.conformance("K-C-11")
@pytest.mark.parametrize("name", VECTORS)
def test_tags_that_are_not_known_are_passed_over_at_the_end(name: str) -> None:
    change, key, value = VECTORS[name]
    tags = _tags_of(name, value)
    longer = bytes.fromhex(value[: len(value) - len(tags)]) + _with_one_more(bytes.fromhex(tags))
    assert READ.decode(bytes.fromhex(key), longer) == change


def _tags_of(name: str, value: str) -> str:
    """The last section of tags of a vector, in hex."""
    lengths = {
        "group epoch with a hash": 11,
        "member": 4,
        "static member": 4,
        "classic member": 20,
        "assignment epoch": 11,
    }
    return value[-2 * lengths.get(name, 1) :]


def _with_one_more(section: bytes) -> bytes:
    return bytes((section[0] + 1,)) + section[1:] + b"\x09\x02\xab\xcd"


@pytest.mark.conformance("K-C-11")
def test_tags_that_are_not_known_are_passed_over_in_a_topic() -> None:
    plain = f"000002{ID}040000000000000001000000020000"
    more = f"000002{ID}0400000000000000010000000201090100" + "00"
    key = bytes.fromhex("000700026731000141")
    assert READ.decode(key, bytes.fromhex(more)) == READ.decode(key, bytes.fromhex(plain))


@pytest.mark.conformance("K-C-14")
def test_a_regular_expression_of_null_is_none() -> None:
    text = "0000000002630b2f3132372e302e302e310204666f6f00000493e00001000100"
    assert read_member(bytes.fromhex(text)) == PLAIN


@pytest.mark.conformance("K-C-61")
@pytest.mark.parametrize(
    ("epoch", "tags", "since"),
    [
        ("00000004", "00", 4),
        ("00000004", "01000100", 4),
        ("00000004", "0100050200000001", 4),
        ("fffffffe", "00", 0),
        ("00000004", "010009" + "03" + "0000000100000002", 0),
    ],
)
def test_partitions_without_their_assignment_epochs_get_the_members(epoch: str, tags: str, since: int) -> None:
    value = bytes.fromhex(f"0000{epoch}0000000200" + f"02{ID}030000000000000001{tags}" + "0100")
    expected = {0: 1, 1: 2} if tags.startswith("010009") else {0: since, 1: since}
    assert read_current(value).assigned == {T1: expected}


@pytest.mark.conformance("K-C-62")
@pytest.mark.parametrize("tags", ["00", "010001" + "00", "010007" + "01" + "00000000" + "01" + "00"])
def test_a_member_without_its_tag_or_with_an_empty_one_is_of_the_new_protocol(tags: str) -> None:
    text = "0000000002630b2f3132372e302e302e310204666f6f01000493e000" + tags
    assert read_member(bytes.fromhex(text)).classic is None


@pytest.mark.conformance("K-B-10")
@pytest.mark.parametrize(
    ("byte", "state"),
    [
        (0, MemberState.STABLE),
        (1, MemberState.UNREVOKED_PARTITIONS),
        (2, MemberState.UNRELEASED_PARTITIONS),
        (3, MemberState.UNKNOWN),
        (127, MemberState.UNKNOWN),
    ],
)
def test_a_state_that_is_not_known_reads_as_unknown(byte: int, state: MemberState) -> None:
    assert read_current(bytes.fromhex(f"00000000000200000001{byte:02x}010100")).state is state


@pytest.mark.parametrize("name", VECTORS)
def test_a_value_of_another_version_or_cut_off_is_corrupt(name: str) -> None:
    _, key, value = VECTORS[name]
    for wrong in ("0001" + value[4:], value[:6]):
        with pytest.raises(CorruptRecordError):
            READ.decode(bytes.fromhex(key), bytes.fromhex(wrong))


def test_topics_and_partitions_are_written_in_order() -> None:
    one = TargetAssignment("g", "m", {T2: frozenset({1, 0}), T1: frozenset({5, 3})}).records()
    other = TargetAssignment("g", "m", {T1: frozenset({3, 5}), T2: frozenset({0, 1})}).records()
    assert one == other
