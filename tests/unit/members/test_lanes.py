"""The pieces of work that may begin, with concurrency. Nothing runs; time is a number."""

from __future__ import annotations

from typing import Any

from actors.client import ConsumerRecord
from actors.members.pools.handling.lanes import BatchLanes, KeyLanes
from actors.members.pools.handling.work import Work
from tests.support.member import T0, T1, arrow, record


def keyed(offset: int, key: bytes | None, partition: int = 0) -> ConsumerRecord:
    return record(offset, partition)._replace(key=key)


def taken(lanes: KeyLanes | BatchLanes, now: float = 0.0, blocked: Any = ()) -> list[Work]:
    """All that may begin now."""
    found = []
    while (work := lanes.take(now, blocked)) is not None:
        found.append(work)
    return found


def spans(works: list[Work]) -> list[tuple[int, int]]:
    return [(work.first, work.next_offset) for work in works]


def test_records_of_one_key_begin_one_after_the_other_and_others_beside_them() -> None:
    begun: list[Work] = []
    lanes = KeyLanes(8, begun.append)
    lanes.admit(T0, [keyed(0, b"a"), keyed(1, b"b"), keyed(2, b"a"), keyed(3, b"a")], 0.0)
    first = taken(lanes)
    assert [work.first for work in first] == [0, 1]
    assert [work.first for work in begun] == [0, 1, 2, 3], "progress hears of them in the order of offsets"
    lanes.release(first[0], ())
    (second,) = taken(lanes)
    assert second.first == 2
    lanes.release(second, [second])
    assert [work.first for work in taken(lanes)] == [2], "what is to be done again comes before what is behind it"


def test_records_without_a_key_wait_for_none() -> None:
    lanes = KeyLanes(8, lambda _: None)
    lanes.admit(T0, [keyed(0, None), keyed(1, None)], 0.0)
    assert len(taken(lanes)) == 2


def test_a_blocked_partition_waits_and_the_others_do_not() -> None:
    lanes = KeyLanes(8, lambda _: None)
    lanes.admit(T0, [keyed(0, b"a")], 0.0)
    lanes.admit(T1, [keyed(0, b"a", 1)], 0.0)
    assert [work.partition for work in taken(lanes, blocked={T0})] == [T1]
    assert [work.partition for work in taken(lanes)] == [T0]


def test_a_dropped_partition_is_forgotten() -> None:
    lanes = KeyLanes(1, lambda _: None)
    lanes.admit(T0, [keyed(0, b"a"), keyed(1, b"b")], 0.0)
    lanes.admit(T1, [keyed(0, b"a", 1)], 0.0)
    lanes.drop(T0)
    assert (lanes.waiting(T0), lanes.waiting(T1)) == (0, 1)
    assert [work.partition for work in taken(lanes)] == [T1]


def test_a_partition_is_full_until_half_has_begun() -> None:
    lanes = KeyLanes(2, lambda _: None)
    lanes.admit(T0, [keyed(offset, None) for offset in range(4)], 0.0)
    assert lanes.is_full(T0)
    lanes.take(0.0, ())
    assert (lanes.is_full(T0), lanes.has_room(T0)) == (False, False)
    lanes.take(0.0, ())
    assert lanes.has_room(T0)


def test_a_batch_waits_until_it_is_large_or_old_enough() -> None:
    lanes = BatchLanes(3, 10.0, lambda _: None)
    lanes.admit(T0, [record(0), record(1)], 0.0)
    assert taken(lanes, 9.0) == []
    assert lanes.due_in(4.0) == 6.0
    lanes.admit(T0, [record(2), record(3)], 5.0)
    (large,) = taken(lanes, 9.0)
    assert spans([large]) == [(0, 3)]
    assert taken(lanes, 99.0) == [], "batches of one partition keep their order"
    lanes.release(large, ())
    assert lanes.due_in(9.0) == 6.0, "its oldest record has arrived later"
    assert taken(lanes, 14.0) == []
    assert spans(taken(lanes, 15.0)) == [(3, 4)]


def test_batches_of_two_partitions_go_side_by_side() -> None:
    lanes = BatchLanes(2, 0.0, lambda _: None)
    lanes.admit(T0, [record(0), record(1), record(2)], 0.0)
    lanes.admit(T1, [record(7, 1)], 0.0)
    assert {(work.partition, work.first) for work in taken(lanes)} == {(T0, 0), (T1, 7)}
    assert (lanes.is_full(T0), lanes.has_room(T0)) == (False, True)


def test_arrow_batches_of_several_polls_become_one() -> None:
    lanes = BatchLanes(3, 60.0, lambda _: None)
    lanes.admit(T0, arrow([(0, 0, b"a"), (0, 2, b"b")]), 0.0)
    lanes.admit(T0, arrow([(0, 5, b"c"), (0, 6, b"d")]), 0.0)
    (work,) = taken(lanes)
    assert work.records.column("value").to_pylist() == [b"a", b"b", b"c"]
    assert spans([work]) == [(0, 6)]
    assert lanes.waiting(T0) == 1
