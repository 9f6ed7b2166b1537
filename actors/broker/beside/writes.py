"""Records that a guest has written and that have not committed yet. No I/O.

All that is written in one turn shares an append. It is either in the log as a whole or not at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from actors.wire.errors import ErrorCode

Done: TypeAlias = Callable[[ErrorCode, Any], None]
"""Called once, with NONE and the answer, or with the reason why there is none."""


@dataclass(slots=True, eq=False)
class Write:
    """The records of one outcome, and who waits for them."""

    records: Sequence[Any]
    answer: Any
    done: Done | None
    """None: nobody waits, or he has been told that it takes too long."""
    due_ms: int
    next_offset: int = -1
    """The end of its append; -1 if it has not been appended."""

    def finish(self, code: ErrorCode) -> None:
        """Tell who waits, if somebody does."""
        done, self.done = self.done, None
        if done is not None:
            done(code, None if code else self.answer)


class Writes:
    """The writes of one guest, oldest first."""

    def __init__(self) -> None:
        self._open: list[Write] = []
        self._appended: deque[Write] = deque()

    def add(self, write: Write) -> None:
        """A write of this turn."""
        self._open.append(write)

    def take(self) -> list[Write]:
        """The writes of this turn, which are about to be appended."""
        taken, self._open = self._open, []
        return taken

    def appended(self, writes: Sequence[Write], next_offset: int) -> None:
        """They are in the log, which ends at `next_offset` now."""
        for write in writes:
            write.next_offset = next_offset
        self._appended.extend(writes)

    def committed(self, watermark: int) -> Iterator[Write]:
        """Those that have committed, one after the other: each is over when the next is asked for."""
        appended = self._appended
        while appended and appended[0].next_offset <= watermark:
            yield appended.popleft()

    def next_due_ms(self) -> int | None:
        """The time at which the first answer is too late; None if nobody waits."""
        return min((write.due_ms for write in self._all() if write.done is not None), default=None)

    def tell_late(self, now_ms: int) -> None:
        """Tell those who have waited for too long. Their records may still commit."""
        for write in [write for write in self._all() if write.done is not None and write.due_ms <= now_ms]:
            write.finish(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def drop(self, code: ErrorCode) -> None:
        """Forget all: what becomes of them is not known here any more."""
        writes = list(self._all())
        self._open, self._appended = [], deque()
        for write in writes:
            write.finish(code)

    def _all(self) -> Iterator[Write]:
        yield from self._appended
        yield from self._open
