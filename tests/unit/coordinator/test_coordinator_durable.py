"""A replay of records, one after the other, and loading, which comes to the same state.

Statements D-03 and D-10 to D-13.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.classic.messages import HeartbeatRequest
from actors.coordinator.classic.records import GroupDeleted, GroupMetadata, GroupPut, group_key
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.durable import DurableState
from actors.coordinator.groups.offset_records import OffsetAndMetadata, OffsetsDeleted, offset_key
from actors.coordinator.loading import Loader
from actors.coordinator.records import Change, Record, encode
from actors.coordinator.shard import ShardState
from tests.support.coordination import Driver
from tests.support.coordination_groups import GROUP, STAMP
from tests.support.examples import examples
from tests.support.offset_rows import (
    naive_replay,
    offsets_put,
    projection,
    value_bytes,
)


@pytest.mark.conformance("D-03")
def test_tombstones() -> None:
    value = OffsetAndMetadata(1, -1, "", STAMP)
    records = encode(
        [
            GroupPut("g", GROUP),
            offsets_put("g", (("t", 0), value), (("t", 1), value)),
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
    driver = Driver(log=encode([*before, offsets_put("g", (("orders", 0), value))]))
    assert driver.state() == "Empty"
    assert driver.group().is_simple
    assert driver.offset("g") == 7
    assert driver.describe("g").protocol_type == ""


def test_an_offset_its_groups_tombstone_left_behind_makes_no_group() -> None:
    value = OffsetAndMetadata(7, -1, "", STAMP)
    changes: list[Change] = [offsets_put("g", (("orders", 0), value)), GroupDeleted("g")]
    driver = Driver(log=encode(changes))
    assert driver.group_or_none() is None
    assert driver.fetch("g") == ()


def test_both_types_of_offset_key_are_one_offset() -> None:
    value = value_bytes(OffsetAndMetadata(7, -1, "", STAMP))
    newer = value_bytes(OffsetAndMetadata(8, -1, "", STAMP))
    key = offset_key("g", "orders", 0)
    legacy = b"\x00\x00" + key[2:]
    assert Driver(log=[(key, value), (legacy, newer)]).offset("g") == 8
    assert Driver(log=[(legacy, value), (key, value), (legacy, newer), (key, value)]).offset("g") == 7
    assert Driver(log=[(legacy, value), (key, value), (legacy, None)]).offset("g") == -1


@pytest.mark.conformance("D-12")
@pytest.mark.parametrize("kind", [9, 10, 14, 15, 17, 99])
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
    st.builds(lambda g, at, v: offsets_put(g, (at, v)), GROUPS, PARTITIONS, OFFSETS),
    st.builds(lambda g, at: OffsetsDeleted(g, [at]), GROUPS, PARTITIONS),
    st.builds(GroupPut, GROUPS, st.builds(lambda n: GroupMetadata("", n, None, None, STAMP), st.integers(0, 9))),
    st.builds(GroupDeleted, GROUPS),
)


@examples(300)
@given(st.lists(CHANGES, max_size=25), st.integers(1, 5), st.lists(st.booleans(), min_size=25, max_size=25))
def test_loading_gives_what_replay_in_order_gives(changes: list[Change], chunk: int, legacy: list[bool]) -> None:
    records = [
        Record(b"\x00\x00" + key[2:], value) if old and key[1] == 1 else Record(key, value)
        for (key, value), old in zip(encode(changes), legacy, strict=False)
    ]
    loader = Loader(DurableState(), GROUP_RECORDS)
    for start in range(0, len(records), chunk):
        loader.add(records[start : start + chunk])
    loader.finish()
    assert projection(loader.state) == projection(naive_replay(records))


@pytest.mark.conformance("D-13")
@examples(300)
@given(st.lists(CHANGES, max_size=25), st.lists(st.booleans(), min_size=25, max_size=25))
def test_a_compacted_log_says_the_same(changes: list[Change], removed: list[bool]) -> None:
    records = encode(changes)
    last = {record.key: position for position, record in enumerate(records)}
    compacted = [
        record
        for position, (record, gone) in enumerate(zip(records, removed, strict=False))
        if not gone or last[record.key] == position
    ]
    loader = Loader(DurableState(), GROUP_RECORDS)
    loader.add(compacted)
    loader.finish()
    assert projection(loader.state) == projection(naive_replay(records))
    assert projection(naive_replay(compacted)) == projection(naive_replay(records))
