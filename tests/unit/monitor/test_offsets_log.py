"""A Monitor follows the records of `__consumer_offsets`, also in a log that changes under it."""

from __future__ import annotations

from dataclasses import dataclass, field

from actors.coordinator.classic.records import GroupDeleted, GroupMetadata, GroupPut, MemberMetadata
from actors.coordinator.groups.offset_records import OffsetsDeleted, OffsetsPut, StoredOffsets, offset_value
from actors.coordinator.records import Change, Record, encode
from actors.links.reading import LogRead
from actors.monitor.follower import Follower
from actors.monitor.offsets_log import OffsetsLog, OffsetsPartition
from actors.records.batch import read_header
from actors.records.building import build_batch
from actors.wire.errors import ErrorCode

NOW_MS = 1_700_000_000_000


def committed(group: str, topic: str, partition: int, offset: int, metadata: str = "") -> Change:
    stored = offset.to_bytes(8, "big") + (7).to_bytes(4, "big")
    value = offset_value(stored, metadata.encode(), NOW_MS)
    return OffsetsPut(group, [StoredOffsets(topic, [partition], [value])])


def group_of(*members: str, generation: int = 1) -> GroupMetadata:
    rows = tuple(MemberMetadata(m, None, f"client of {m}", "/127.0.0.1", 1, 1, b"", b"") for m in members)
    return GroupMetadata("consumer", generation, "range" if members else None, None, NOW_MS, rows)


def records(*changes: Change) -> list[Record]:
    return encode(changes)


def test_the_last_record_of_a_key_counts() -> None:
    log = OffsetsPartition()
    log.apply(records(committed("billing", "orders", 0, 5), committed("billing", "orders", 0, 9, "by hand")))
    log.apply(records(GroupPut("billing", group_of("a", "b", generation=3))))
    group = log.groups["billing"]
    assert group.offsets["orders", 0] == (9, 7, "by hand", NOW_MS, -1, b"")
    assert group.commits == 2
    assert group.persisted is not None
    assert [member.member_id for member in group.persisted.members] == ["a", "b"]


def test_a_group_is_gone_when_nothing_of_it_is_left() -> None:
    log = OffsetsPartition()
    log.apply(records(committed("billing", "orders", 0, 5), GroupPut("billing", group_of("a"))))
    log.apply(records(GroupDeleted("billing")))
    assert log.groups["billing"].persisted is None
    log.apply(records(OffsetsDeleted("billing", [("orders", 0), ("orders", 1)])))
    assert log.groups == {}
    log.apply(records(GroupDeleted("never there")))
    assert log.groups == {}


def test_records_that_cannot_be_decoded_are_passed_over_and_counted() -> None:
    log = OffsetsPartition()
    log.apply([Record(b"\0\1\0\x09bil", b"x"), *records(committed("billing", "orders", 0, 5))])
    assert log.unreadable == 1
    assert list(log.groups) == ["billing"]


@dataclass
class Leader:
    """A leader of `__consumer_offsets-3`, with a log of batches that tests cut and compact."""

    batches: list[bytes] = field(default_factory=list)
    answers: bool = True
    start: int = 0
    reads: int = 0

    @property
    def end(self) -> int:
        return read_header(self.batches[-1]).next_offset if self.batches else self.start

    def append(self, *changes: Change, epoch: int = 1, at: int | None = None) -> None:
        rows = [(key, value, None, NOW_MS) for key, value in encode(changes)]
        self.batches.append(build_batch(rows, base_offset=self.end if at is None else at, leader_epoch=epoch))

    async def read_log(
        self, topic: str, partition: int, offset: int, max_bytes: int, head_bytes: int = 0
    ) -> LogRead | None:
        assert (topic, partition) == ("__consumer_offsets", 3)
        self.reads += 1
        if not self.answers:
            return None
        if not self.start <= offset <= self.end:
            return LogRead(ErrorCode.OFFSET_OUT_OF_RANGE, self.start, self.end)
        headers = [read_header(batch) for batch in self.batches]
        epoch = next((h.leader_epoch for h in reversed(headers) if h.base_offset < offset), -1)
        data = next((b for b, h in zip(self.batches, headers, strict=True) if h.next_offset > offset), b"")
        return LogRead(0, self.start, self.end, epoch, data)


def offsets_of(log: OffsetsLog) -> dict[tuple[str, str, int], int]:
    return {(g.group_id, *tp): value.offset for _, g in log for tp, value in g.offsets.items()}


