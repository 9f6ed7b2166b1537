"""The offset at which each leader epoch begins (KIP-101), in memory and in `leader-epoch-checkpoint`."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from actors.log.files import FileWriter

UNDEFINED: Final = (-1, -1)
FILE_NAME: Final = "leader-epoch-checkpoint"


class LeaderEpochs:
    """The (epoch, start offset) pairs of one log, ascending."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.dirty = False

    @property
    def latest(self) -> int:
        """The newest epoch, -1 if there is none."""
        return self._epochs[-1] if self._epochs else -1

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` begins at `start_offset`. An epoch already known, or older than the newest, changes nothing."""
        if epoch <= self.latest:
            return
        while self._starts and self._starts[-1] >= start_offset:
            # The older epoch wrote nothing: its start is now the newer one's.
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.dirty = True

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest epoch not above `epoch`, its end offset), as OffsetForLeaderEpoch answers; (-1, -1) if unknown."""
        if epoch < 0 or not self._epochs or epoch > self.latest:
            return UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        number = bisect_right(self._epochs, epoch)
        return (self._epochs[number - 1] if number else epoch), self._starts[number]

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written; -1 if no known epoch begins so early."""
        number = bisect_right(self._starts, offset)
        return self._epochs[number - 1] if number else -1

    def between(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """The entries in force from `start` to `end`; the first one may begin before."""
        first, stop = max(bisect_right(self._starts, start) - 1, 0), bisect_left(self._starts, end)
        return tuple(zip(self._epochs[first:stop], self._starts[first:stop], strict=True))

    def truncate_end(self, offset: int) -> None:
        """Forget epochs that begin at `offset` or later."""
        while self._starts and self._starts[-1] >= offset:
            self._epochs.pop()
            self._starts.pop()
            self.dirty = True

    def truncate_start(self, offset: int) -> None:
        """Forget epochs that ended at `offset` or before. The epoch in force at `offset` begins there now."""
        number = bisect_right(self._starts, offset)
        if number > 1 or (number == 1 and self._starts[0] < offset):
            del self._epochs[: number - 1], self._starts[: number - 1]
            self._starts[0] = offset
            self.dirty = True

    def load(self) -> bool:
        """Read the file. If it is missing or unreadable there are no epochs, and the result is False."""
        self._epochs, self._starts = [], []
        try:
            version, count, *lines = self._path.read_text().split("\n")
            pairs = [tuple(map(int, line.split())) for line in lines if line]
            if int(version) != 0 or len(pairs) != int(count) or pairs != sorted(set(pairs)):
                return False
            self._epochs = [epoch for epoch, _ in pairs]
            self._starts = [start for _, start in pairs]
        except (OSError, ValueError):
            self._epochs, self._starts = [], []
            return False
        return True

    def replace(self, entries: Iterable[tuple[int, int]]) -> None:
        """Have these (epoch, start offset) instead, which are in order."""
        before, now = self.entries(), list(entries)
        self._epochs, self._starts = [epoch for epoch, _ in now], [start for _, start in now]
        self.dirty = self.dirty or now != before

    def save(self, writer: FileWriter) -> None:
        """Write the file if anything changed. OSError when the disk refuses."""
        if self.dirty:
            lines = [f"{epoch} {start}\n" for epoch, start in self.entries()]
            text = f"0\n{len(lines)}\n{''.join(lines)}"
            writer.write_atomically(self._path, text.encode(), durable=False)
            self.dirty = False
