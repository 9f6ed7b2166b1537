"""The messages between leader and follower of a partition, and what both need of a log."""

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
    def bytes_from(self, offset: int) -> int: ...


class ReplicaLog(LeaderLog, Protocol):
    """The part of `PartitionLog` that replication uses."""

    def epoch_entries(self) -> list[tuple[int, int]]: ...
    def append_as_follower(self, data: bytes | memoryview, now_ms: int) -> Any: ...
    def truncate_to(self, offset: int) -> None: ...
    def reset_to(self, offset: int) -> None: ...
    def skip_to(self, offset: int) -> None: ...
    def advance_start(self, offset: int) -> None: ...


class NoLog:
    """Stands for the empty log of a leader that has no records yet, and so no files.

    `assign_leader_epoch` does nothing: the epoch begins when the log is made.
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

    def bytes_from(self, offset: int) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Push:
    """Leader to follower: all records from `base_offset` to `next_offset`, and the epoch of the one before.

    `previous_epoch` is the leader epoch of the record before `base_offset`, -1 at the beginning of the leader's log.
    `epochs` are the (epoch, start offset) pairs from there on, even if compaction has left none of their records.

    Three numbers keep late messages off:

    - `leader_epoch`: no follower takes a push of a leader older than it knows.
    - `since`: the partition epoch that the follower has to know. A broker that was dropped and added again has an old
      log, which it deletes when it hears of that; before, the old log must not make it in sync.
    - `round` comes back with the answer, and grows each time the leader asks anew how far the logs agree. Answers to
      older rounds still say what the follower has, but not where to go on. Those from before the leader forgot the
      follower's log say nothing.
    """

    leader_epoch: int
    round: int
    base_offset: int
    previous_epoch: int
    next_offset: int
    high_watermark: int
    log_start_offset: int
    unclean: bool
    """True if a replica out of sync was once made leader. Then records below the watermark may have to be cut off."""
    since: int
    epochs: tuple[tuple[int, int], ...]
    records: bytes


class Outcome(IntEnum):
    """The outcome of a push."""

    MATCHED = 0
    """The follower's log equals the leader's up to `end_offset`."""
    MISMATCHED = 1
    """The logs part somewhere before `base_offset`. `epochs` says where each epoch ends in the follower's."""
    FENCED = 2
    """The follower knows a newer leader epoch."""
    FAILED = 3
    """The follower cannot take it now: it does not know the partition yet, or its disk fails."""


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
    """The beginning of the follower's log, if it matched."""
