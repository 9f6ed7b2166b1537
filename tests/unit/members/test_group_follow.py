"""A read without an end, over a log and a group that are made up: what is given out when, and what is committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from actors.client import TopicPartition
from actors.client.records import OffsetRange
from actors.members.ranges.group import RangeMemberSpec, limited
from actors.members.ranges.ray_follow import BatchNotReadError, GroupFollow
from actors.members.ranges.reads import ReadBatch, Reading, ReadPlan

PLAN = ReadPlan(RangeMemberSpec("g", "h:1", ("t",)), Reading("h:1", True, {}), "earliest", 60.0)
T0, T1 = ("t", 0), ("t", 1)


class Rows:
    """Stands for a dataset: the offsets of its ranges, one a row. It counts as read when somebody has gone through."""

    def __init__(self, ranges: Iterable[OffsetRange]) -> None:
        self.rows = [(r.partition, offset) for r in ranges for offset in range(r.from_offset, r.until_offset)]
        self.read = False

    def iter_batches(self, batch_size: int = 2) -> Iterator[list[tuple[int, int]]]:
        self.read = True  # Ray's tasks read ahead
        for at in range(0, len(self.rows), batch_size):
            yield self.rows[at : at + batch_size]


@dataclass
class Log:
    """Stands for the reader: where the logs end, what the group has committed, and what other members have taken."""

    ends: dict[tuple[str, int], int]
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    taken: set[tuple[str, int]] = field(default_factory=set)
    numbers: int = 0
    given: Any = None
    left: int = 0

    def begin(self, most: int | None = None) -> ReadBatch:
        positions = {tp: self.committed.get(tp, 0) for tp in self.ends}
        self.numbers += 1
        return ReadBatch(self.numbers, tuple(limited(positions, self.ends, most)), dict.fromkeys(self.ends, "token"))

    def dataset(self, batch: ReadBatch) -> Any:
        self.given = Rows(batch.ranges)
        return self.given

    def unread(self, batch: ReadBatch) -> list[OffsetRange]:
        return [] if self.given.read else list(batch.ranges)

    def commit(self, batch: ReadBatch, ranges: Iterable[OffsetRange]) -> tuple[TopicPartition, ...]:
        done = {(r.topic, r.partition): r.until_offset for r in ranges}
        counted = {tp: at for tp, at in done.items() if tp not in self.taken}
        self.committed |= counted
        return tuple(TopicPartition(*tp) for tp in counted)

    def leave(self) -> None:
        self.left += 1


class Time:
    """A clock that goes on only while somebody sleeps, and does something at given times."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []
        self.then: list[Any] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        if self.then:
            self.then.pop(0)()


def following(log: Log, most: int | None = None, interval_s: float = 0.0, time: Time | None = None) -> GroupFollow:
    clock = time or Time()
    return GroupFollow(PLAN, most, interval_s, lambda _: log, monotonic=clock.monotonic, sleep=clock.sleep)


def test_a_dataset_is_committed_when_the_next_one_is_asked_for() -> None:
    log = Log({T0: 4, T1: 2})
    with following(log, most=3) as read:
        datasets = iter(read)
        first: Any = next(datasets)
        list(first.iter_batches())
        assert (log.committed, read.committed) == ({}, {})
        assert read.ranges == (OffsetRange("t", 0, 0, 2), OffsetRange("t", 1, 0, 1))
        next(datasets)
        assert log.committed == {T0: 2, T1: 1}
        assert read.committed == {TopicPartition(*T0): 2, TopicPartition(*T1): 1}
        assert read.ranges == (OffsetRange("t", 0, 2, 4), OffsetRange("t", 1, 1, 2))
    assert (log.committed, log.left) == ({T0: 2, T1: 1}, 1), "what was in hand is not committed"


def test_a_loop_that_is_left_commits_only_what_was_consumed_and_the_next_one_begins_behind_it() -> None:
    log = Log({T0: 10})
    seen = []
    with following(log, most=4) as read:
        for rows in read.iter_batches():
            seen += rows
            if len(seen) == 6:  # in the middle of the second dataset, of which all has been read ahead
                break
        assert log.committed == {T0: 4}
        assert next(read.iter_batches()) == [(0, 4), (0, 5)]
    assert log.committed == {T0: 4}


def test_an_error_in_the_loop_commits_nothing_of_what_was_in_hand() -> None:
    log = Log({T0: 4})

    def work() -> None:
        with following(log) as read:
            for _ in read.iter_batches():
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert (log.committed, log.left) == ({}, 1)


def test_it_waits_for_records_and_ends_when_it_is_stopped_with_all_that_it_gave_out_committed() -> None:
    log, time, seen = Log({T0: 2}), Time(), []
    with following(log, time=time) as read:
        time.then = [lambda: None, lambda: log.ends.update({T0: 5}), lambda: None, read.stop]
        for rows in read.iter_batches(batch_size=10):
            seen += rows
    assert seen == [(0, offset) for offset in range(5)]
    assert log.committed == {T0: 5}
    assert len(time.slept) == 4, "it looks again and again, and not without a pause"


def test_a_stop_lets_the_dataset_in_hand_be_consumed_to_its_end() -> None:
    log, seen = Log({T0: 9}), []
    with following(log, most=6) as read:
        for rows in read.iter_batches():
            seen += rows
            read.stop()
    assert seen == [(0, offset) for offset in range(6)]
    assert log.committed == {T0: 6}


def test_a_dataset_that_nobody_read_is_an_error_and_not_committed() -> None:
    log = Log({T0: 2})
    with following(log) as read, pytest.raises(BatchNotReadError, match=r"group g: .* t-0 from 0 to 2\. Nothing"):
        list(read)
    assert log.committed == {}


def test_what_another_member_has_taken_is_not_among_what_was_committed() -> None:
    log = Log({T0: 2, T1: 2}, taken={T1})
    with following(log) as read:
        for dataset in read:
            list(dataset.iter_batches())
            read.stop()
        assert read.committed == {TopicPartition(*T0): 2}


def test_datasets_begin_so_long_after_one_another_at_the_earliest() -> None:
    log, time, begun = Log({T0: 3}), Time(), []
    with following(log, most=1, interval_s=1.0, time=time) as read:
        for dataset in read:
            list(dataset.iter_batches())
            begun.append(time.now_s)
            time.now_s += 0.4
            if len(begun) == 3:
                read.stop()
    assert begun == pytest.approx([0.0, 1.0, 2.0])


def test_it_reads_within_its_block_only() -> None:
    read = following(Log({T0: 1}))
    with pytest.raises(RuntimeError, match="within its with block"):
        next(iter(read))
    with read:
        pass
    with pytest.raises(RuntimeError, match="within its with block"):
        next(iter(read))
