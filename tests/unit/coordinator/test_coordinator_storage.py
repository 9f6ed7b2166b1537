"""Records, replay, loading and failover: statements D-01 to D-15."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actors.coordinator
from actors.coordinator import (
    CoordinatorConfig,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    Record,
    ShardState,
    SyncGroupRequest,
)
from actors.coordinator.durable import Loader
from actors.coordinator.records import (
    Change,
    CorruptRecordError,
    GroupDeleted,
    GroupMetadata,
    GroupPut,
    MemberMetadata,
    OffsetAndMetadata,
    OffsetsDeleted,
    OffsetsPut,
    decode,
    decode_group_value,
    decode_offset_key,
    decode_offset_value,
    encode,
    group_key,
    group_value,
    offset_key,
    offset_value,
    subscribed_topics,
)
from actors.coordinator.timers import Timer, Timers
from tests.support.coordination import NO_DELAY, Client, Driver, naive_replay, projection, stable_group, subscription

STAMP = 1_700_000_000_000
SUBSCRIPTION = bytes.fromhex("00000000000100066f7264657273ffffffff")
SUBSCRIPTION_V3 = bytes.fromhex(
    "00030000000100066f7264657273ffffffff0000000100066f72646572730000000200000000000000010000000700067261636b2d61"
)
ASSIGNMENT = bytes.fromhex("00000000000100066f7264657273000000020000000000000001ffffffff")
MEMBER = MemberMetadata("c-1", None, "c", "/127.0.0.1", 300_000, 45_000, SUBSCRIPTION, ASSIGNMENT)
GROUP = GroupMetadata("consumer", 1, "range", "c-1", STAMP, (MEMBER,))
GROUP_V3 = (
    "00030008636f6e73756d657200000001000572616e67650003632d310000018bcfe56800000000010003632d31ffff0001630"
    "00a2f3132372e302e302e31000493e00000afc80000001200000000000100066f7264657273ffffffff0000001e0000000000"
    "0100066f7264657273000000020000000000000001ffffffff"
)


# -- bytes


@pytest.mark.conformance("D-01")
def test_keys() -> None:
    key = bytes.fromhex("00010002673100066f726465727300000003")
    assert offset_key("g1", "orders", 3) == key
    assert decode_offset_key(key) == ("g1", "orders", 3)
    assert group_key("g1") == bytes.fromhex("000200026731")
    assert decode(group_key("g1"), None) == GroupDeleted("g1")


@pytest.mark.conformance("D-01")
@pytest.mark.parametrize(
    ("value", "data"),
    [
        (OffsetAndMetadata(42, 5, "", STAMP), "0003000000000000002a0000000500000000018bcfe56800"),
        (
            OffsetAndMetadata(42, -1, "m", STAMP, STAMP + 60_000),
            "0001000000000000002a00016d0000018bcfe568000000018bcfe65260",
        ),
        (OffsetAndMetadata(1, -1, "é", STAMP), "00030000000000000001ffffffff0002c3a90000018bcfe56800"),
    ],
)
def test_offset_values(value: OffsetAndMetadata, data: str) -> None:
    assert offset_value(value).hex() == data
    assert decode_offset_value(bytes.fromhex(data)) == value


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
    driver.call(OffsetCommitRequest("g1", -1, "", None, [("orders", 3, 42, 5, "", STAMP)]))
    key, value = driver.log[0]
    assert (key.hex(), (value or b"").hex()) == (
        "00010002673100066f726465727300000003",
        "0003000000000000002a0000000500000000018bcfe56800",
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
        ("0004000000000000002a00000005010000018bcfe5680000", OffsetAndMetadata(42, 5, "", STAMP)),
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


CUT = [(offset_key("g", "t", 1), offset_value(OffsetAndMetadata(1, 2, "m", 3)), n) for n in (0, 1, 9, 13, 16, 20)]
CUT += [(group_key("g"), group_value(GROUP), n) for n in (1, 8, 20, 30, 40, 80, 100, -1)]


@pytest.mark.conformance("D-12")
@pytest.mark.parametrize(("key", "value", "length"), CUT)
def test_a_value_cut_short_is_corrupt(key: bytes, value: bytes, length: int) -> None:
    with pytest.raises(CorruptRecordError):
        decode(key, value[:length])


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
        decode(key, value)


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


# -- replay


@pytest.mark.conformance("D-03")
def test_tombstones() -> None:
    value = OffsetAndMetadata(1, -1, "", STAMP)
    records = encode(
        [
            GroupPut("g", GROUP),
            OffsetsPut("g", [(("t", 0), value), (("t", 1), value)]),
            OffsetsDeleted("g", [("t", 0)]),
        ]
    )
    assert projection(naive_replay(records)) == {"g": (GROUP, {("t", 1): value})}
    records += encode([OffsetsDeleted("g", [("t", 1)]), GroupDeleted("g")])
    assert projection(naive_replay(records)) == {}
    assert projection(naive_replay(encode([GroupDeleted("x"), OffsetsDeleted("x", [("t", 0)])]))) == {}


@pytest.mark.conformance("D-10", "D-11")
@pytest.mark.parametrize("before", [[], [GroupPut("g", GROUP), GroupDeleted("g")], [GroupDeleted("g")]])
def test_an_offset_alone_makes_a_simple_group(before: list[Change]) -> None:
    value = OffsetAndMetadata(7, -1, "", STAMP)
    driver = Driver(log=encode([*before, OffsetsPut("g", [(("orders", 0), value)])]))
    assert driver.state() == "Empty"
    assert driver.group().is_simple
    assert driver.offset("g") == 7
    assert driver.describe("g").protocol_type == ""


def test_an_offset_its_groups_tombstone_left_behind_makes_no_group() -> None:
    value = OffsetAndMetadata(7, -1, "", STAMP)
    changes: list[Change] = [OffsetsPut("g", [(("orders", 0), value)]), GroupDeleted("g")]
    driver = Driver(log=encode(changes))
    assert driver.group_or_none() is None
    assert driver.fetch("g") == ()


def test_both_types_of_offset_key_are_one_offset() -> None:
    value = offset_value(OffsetAndMetadata(7, -1, "", STAMP))
    newer = offset_value(OffsetAndMetadata(8, -1, "", STAMP))
    key = offset_key("g", "orders", 0)
    legacy = b"\x00\x00" + key[2:]
    assert Driver(log=[(key, value), (legacy, newer)]).offset("g") == 8
    assert Driver(log=[(legacy, value), (key, value), (legacy, newer), (key, value)]).offset("g") == 7
    assert Driver(log=[(legacy, value), (key, value), (legacy, None)]).offset("g") == -1


@pytest.mark.conformance("D-12")
@pytest.mark.parametrize("kind", [3, 6, 8, 9, 14, 99])
def test_unknown_record_types_are_skipped(kind: int) -> None:
    driver = Driver(log=[(kind.to_bytes(2, "big") + b"whatever", b"?"), *encode([GroupPut("g", GROUP)])])
    assert driver.state() == "Stable"
    assert driver.shard.metrics.unknown_records == 1


@pytest.mark.conformance("D-12")
def test_a_corrupt_record_fails_the_load() -> None:
    driver = Driver(log=[(group_key("g"), b"\x00\x03\x00")])
    assert driver.shard.state is ShardState.FAILED
    assert driver.shard.failure
    assert driver.call(HeartbeatRequest("g", 1, "m")).error_code == 16
    driver.log = []
    driver.load(epoch=1)
    assert driver.is_active()


OFFSETS = st.builds(
    lambda n, expire: OffsetAndMetadata(n, -1, "", STAMP, expire), st.integers(0, 9), st.sampled_from([-1, 5])
)
PARTITIONS = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 1))
GROUPS = st.sampled_from(["g", "h"])
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(lambda g, at, v: OffsetsPut(g, [(at, v)]), GROUPS, PARTITIONS, OFFSETS),
    st.builds(lambda g, at: OffsetsDeleted(g, [at]), GROUPS, PARTITIONS),
    st.builds(GroupPut, GROUPS, st.builds(lambda n: GroupMetadata("", n, None, None, STAMP), st.integers(0, 9))),
    st.builds(GroupDeleted, GROUPS),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(CHANGES, max_size=25), st.integers(1, 5), st.lists(st.booleans(), min_size=25, max_size=25))
def test_loading_gives_what_replay_in_order_gives(changes: list[Change], chunk: int, legacy: list[bool]) -> None:
    records = [
        Record(b"\x00\x00" + key[2:], value) if old and key[1] == 1 else Record(key, value)
        for (key, value), old in zip(encode(changes), legacy, strict=False)
    ]
    loader = Loader()
    for start in range(0, len(records), chunk):
        loader.add(records[start : start + chunk])
    loader.finish()
    assert projection(loader.state) == projection(naive_replay(records))


@pytest.mark.conformance("D-13")
@settings(max_examples=300, deadline=None)
@given(st.lists(CHANGES, max_size=25), st.lists(st.booleans(), min_size=25, max_size=25))
def test_a_compacted_log_says_the_same(changes: list[Change], removed: list[bool]) -> None:
    records = encode(changes)
    last = {record.key: position for position, record in enumerate(records)}
    compacted = [
        record
        for position, (record, gone) in enumerate(zip(records, removed, strict=False))
        if not gone or last[record.key] == position
    ]
    loader = Loader()
    loader.add(compacted)
    loader.finish()
    assert projection(loader.state) == projection(naive_replay(records))
    assert projection(naive_replay(compacted)) == projection(naive_replay(records))


# -- failover


@pytest.mark.conformance("D-04")
def test_a_stable_group_goes_on_after_a_failover() -> None:
    driver = Driver()
    members = stable_group(driver, Client(driver, "a"), Client(driver, "b"), Client(driver, "s", instance="i"))
    before = projection(driver.durable)
    described = driver.describe("g")
    driver.fail_over()
    assert [member.heartbeat() for member in members] == [0, 0, 0]
    assert driver.state() == "Stable"
    assert driver.describe("g") == described
    assert projection(driver.durable) == before
    assert driver.group().leader_id == members[0].member_id


@pytest.mark.conformance("D-05")
def test_a_rebalance_in_flight_is_lost_in_a_failover() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b"))
    c = Client(driver, "c").join()
    a.ask_join()
    driver.fail_over()
    for client in (a, c):
        assert client.join_answer is not None
        assert client.join_answer.error_code == 16
    assert driver.state() == "Stable"
    assert driver.group().generation_id == 2
    assert b.heartbeat(2) == 0
    a.ask_join()
    assert driver.state() == "PreparingRebalance"
    assert b.heartbeat(2) == 27


@pytest.mark.conformance("D-06")
def test_a_member_silent_after_loading_is_removed() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b"))
    driver.advance(5_000)
    driver.fail_over()
    driver.advance(9_999)
    assert b.heartbeat() == 0
    driver.advance(1)
    assert list(driver.group().members) == [b.member_id]
    assert a.heartbeat() == 25


@pytest.mark.conformance("D-07")
def test_a_loaded_member_that_lists_two_protocols_has_changed() -> None:
    driver = Driver()
    two = (("range", subscription("orders")), ("sticky", subscription("orders")))
    _, b = stable_group(driver, Client(driver, "a", protocols=two), Client(driver, "b", protocols=two))
    assert driver.answer(b.ask_join()).error_code == 0
    driver.fail_over()
    b.ask_join()
    assert b.join_answer is None
    assert driver.state() == "PreparingRebalance"


JOIN = JoinGroupRequest("g", "m", "consumer", (("range", b""),), 10_000)
SYNC = SyncGroupRequest("g", 1, "m", None, "consumer", "range")
COMMIT = OffsetCommitRequest("g", -1, "", None, [("t", 0, 1, -1, "", -1), ("t", 1, 1, -1, "", -1)])
LEAVE = LeaveGroupRequest("g", (LeavingMember("m"),))


@pytest.mark.conformance("D-08")
def test_answers_while_loading() -> None:
    driver = Driver(loaded=False)
    driver.shard.start_loading(0)
    assert driver.call(JOIN).error_code == 14
    assert driver.call(SYNC).error_code == 27
    assert driver.call(HeartbeatRequest("g", 1, "m")).error_code == 0
    assert driver.call(LEAVE).error_code == 14
    assert driver.call(LEAVE).members == ()
    assert driver.call(COMMIT).error_codes == [14, 14]
    assert driver.call(OffsetFetchRequest("g", None)).error_code == 14
    assert driver.call(OffsetDeleteRequest("g", ())).error_code == 14
    assert driver.call(DescribeGroupsRequest(("g",))).groups[0].error_code == 14
    assert driver.call(DeleteGroupsRequest(("g",))).results == (("g", 14),)
    assert driver.call(ListGroupsRequest()).error_code == 14


@pytest.mark.parametrize("state", ["never led", "unloaded", "failed"])
def test_answers_when_not_led(state: str) -> None:
    driver = Driver(log=[(group_key("g"), b"")] if state == "failed" else (), loaded=state != "never led")
    if state == "unloaded":
        driver.shard.unload()
    assert driver.call(JOIN).error_code == 16
    assert driver.call(SYNC).error_code == 16
    assert driver.call(HeartbeatRequest("g", 1, "m")).error_code == 16
    assert driver.call(LEAVE).error_code == 16
    assert driver.call(COMMIT).error_codes == [16, 16]
    assert driver.call(OffsetFetchRequest("g", None)).error_code == 16
    assert driver.call(OffsetDeleteRequest("g", ())).error_code == 16
    assert driver.call(DescribeGroupsRequest(("g",))).groups[0].error_code == 16
    assert driver.call(DeleteGroupsRequest(("g",))).results == (("g", 16),)
    assert driver.call(ListGroupsRequest()).error_code == 16


def test_what_is_wrong_with_a_request_is_said_first() -> None:
    driver = Driver(loaded=False)
    driver.shard.start_loading(0)
    assert driver.call(JoinGroupRequest("", "m", "consumer", (), 10_000)).error_code == 24
    assert driver.call(JoinGroupRequest("g", "m", "consumer", (), 1)).error_code == 26
    assert driver.call(SyncGroupRequest("g", 1, "m")).error_code == 23
    assert driver.call(HeartbeatRequest("", 1, "m")).error_code == 24
    assert driver.call(OffsetFetchRequest(None, None)).error_code == 24


@pytest.mark.conformance("D-09")
def test_unloading_answers_what_is_parked_and_stops_the_timers() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b"))
    c = Client(driver, "c", group_id="h").join()
    c.joined()
    Client(driver, "d", group_id="h").join()
    a.ask_join(), b.ask_join()
    a.joined(), b.joined()
    b.ask_sync()
    driver.shard.unload()
    driver.collect(driver.shard)
    assert b.sync_answer is not None
    assert b.sync_answer.error_code == 16
    parked = [r.error_code for r in driver.answers.values() if getattr(r, "error_code", 0) == 16]
    assert len(parked) == 2  # the sync, and d's join
    assert driver.shard.next_deadline() is None
    answered = len(driver.answers)
    driver.advance(1_000_000)
    assert len(driver.answers) == answered


@pytest.mark.conformance("D-14")
def test_a_timer_cancelled_after_it_came_due_does_nothing() -> None:
    timers, fired = Timers(), []
    second = Timer(lambda now: fired.append("second"))
    first = Timer(lambda now: (fired.append("first"), second.cancel()))
    timers.arm(first, 10)
    timers.arm(second, 10)
    for timer in timers.pop_due(10):
        timer.action(None)  # type: ignore[arg-type]
    assert fired == ["first"]


@pytest.mark.conformance("D-14")
def test_of_two_timers_due_at_once_the_first_may_void_the_second() -> None:
    # Both sessions end in one turn: the first expiry rebalances, and the leader's parked sync timer is void.
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a", rebalance_ms=10_000), Client(driver, "b", rebalance_ms=10_000))
    a.ask_join(), b.ask_join()
    a.joined(), b.joined()
    sync_due, session_due = driver.group().sync_timer.due_ms, driver.group().members[a.member_id].session.due_ms
    assert sync_due == session_due
    driver.jump(10_000)
    assert driver.state() == "Empty"
    assert driver.group().generation_id == b.generation + 1
    assert driver.group().sync_timer.due_ms is None


@pytest.mark.conformance("D-15")
def test_all_operations_of_a_refused_append_fail_and_leave_no_trace() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    a.commit(1)
    driver.commit_offset("h", 5)
    before = projection(driver.durable), driver.describe("g"), driver.list_groups(), len(driver.log)
    driver.holds = True
    shard, now = driver.shard, driver.now
    shard.handle(901, OffsetCommitRequest("g", a.generation, a.member_id, None, [("orders", 0, 2, -1, "", -1)]), now)
    shard.handle(902, DeleteGroupsRequest(("h",)), now)
    shard.handle(903, OffsetCommitRequest("new", -1, "", None, [("orders", 0, 3, -1, "", -1)]), now)
    driver.turn()
    assert len(driver.held) == 1  # one turn, one append
    driver.refuse(19)
    assert driver.answers[901].error_codes == [15]
    assert driver.answers[902].results == (("h", 15),)
    assert driver.answers[903].error_codes == [15]
    driver.holds = False
    assert (projection(driver.durable), driver.describe("g"), driver.list_groups(), len(driver.log)) == before
    assert driver.group_or_none("new") is None
    assert driver.offset("h") == 5


# -- the rules of the house


def test_the_coordinator_does_no_io() -> None:
    forbidden = {"asyncio", "socket", "time", "random", "ray", "uuid", "threading", "logging", "os"}
    folder = Path(actors.coordinator.__file__).parent
    imported = {
        (path.name, name.partition(".")[0])
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    assert imported
    assert {name for _, name in imported} & forbidden == set()


def test_defaults() -> None:
    config = CoordinatorConfig()
    assert config.group_initial_rebalance_delay_ms == 3_000
    assert (config.group_min_session_timeout_ms, config.group_max_session_timeout_ms) == (6_000, 1_800_000)
    assert config.group_max_size == 2_147_483_647
    assert (config.offsets_retention_minutes, config.offsets_retention_check_interval_ms) == (10_080, 600_000)
    assert (config.offset_metadata_max_bytes, config.offsets_commit_timeout_ms) == (4_096, 5_000)
    assert NO_DELAY.group_initial_rebalance_delay_ms == 0
