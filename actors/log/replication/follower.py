"""A follower's side of one partition: takes what the leader of the newest epoch pushes, and nothing else.

Records below the high watermark are never cut off (KIP-101, KIP-279), unless an unclean election was allowed.
"""

from __future__ import annotations

from actors.log.replication.messages import Ack, Outcome, Push, ReplicaLog
from actors.records.batch import split_batches
from actors.records.errors import LogError


class FollowerReplica:
    """A replica of a partition that another broker leads.

    `epoch` is the newest leader epoch heard of, `told_watermark` the high watermark that the leader last told.
    """

    __slots__ = ("epoch", "log", "told_watermark")

    def __init__(self, log: ReplicaLog, epoch: int) -> None:
        self.log = log
        self.epoch = epoch
        self.told_watermark = 0

    @property
    def lag(self) -> int:
        """The number of offsets by which this log is behind the leader's watermark."""
        return max(self.told_watermark - self.log.log_end_offset, 0)

    def on_push(self, push: Push, now_ms: int) -> Ack:
        """Take a push; `now_ms` is wall time, for the log. An error of the disk is answered FAILED, not raised."""
        if push.leader_epoch < self.epoch:
            return Ack(self.epoch, push.round, Outcome.FENCED)
        self.epoch = push.leader_epoch
        self.told_watermark = push.high_watermark
        try:
            return self._take(push, now_ms)
        except (LogError, OSError):
            return Ack(self.epoch, push.round, Outcome.FAILED)

    def _take(self, push: Push, now_ms: int) -> Ack:
        log = self.log
        if log.log_end_offset < push.log_start_offset:
            log.reset_to(push.log_start_offset)  # the leader no longer has what we lack
        if not self._matches(push) or not self._extend(push, now_ms):
            return self._mismatched(push)
        if log.log_end_offset < push.next_offset:
            log.skip_to(push.next_offset)  # compaction has emptied the leader's log up to there
        log.advance_high_watermark(min(push.high_watermark, push.next_offset))
        log.advance_start(push.log_start_offset)
        end, watermark, start = push.next_offset, log.high_watermark, log.log_start_offset
        return Ack(self.epoch, push.round, Outcome.MATCHED, end, watermark, log_start_offset=start)

    def _floor(self, push: Push) -> int:
        """The offset below which both logs are the same, whatever the epochs say."""
        return self.log.log_start_offset if push.unclean else self.log.high_watermark

    def _matches(self, push: Push) -> bool:
        log, base = self.log, push.base_offset
        if base <= self._floor(push):
            return True
        if base > log.log_end_offset:
            return False
        if push.previous_epoch < 0:
            # The leader's log begins here: it cannot be told whether what we have before is what it had.
            log.reset_to(base)
            return True
        return log.epoch_at(base - 1) == push.previous_epoch

    def _extend(self, push: Push, now_ms: int) -> bool:
        """Cut off the records that differ and append the new ones. False if the cut left a gap before it."""
        log, data = self.log, memoryview(push.records)
        parting = self.parting_at(push)
        if parting is not None:
            log.truncate_to(parting)
            if log.log_end_offset < push.base_offset:
                return False
        for epoch, start in push.epochs:
            if start >= log.log_end_offset:
                log.assign_leader_epoch(epoch, start)  # its first records may have been compacted away
        for start, _, header in split_batches(data):
            if header.next_offset > log.log_end_offset:
                log.append_as_follower(data[start:], now_ms)
                break
        return True

    def parting_at(self, push: Push) -> int | None:
        """The first offset at which our log's epoch is not the leader's (KIP-101); None if there is none.

        Epochs are compared, not records, because compaction may have left none of the leader's.
        """
        log = self.log
        begin, end = max(push.base_offset, self._floor(push)), min(log.log_end_offset, push.next_offset)
        if begin >= end:
            return None
        theirs, ours = push.epochs, log.epochs_between(begin, end)
        places = sorted({begin, *(start for _, start in (*theirs, *ours) if begin < start < end)})
        return next((at for at in places if _epoch_at(theirs, at) != _epoch_at(ours, at)), None)

    def _mismatched(self, push: Push) -> Ack:
        log = self.log
        return Ack(self.epoch, push.round, Outcome.MISMATCHED, log.log_end_offset, self._floor(push), epoch_ends(log))


def epoch_ends(log: ReplicaLog) -> tuple[tuple[int, int], ...]:
    """(epoch, its end offset in this log) of all known epochs, ascending."""
    entries = log.epoch_entries()
    ends = [start for _, start in entries[1:]] + [log.log_end_offset]
    return tuple((epoch, end) for (epoch, _), end in zip(entries, ends, strict=False))  # no entries, no ends


def _epoch_at(epochs: tuple[tuple[int, int], ...], offset: int) -> int:
    return next((epoch for epoch, start in reversed(epochs) if start <= offset), -1)


def trivially_matched(push: Push) -> Ack | None:
    """The answer to a push without records, from a replica without a log; None if it needs a log to answer."""
    if push.next_offset == 0 and push.base_offset == 0:
        return Ack(push.leader_epoch, push.round, Outcome.MATCHED, 0)
    return None
