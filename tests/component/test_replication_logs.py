"""Leader and follower of one partition, message by message: logs that differ come to be the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.log.config import LogConfig
from actors.log.errors import StorageError
from actors.log.files import REAL_WRITER
from actors.log.partition_log import PartitionLog
from actors.log.replication import FollowerReplica, Outcome, Push, trivially_matched
from actors.records.building import build_batch
from tests.support.log_helpers import config
from tests.support.replica_log import MemoryLog, exchange, joined, leading, led, proposed, written

# --- logs that differ ---

LOGS: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]] = [
    ([(0, 5), (2, 3)], [(0, 5)]),
    ([(0, 5), (2, 3)], []),
    ([(0, 5), (2, 3)], [(0, 5), (1, 4)]),
    ([(0, 3), (0, 2), (2, 3)], [(0, 3)]),
    ([(0, 2), (3, 6)], [(0, 2), (1, 2), (2, 2)]),
    ([(0, 2), (2, 2), (4, 1)], [(0, 2), (1, 1), (3, 7)]),
    ([(0, 2)], [(0, 2), (1, 9)]),
    ([(5, 2)], [(0, 2), (1, 9)]),
    ([], [(1, 3)]),
]


@pytest.mark.parametrize(("ours", "theirs"), LOGS)
def test_a_follower_comes_to_have_what_its_leader_has(
    ours: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    log, other = written(*ours), written(*theirs)
    leader = led(log, epoch=9, isr=(0, 1), replicas=(0, 1))
    follower = joined(leader, b1=other)[1]
    log.append([b"new"], 9)
    exchange(leader, 1, follower)
    assert other.records() == log.records()
    assert log.high_watermark == other.log_end_offset == log.log_end_offset


def test_what_is_below_a_followers_watermark_is_never_cut_off() -> None:
    log, other = written((0, 2), (2, 4)), written((0, 2), (1, 2), (1, 2))
    other.high_watermark = 4
    push = Push(3, 1, 2, 0, 6, 0, 0, False, -1, (), log.read_with_end(2, 1000)[0])
    FollowerReplica(other, 0).on_push(push, 0)
    assert other.records()[3] == b"1"
    assert other.log_end_offset >= 4


def test_after_an_unclean_election_it_may_be() -> None:
    log, other = written((0, 2), (2, 4)), written((0, 2), (1, 4))
    other.high_watermark = 6
    leader = leading(0, log, leader_epoch=3, replicas=(0, 1), isr=(0,), partition_epoch=1, min_insync=1, unclean=True)
    leader.connect(1, 5, 0)
    exchange(leader, 1, FollowerReplica(other, 0))
    assert other.records() == log.records()


def test_a_follower_that_ends_before_its_leaders_log_begins_starts_there() -> None:
    log = written((0, 3), (0, 3), (0, 3))
    log.high_watermark = 9
    log.advance_start(6)
    leader = led(log, isr=(0,), replicas=(0, 1))
    other = written((0, 2))
    joined(leader, b1=other)
    assert (other.log_start_offset, other.log_end_offset) == (6, 9)
    assert other.records() == log.records()


def test_a_push_heard_twice_or_late_changes_nothing() -> None:
    log, other = written(), MemoryLog()
    leader = led(log, isr=(0, 1), replicas=(0, 1))
    follower = joined(leader, b1=other)[1]
    pushes = []
    for number in range(4):
        log.append([b"%d" % number] * 2, 1)
        push = leader.take_push(1, 200, 0)
        assert push is not None
        pushes.append(push)
    for push in (pushes[0], pushes[2], pushes[1], pushes[0], pushes[3], pushes[2], pushes[3]):
        leader.on_ack(1, follower.on_push(push, 0), 0)
    exchange(leader, 1, follower)
    assert other.records() == log.records()


def test_of_what_was_sent_together_the_first_refusal_alone_begins_anew() -> None:
    log, other = written((1, 3)), MemoryLog()
    leader = led(log, isr=(0, 1), replicas=(0, 1))
    follower = joined(leader, b1=other)[1]
    other.tear(0)
    refusals = []
    for value in (b"x", b"y"):
        log.append([value], 1)
        push = leader.take_push(1, 200, 0)
        assert push is not None
        refusals.append(follower.on_push(push, 0))
    assert [ack.outcome for ack in refusals] == [Outcome.MISMATCHED] * 2
    leader.on_ack(1, refusals[0], 0)
    assert leader.take_push(1, 200, 0) is not None
    leader.on_ack(1, refusals[1], 0)
    assert leader.take_push(1, 200, 0) is None, "its answer is still to come"


def test_the_leaders_start_becomes_the_followers() -> None:
    log, other = written((0, 2), (0, 2)), MemoryLog()
    leader = led(log, isr=(0, 1), replicas=(0, 1))
    follower = joined(leader, b1=other)[1]
    log.advance_start(2)
    log.append([b"x"], 1)
    exchange(leader, 1, follower)
    log.append([b"y"], 1)
    exchange(leader, 1, follower)
    assert other.log_start_offset == 2


def test_idle_followers_hear_of_a_new_start_and_those_in_sync_are_waited_for() -> None:
    log = written((1, 4))
    leader = led(log, isr=(0, 1))
    logs = {1: MemoryLog(), 2: MemoryLog()}
    followers = joined(leader, b1=logs[1], b2=logs[2])
    log.advance_start(3)
    assert leader.untold_start() == [1, 2]
    assert leader.start_in_sync == 0
    exchange(leader, 1, followers[1])
    assert (logs[1].log_start_offset, logs[2].log_start_offset) == (3, 0)
    assert leader.start_in_sync == 3, "the other is out of sync"
    assert proposed(leader, 0) is None, "and stays so: it would show what is deleted"
    exchange(leader, 2, followers[2])
    assert logs[2].log_start_offset == 3
    assert leader.untold_start() == []
    assert proposed(leader, 0) == [0, 1, 2]


def test_a_start_that_was_lost_on_its_way_is_told_again() -> None:
    log, other = written((1, 4)), MemoryLog()
    leader = led(log, isr=(0, 1), replicas=(0, 1))
    follower = joined(leader, b1=other)[1]
    log.advance_start(2)
    assert leader.take_push(1, 200, 0) is not None
    leader.disconnect(1)
    assert leader.start_in_sync == -1, "its successor may have another log"
    leader.connect(1, 6, 0)
    exchange(leader, 1, follower)
    assert other.log_start_offset == leader.start_in_sync == 2


def test_a_follower_that_cannot_write_says_so_and_is_asked_again() -> None:
    class Full(MemoryLog):
        full = True

        def append_as_follower(self, data: bytes | memoryview, now_ms: int) -> None:
            if self.full:
                raise StorageError("no space left")
            super().append_as_follower(data, now_ms)

    log, other = written((0, 2)), Full()
    leader = led(log, isr=(0, 1), replicas=(0, 1))
    follower = FollowerReplica(other, 0)
    leader.connect(1, 5, 0)
    assert exchange(leader, 1, follower)[-1].outcome is Outcome.FAILED
    other.full = False
    assert leader.retry(499, 2000, 500) == []
    assert leader.retry(500, 2000, 500) == [1]
    leader.take_push(1, 200, 500)  # lost: silence is waited for longer
    assert leader.retry(2499, 2000, 500) == []
    assert leader.retry(2500, 2000, 500) == [1]
    exchange(leader, 1, follower)
    assert log.high_watermark == 2


def test_a_follower_for_whom_the_log_could_not_be_read_is_pushed_to_again() -> None:
    class Unreadable(MemoryLog):
        broken = False

        def read_with_end(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
            if self.broken:
                raise OSError("too many open files")
            return super().read_with_end(offset, max_bytes)

    log = Unreadable()
    leader = led(log, isr=(0, 1), replicas=(0, 1))
    follower = joined(leader, b1=MemoryLog())[1]
    log.append([b"a"], 1)
    log.broken = True
    with pytest.raises(OSError, match="open files"):
        leader.take_push(1, 200, 0)
    leader.unread(1, 0)
    log.broken = False
    assert leader.retry(499, 2000, 500) == []
    assert leader.retry(500, 2000, 500) == [1]
    exchange(leader, 1, follower)
    assert log.high_watermark == 1
    assert leader.retry(9999, 2000, 500) == [], "nothing is owed any more"


@pytest.mark.parametrize("left", [[(2, 4), (3, 2)], [(2, 4)]])
def test_what_differs_goes_also_where_compaction_has_left_the_leader_nothing(left: list[tuple[int, int]]) -> None:
    log = written((2, 4), (3, 3), (4, 2), (5, 2))
    leader = led(log, epoch=5, replicas=(0, 1))
    log.batches = [each for each in log.batches if (each[0].leader_epoch, each[0].record_count) in left]
    behind = written((2, 6))
    joined(leader, b1=behind)
    assert behind.records() == log.records(), "4 and 5 were never committed"
    assert (behind.log_end_offset, behind.epoch_entries()) == (log.log_end_offset, log.epoch_entries())


def test_where_another_epoch_wrote_is_found_by_the_epochs_alone() -> None:
    follower = FollowerReplica(written((1, 2), (2, 2), (4, 2)), 0)

    def parting(*epochs: tuple[int, int], base: int = 0) -> int | None:
        return follower.parting_at(Push(5, 1, base, -1, 8, 0, 0, False, -1, epochs, b""))

    assert parting((1, 0), (2, 2), (4, 4)) is None
    assert parting((1, 0), (2, 2), (3, 4)) == 4
    assert parting((1, 0), (2, 3), (4, 4)) == 2
    assert parting((1, 0), (3, 1)) == 1
    assert parting((1, 0), (3, 1), base=6) is None


def test_what_has_no_log_matches_a_leader_without_records() -> None:
    push = led(MemoryLog(), replicas=(0, 1))
    push.connect(1, 5, 0)
    empty = push.take_push(1, 200, 0)
    assert empty is not None
    answer = trivially_matched(empty)
    assert answer is not None
    assert answer.end_offset == 0
    assert trivially_matched(Push(1, 1, 0, -1, 2, 0, 0, False, -1, (), b"...")) is None


# --- real logs ---


def partition_log(path: Path, **configs: str) -> PartitionLog:
    return PartitionLog.open(path, config(**configs), REAL_WRITER, clean_shutdown=True, now_ms=0)


def test_files_come_to_hold_the_same_bytes(tmp_path: Path) -> None:
    ours, theirs = partition_log(tmp_path / "a", segment_bytes="500"), partition_log(tmp_path / "b")
    theirs.append_as_leader(build_batch([(None, b"lost", (), 1)] * 3), 0, 1)
    leader = leading(0, ours, leader_epoch=1, replicas=(0, 1), isr=(0, 1), partition_epoch=0, min_insync=2)
    for number in range(20):
        ours.append_as_leader(build_batch([(b"k", b"%d" % number, (), 1)] * 2), 1, 1)
    leader.connect(1, 0, 0)
    exchange(leader, 1, FollowerReplica(theirs, 0))
    assert ours.high_watermark == theirs.log_end_offset == 40
    assert _bytes(ours) == _bytes(theirs)
    theirs.close()
    again = PartitionLog.open(tmp_path / "b", LogConfig(), REAL_WRITER, clean_shutdown=False, now_ms=0)
    assert again.log_end_offset == 40
    assert again.epoch_entries() == [(1, 0)]
    again.close()
    ours.close()


def _bytes(log: PartitionLog) -> bytes:
    data, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        piece, offset = log.read_with_end(offset, 1000)
        data += piece
    return data


@pytest.mark.parametrize("first", [0, 4])
def test_a_log_that_skips_ends_there_also_when_it_is_opened_again(tmp_path: Path, first: int) -> None:
    log = partition_log(tmp_path / "a")
    if first:
        log.append_as_leader(build_batch([(None, b"x", (), 1)] * first), 0, 1)
    log.skip_to(10)
    assert log.log_end_offset == 10
    assert log.read_with_end(first, 100) == (b"", 10)
    assert log.append_as_leader(build_batch([(None, b"y", (), 1)]), 0, 1).base_offset == 10
    assert len(log.read_with_end(first, 100)[0]) > 0
    log.close()
    again = PartitionLog.open(tmp_path / "a", LogConfig(), REAL_WRITER, clean_shutdown=False, now_ms=0)
    assert again.log_end_offset == 11
    again.close()


def test_a_log_that_skipped_from_its_start_goes_back_to_before_its_first_segment(tmp_path: Path) -> None:
    log = partition_log(tmp_path / "a")
    log.skip_to(10)
    log.truncate_to(4)
    assert log.append_as_leader(build_batch([(None, b"x", (), 1)]), 0, 1).base_offset == 4
    assert log.log_end_offset == 5
    assert len(log.read_with_end(4, 100)[0]) > 0
    log.close()
    again = PartitionLog.open(tmp_path / "a", LogConfig(), REAL_WRITER, clean_shutdown=True, now_ms=0)
    assert (again.log_start_offset, again.log_end_offset) == (4, 5)
    again.close()
