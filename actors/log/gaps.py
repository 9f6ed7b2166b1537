"""The places where nothing lies between two segments of a log, though no record was lost: compaction has left it so.

Between other segments there is no such gap. If there is one after a loss of power, the disk has not kept the end of the
segment before, and the log ends there. A gap is in this file, durably, before it is in the log.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from actors.log.files import FILE_MODE, FileWriter

logger = logging.getLogger(__name__)

FILE_NAME: Final = "segment-gaps"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Gaps:
    """All before the offset `settled_to` was on disk: a gap there is no loss. After it, those of `pairs` are none.

    A pair is the first offset that may be missing, and the end of these. Pairs neither meet nor overlap.
    """

    settled_to: int = 0
    pairs: tuple[tuple[int, int], ...] = ()

    def have(self, first: int, end: int) -> bool:
        """True if it is no loss that the offsets from `first` to before `end` are missing."""
        first = max(first, self.settled_to)
        return first >= end or any(low <= first and end <= high for low, high in self.pairs)

    def with_one(self, first: int, end: int, recovery_point: int) -> Gaps:
        """The same and one more, where all before `recovery_point` is on disk."""
        settled_to = max(self.settled_to, recovery_point)
        pairs: list[tuple[int, int]] = []
        for low, high in sorted([*self.pairs, (first, end)]):
            if pairs and low <= pairs[-1][1]:
                pairs[-1] = pairs[-1][0], max(pairs[-1][1], high)
            elif high > settled_to:
                pairs.append((low, high))
        return Gaps(settled_to, tuple(pairs))

    def before(self, end: int) -> Gaps:
        """Those of a log that was cut at `end`."""
        pairs = tuple((low, min(high, end)) for low, high in self.pairs if low < end)
        return Gaps(min(self.settled_to, end), pairs)


def load_gaps(directory: Path) -> Gaps | None:
    """Those in the folder's file; None if it is missing, as in a log of an earlier build, or cannot be read."""
    path = directory / FILE_NAME
    try:
        content = path.read_bytes()
        if content == b"":
            return Gaps()
        found = json.loads(content)
        if found["version"] != _VERSION:
            return None
        pairs = tuple((int(low), int(high)) for low, high in found["pairs"])
        return Gaps(int(found["settled_to"]), pairs)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        logger.warning("%s cannot be read: no gap is taken for a loss: %s", path, error)
        return None


def begin_gaps(directory: Path) -> None:
    """Note that a log begins, which has none: an empty file, so that nothing has to be made durable. Raises OSError.

    If a loss of power takes it, the log is like one of an earlier build.
    """
    (directory / FILE_NAME).touch(FILE_MODE)


def save_gaps(directory: Path, gaps: Gaps, writer: FileWriter) -> None:
    """Replace the file; it is durable then. OSError when the disk refuses: either content may be there."""
    writer.write_atomically(directory / FILE_NAME, json.dumps({"version": _VERSION, **asdict(gaps)}).encode())
