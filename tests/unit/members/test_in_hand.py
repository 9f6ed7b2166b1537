"""A member declares the records that it has in hand before they begin. Time is a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from actors.client import TopicPartition
from actors.links.member_deaths import InHand
from actors.members.pools.handling.in_hand import Declared
from actors.members.pools.handling.progress import Progress
from actors.members.pools.handling.work import Work
from tests.support.member import T0, T1, record

LOOK_S = 0.2


class Told:
    """The declarations, and the time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.said: list[InHand] = []
        self.counts = Progress(lambda: self.now_s)
        self.topic_id = b""
        self.declared = Declared(lambda: self.now_s, self.counts, lambda _: self.topic_id)
        self.declared.report_to(self.said.append)

    def handle(self, offsets: range, took_s: float) -> None:
        """Handle the records of a poll, one after the other."""
        for offset in offsets:
            work = one(offset)
            self.declared.begin(work, ahead(range(offset + 1, offsets.stop)))
            self.now_s += took_s
            if took_s > LOOK_S:
                self.declared.look()
            self.declared.end(work)
            self.counts.handled += 1

    @property
    def spans(self) -> list[list[tuple[int, int, int]]]:
        return [[(s.partition, s.first, s.next_offset) for s in each.spans] for each in self.said]


def one(offset: int, partition: int = 0) -> Work:
    return Work.of(TopicPartition("t", partition), [record(offset, partition)])


def ahead(offsets: range) -> Callable[[], Iterator[tuple[TopicPartition, int]]]:
    return lambda: ((T0, offset) for offset in offsets)


def nothing() -> Iterator[tuple[TopicPartition, int]]:
    return iter(())


def test_each_record_is_said_to_be_in_hand_before_it_begins() -> None:
    """A process may die at once: nobody could say it then."""
    told = Told()
    for offset in range(2000):
        told.declared.begin(work := one(offset), ahead(range(offset + 1, 2000)))
        (span,) = told.said[-1].spans
        assert span.first <= offset < span.next_offset
        told.now_s += 0.0001
        told.declared.end(work)


def test_quick_records_are_said_by_the_hundreds_and_slow_ones_one_by_one() -> None:
    told = Told()
    told.handle(range(10_000), 0.00001)
    assert len(told.said) < 30
    assert told.spans[-1][0][2] - told.spans[-1][0][1] > 500
    told.said.clear()
    told.handle(range(10_000, 10_100), 1.0)
    assert told.spans[1:4] == [[(0, 10_000, 10_001)], [(0, 10_001, 10_002)], [(0, 10_002, 10_003)]]


def test_a_look_says_what_has_ended_since() -> None:
    told = Told()
    told.handle(range(3), 0.00001)
    told.declared.look()
    assert (told.said[-1].spans, told.said[-1].handled) == ((), 3)
    count = len(told.said)
    told.declared.look()
    assert len(told.said) == count, "there is nothing new"


def test_a_record_that_is_tried_alone_is_said_at_once_and_so_is_its_end() -> None:
    """A process that dies a moment later must not count against it."""
    told = Told()
    told.declared.begin(before := one(0), ahead(range(1, 9)))
    told.declared.end(before)
    with told.declared.alone(one(1)):
        assert (told.spans[-1], told.said[-1].alone) == ([(0, 1, 2)], True)
        told.declared.look()
        assert told.said[-1].alone
    assert (told.spans[-1], told.said[-1].alone) == ([], False)


def test_several_at_a_time_are_all_in_hand_until_each_has_ended() -> None:
    told = Told()
    first, second, other = one(0), one(5), one(7, 1)
    for work in (first, second, other):
        told.declared.begin(work, nothing)
    assert told.spans[-1] == [(0, 0, 1), (0, 5, 6), (1, 7, 8)]
    told.declared.end(first)
    told.declared.look()
    assert told.spans[-1] == [(0, 5, 6), (1, 7, 8)]


def test_partitions_that_are_given_up_are_not_about_to_begin() -> None:
    told = Told()
    told.declared.begin(one(0), ahead(range(1, 9)))
    told.declared.begin(one(0), lambda: iter([(T0, 1), (T1, 3)]))
    told.declared.begin(one(9), lambda: iter([(T0, 10), (T1, 3)]))
    told.declared.forget([T1])
    told.declared.look()
    assert all(partition == 0 for partition, _, _ in told.spans[-1])


def test_a_message_has_a_bound_however_scattered_the_records_are() -> None:
    told = Told()
    for offset in range(0, 1000, 2):
        told.declared.begin(one(offset), nothing)
    assert told.spans[-1] == [(0, 0, 999)]


def test_what_is_in_hand_names_the_topic_by_id_and_a_namesakes_records_are_said_anew() -> None:
    """The next records of a deleted topic are not those of the new topic of its name."""
    told = Told()
    told.topic_id = b"o" * 16
    left = one(0)
    told.declared.begin(left, ahead(range(1, 9)))
    told.now_s += 0.0001
    told.declared.begin(one(1), ahead(range(2, 9)))
    count = len(told.said)
    told.topic_id = b"n" * 16
    told.declared.begin(one(2), nothing)
    assert len(told.said) == count + 1
    assert {(s.first, s.topic_id) for s in told.said[-1].spans} == {(0, b"o" * 16), (2, b"n" * 16)}
    told.declared.end(left)
    with told.declared.alone(one(2)):
        assert {s.topic_id for s in told.said[-1].spans} == {b"o" * 16, b"n" * 16}