async def test_it_reads_on_from_where_it_was_and_asks_nothing_when_nothing_is_new() -> None:
    leader = Leader()
    follower = Follower(leader)
    for offset in range(5):
        leader.append(committed("billing", "orders", 0, offset))
    await follower.follow({3: leader.end})
    assert offsets_of(follower.log) == {("billing", "orders", 0): 4}
    assert leader.reads == 5
    await follower.follow({3: leader.end})
    assert leader.reads == 5
    leader.append(committed("billing", "orders", 1, 8))
    await follower.follow({3: leader.end})
    assert leader.reads == 6
    assert offsets_of(follower.log) == {("billing", "orders", 0): 4, ("billing", "orders", 1): 8}


async def test_a_log_that_was_cut_and_written_anew_is_read_from_its_beginning() -> None:
    leader = Leader()
    follower = Follower(leader)
    for offset in range(6):
        leader.append(committed("billing", "orders", 0, offset))
    await follower.follow({3: leader.end})
    del leader.batches[3:]  # an unclean election: the new leader had no more
    leader.append(*(committed("billing", "orders", 1, offset) for offset in range(6)), epoch=2)
    await follower.follow({3: leader.end})
    assert offsets_of(follower.log) == {("billing", "orders", 0): 2, ("billing", "orders", 1): 5}


async def test_a_log_that_ends_before_our_position_is_read_anew() -> None:
    leader = Leader()
    follower = Follower(leader)
    for offset in range(6):
        leader.append(committed("billing", "orders", 0, offset))
    await follower.follow({3: leader.end})
    del leader.batches[3:]
    await follower.follow({3: leader.end})
    assert offsets_of(follower.log) == {("billing", "orders", 0): 2}


async def test_gaps_of_compaction_are_nothing_new() -> None:
    leader = Leader()
    follower = Follower(leader)
    leader.append(committed("billing", "orders", 0, 1))
    leader.append(committed("billing", "orders", 0, 2), at=50)
    leader.append(committed("billing", "orders", 1, 3), at=90)
    await follower.follow({3: leader.end})
    assert offsets_of(follower.log) == {("billing", "orders", 0): 2, ("billing", "orders", 1): 3}
    assert follower.behind == 0


async def test_without_a_leader_what_was_read_stays_and_is_read_on_later() -> None:
    leader = Leader()
    follower = Follower(leader)
    leader.append(committed("billing", "orders", 0, 1))
    await follower.follow({3: leader.end})
    leader.append(committed("billing", "orders", 0, 2))
    leader.answers = False
    await follower.follow({3: leader.end})
    assert offsets_of(follower.log) == {("billing", "orders", 0): 1}
    assert follower.behind == 1
    leader.answers = True
    await follower.follow({3: leader.end})
    assert offsets_of(follower.log) == {("billing", "orders", 0): 2}


async def test_while_a_log_is_read_anew_what_was_known_is_shown() -> None:
    leader = Leader()
    follower = Follower(leader)
    for offset in range(6):
        leader.append(committed("billing", "orders", 0, offset))
    await follower.follow({3: leader.end})
    known = offsets_of(follower.log)
    del leader.batches[3:]
    read_log = leader.read_log

    async def once_and_no_more(*asked: object) -> LogRead | None:
        leader.answers = leader.reads < 7
        return await read_log(*asked)  # type: ignore[arg-type]

    leader.read_log = once_and_no_more  # type: ignore[method-assign]
    await follower.follow({3: leader.end})
    assert offsets_of(follower.log) == known
    leader.read_log = read_log  # type: ignore[method-assign]
    leader.answers = True
    await follower.follow({3: leader.end})
    assert offsets_of(follower.log) == {("billing", "orders", 0): 2}


async def test_a_damaged_batch_is_passed_over() -> None:
    leader = Leader()
    follower = Follower(leader)
    leader.append(committed("billing", "orders", 0, 1))
    leader.append(committed("billing", "orders", 0, 2))
    broken = bytearray(leader.batches[1])
    broken[61:] = b"\xff" * (len(broken) - 61)
    leader.batches[1] = bytes(broken)
    leader.append(committed("billing", "orders", 1, 3))
    await follower.follow({3: leader.end})
    assert offsets_of(follower.log) == {("billing", "orders", 0): 1, ("billing", "orders", 1): 3}
    assert follower.log.partitions[3].unreadable == 1
