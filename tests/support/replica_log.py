"""A log in memory for the tests of replication: a `PartitionLog` without files, and with torn tails."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

from actors.log.epochs import LeaderEpochs
from actors.log.replication import (
    Ack,
    FollowerReplica,
    LeaderLog,
    LeaderReplica,
)
from actors.records.batch import BatchHeader, read_header, split_batches, stamp
from actors.records.building import build_batch
from actors.records.errors import OFFSET_OUT_OF_RANGE, LogError
from tests.support.read_records import read_records

_NOWHERE = Path("/nowhere")


class MemoryLog:
    """Batches in a list. Implements `ReplicaLog`."""

    def __init__(self) -> None:
        self.batches: list[tuple[BatchHeader, bytes]] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.flushed = 0
        """Up to here a machine's crash takes nothing."""
        self._epochs = LeaderEpochs(_NOWHERE)

    # -- leaders

    def append(self, values: list[bytes], leader_epoch: int) -> int:
        """Append a batch; its base offset."""
        batch = bytearray(build_batch([(None, value, None, 0) for value in values]))
        base = self.log_end_offset
        stamp(batch, base, leader_epoch)
        self._add(bytes(batch))
        return base

    def _add(self, batch: bytes) -> None:
        header = read_header(batch)
        self._epochs.assign(header.leader_epoch, header.base_offset)
        self.batches.append((header, batch))
        self.log_end_offset = header.next_offset

    def assign_leader_epoch(self, epoch: int, start_offset: int | None = None) -> None:
        self._epochs.assign(epoch, self.log_end_offset if start_offset is None else start_offset)

    def epochs_between(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        return self._epochs.between(start, end)

    def read_with_end(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        assert self.log_start_offset <= offset <= self.log_end_offset
        data, end = b"", self.log_end_offset
        for header, batch in self.batches[self._index(offset) :]:
            if data and len(data) + len(batch) > max_bytes:
                break
            data += batch
            end = header.next_offset
        return data, end

    def _index(self, offset: int) -> int:
        """The number of the first batch that ends after `offset`."""
        return bisect_right(self.batches, offset, key=lambda batch: batch[0].next_offset)

    # -- both

    def advance_high_watermark(self, offset: int) -> bool:
        moved = min(offset, self.log_end_offset) > self.high_watermark
        self.high_watermark = max(self.high_watermark, min(offset, self.log_end_offset))
        return moved

    def epoch_entries(self) -> list[tuple[int, int]]:
        return self._epochs.entries()

    def epoch_at(self, offset: int) -> int:
        return self._epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self._epochs.end_offset(epoch, self.log_end_offset)

    def records(self, start: int = 0) -> dict[int, bytes]:
        """Value by offset, from the batch that holds `start` on."""
        data = b"".join(batch for _, batch in self.batches[self._index(start) :])
        return {record.offset: record.value or b"" for record in read_records(data)}

    # -- followers

    def append_as_follower(self, data: bytes | memoryview, now_ms: int) -> None:
        for start, end, header in split_batches(data):
            if header.base_offset < self.log_end_offset:
                raise LogError(OFFSET_OUT_OF_RANGE, f"{header.base_offset} < {self.log_end_offset}")
            self._add(bytes(data[start:end]))

    def truncate_to(self, offset: int) -> None:
        while self.batches and self.batches[-1][0].next_offset > offset:
            self.batches.pop()
        end = self.batches[-1][0].next_offset if self.batches else self.log_start_offset
        self._end_at(end if end < self.log_end_offset else self.log_end_offset)

    def _end_at(self, end: int) -> None:
        self.log_end_offset = end
        self.high_watermark = min(self.high_watermark, end)
        self.flushed = min(self.flushed, end)
        self._epochs.truncate_end(end)

    def reset_to(self, offset: int) -> None:
        self.batches.clear()
        self._epochs.truncate_end(offset)
        self.log_start_offset = self.log_end_offset = self.high_watermark = offset

    def skip_to(self, offset: int) -> None:
        self.log_end_offset = max(self.log_end_offset, offset)

    def advance_start(self, offset: int) -> None:
        self.log_start_offset = max(self.log_start_offset, min(offset, self.high_watermark))
        self._epochs.truncate_start(self.log_start_offset)
        while self.batches and self.batches[0][0].next_offset <= self.log_start_offset:
            self.batches.pop(0)

    # -- crashes

    def tear(self, end: int) -> None:
        """A machine's crash: everything from `end` on, which was not flushed, is gone."""
        assert end >= self.flushed
        self.truncate_to(end)
        # The watermark in the checkpoint is older than the watermark was.
        self.high_watermark = min(self.high_watermark, self.flushed)


def leading(
    me: int,
    log: LeaderLog,
    *,
    leader_epoch: int,
    replicas: Iterable[int],
    isr: Iterable[int],
    partition_epoch: int = 1,
    min_insync: int = 1,
    unclean: bool = False,
    added_at: int = 0,
) -> LeaderReplica:
    """A leader that has just been elected at time 0, the first of its process."""
    return LeaderReplica(
        me,
        log,
        leader_epoch=leader_epoch,
        replicas=replicas,
        isr=isr,
        partition_epoch=partition_epoch,
        min_insync=min_insync,
        now_ms=0,
        unclean=unclean,
        added_at=added_at,
        rounds=count(1),
    )


LAG_MS = 1000


def led(
    log: MemoryLog,
    epoch: int = 1,
    isr: Iterable[int] = (0, 1, 2),
    min_insync: int = 1,
    replicas: Iterable[int] = (0, 1, 2),
) -> LeaderReplica:
    return leading(0, log, leader_epoch=epoch, replicas=replicas, isr=isr, partition_epoch=1, min_insync=min_insync)


def written(*batches: tuple[int, int]) -> MemoryLog:
    """A log of batches, each given by (leader epoch, number of records)."""
    log = MemoryLog()
    for epoch, size in batches:
        log.append([b"%d" % epoch] * size, epoch)
    return log


def exchange(leader: LeaderReplica, broker: int, follower: FollowerReplica, most: int = 50) -> list[Ack]:
    """Push until there is nothing more to push; the answers."""
    acks = []
    while (push := leader.take_push(broker, 200, 0)) is not None:
        acks.append(follower.on_push(push, 0))
        leader.on_ack(broker, acks[-1], 0)
        assert len(acks) < most, "no end"
    return acks


def joined(leader: LeaderReplica, **logs: MemoryLog) -> dict[int, FollowerReplica]:
    followers = {}
    for name, log in logs.items():
        broker = int(name[1:])
        followers[broker] = FollowerReplica(log, 0)
        leader.connect(broker, 5, 0)
        exchange(leader, broker, followers[broker])
    return followers


def proposed(leader: LeaderReplica, now_ms: int, heard: Callable[[int], int] = lambda broker: 0) -> list[int] | None:
    proposal = leader.propose(now_ms, LAG_MS, 7, heard)
    return None if proposal is None else [broker for broker, _ in proposal.isr]
