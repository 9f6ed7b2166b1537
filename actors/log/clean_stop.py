"""The mark of a clean stop. It is durable, and says how each log was closed: the files beside the records need not be.

A checkpoint and the leader epochs are small files that are replaced often, so that nothing waits for the disk. When the
machine loses power after a clean stop, their former contents may be there again.
"""

import contextlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from actors.log.checkpoint import Checkpoint, checkpoint_of
from actors.log.files import FileWriter

logger = logging.getLogger(__name__)

CLEAN_NAME: Final = ".clean_shutdown"


class Closed(NamedTuple):
    """A log as it was closed: its last segment and the bytes of that, its checkpoint, and where each epoch begins."""

    base_offset: int
    size_bytes: int
    checkpoint: Checkpoint
    epochs: tuple[tuple[int, int], ...]

    def speaks_of(self, base_offset: int, size_bytes: int) -> bool:
        """True if this may be the log that a folder has, by the last segment there: it may have lost its end since."""
        return base_offset == self.base_offset and size_bytes <= self.size_bytes


@dataclass(slots=True)
class CleanMark:
    """`logs` says how each log was closed, by the name of its folder; None in a mark of an earlier release."""

    logs: dict[str, Closed] | None


def write_mark(directory: Path, logs: Mapping[str, Closed], writer: FileWriter) -> None:
    """Mark the stop of a data directory as clean. Raises OSError."""
    content = {name: {**each._asdict(), "checkpoint": asdict(each.checkpoint)} for name, each in logs.items()}
    writer.write_atomically(directory / CLEAN_NAME, json.dumps({"logs": content}).encode())


def take_mark(directory: Path, writer: FileWriter) -> CleanMark | None:
    """The mark, if the last stop was clean; from now on there is none. Raises OSError.

    One that cannot be read is none. If it does not say how a log was closed, that log is checked.
    """
    path = directory / CLEAN_NAME
    if not path.exists():
        return None
    content: bytes | None = None
    with contextlib.suppress(OSError):
        content = path.read_bytes()
    path.unlink()
    writer.fsync_directory(directory)
    if content == b"":
        return CleanMark(None)
    try:
        return CleanMark(_logs(json.loads(content or b"")["logs"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        logger.warning("%s cannot be read: all logs are checked", path)
        return None


def _logs(found: dict[str, dict[str, Any]]) -> dict[str, Closed]:
    logs = {}
    for name, each in found.items():
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):
            epochs = tuple((int(epoch), int(start)) for epoch, start in each["epochs"])
            logs[name] = Closed(
                int(each["base_offset"]), int(each["size_bytes"]), checkpoint_of(each["checkpoint"]), epochs
            )
    return logs
