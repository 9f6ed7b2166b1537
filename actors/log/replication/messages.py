"""What leader and follower of a partition say to each other, and what both need of a log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

UNKNOWN = -1


class LeaderLog(Protocol):
    """The part of `PartitionLog` that a leader uses."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    def advance_high_watermark(self, offset: int) -> bool: ...
    def assign_leader_epoch(self, epoch: int, start_offset: int | None = None) -> None: ...
    def epochs_between(self, start: int, end: int) -> tuple[tuple[int, int], ...]: ...
    def epoch_at(self, offset: int) -> int: ...
    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]: ...
    def read_with_end(self, offset: int, max_bytes: int) -> tuple[bytes, int]: ...


class ReplicaLog(LeaderLog, Protocol):
    """The part of `PartitionLog` that replication uses."""

    def epoch_entries(self) -> list[tuple[int, int]]: ...
    def append_as_follower(self, data: bytes | memoryview, now_ms: int) -> Any: ...
    def truncate_to(self, offset: int) -> None: ...
    def reset_to(self, offset: int) -> None: ...
    def skip_to(self, offset: int) -> None: ...
    def advance_start(self, offset: int) -> None: ...


class NoLog:
    """What a leader has until its first record comes: a log that is empty, and no file.

    The leader's epoch is written down where the log is made: until then it has begun nowhere.
    """

    log_start_offset = 0
    log_end_offset = 0
    high_watermark = 0

    def advance_high_watermark(self, offset: int) -> bool:
        return False

    def assign_leader_epoch(self, epoch: int, start_offset: int | None = None) -> None: ...

    def epochs_between(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        return ()

    def epoch_at(self, offset: int) -> int:
        return -1

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return -1, -1

    def read_with_end(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        return b"", 0


@dataclass(frozen=True, slots=True)
class Push:
    """Leader to follower: all there is from `base_offset` to `next_offset`, and what stands before it.

    `previous_epoch` is the leader epoch of the record before `base_offset`, -1 where the leader's log begins;
    `epochs` are (epoch, start offset) of what stands from there on, also where compaction has left no records.

    Three numbers fence it. `leader_epoch`: no follower takes a push of an older leader than it knows. `since` is the
    partition epoch that the follower has to know of: else one that was dropped and added again would be in sync by the
    log that it deletes when it hears of it. `round` comes back with the answer: each time the leader asks anew how far
    the logs agree it counts on, and then older answers still say what the follower has, but not where to go on; from
    before the follower's log was forgotten they say nothing.
    """

    leader_epoch: int
    round: int
    base_offset: int
    previous_epoch: int
    next_offset: int
    high_watermark: int
    log_start_offset: int
    unclean: bool
    """A replica out of sync was made leader once: what the follower holds for committed may not be in our log."""
    since: int
    epochs: tuple[tuple[int, int], ...]
    records: bytes


class Outcome(IntEnum):
    """What became of a push."""

    MATCHED = 0
    """The follower's log equals the leader's up to `end_offset`."""
    MISMATCHED = 1
    """The logs part somewhere before `base_offset`: here is how far each epoch reaches in the follower's."""
    FENCED = 2
    """The follower knows a newer leader epoch."""
    FAILED = 3
    """The follower cannot take it now: it does not know the partition yet, or its disk refuses."""


@dataclass(frozen=True, slots=True)
class Ack:
    """Follower to leader. `leader_epoch` is the newest the follower knows; `epochs` are (epoch, its end offset)."""

    leader_epoch: int
    round: int
    outcome: Outcome
    end_offset: int = -1
    high_watermark: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    log_start_offset: int = 0
    """Where the follower's log begins, if it matched."""
