"""The mark of a clean stop. It is durable, and says how each log was closed: the files beside the records need not be.

A checkpoint and the leader epochs are small files that are replaced often, so that nothing waits for the disk. When the
machine loses power after a clean stop, their former contents may be there again.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from actors.log.checkpoint import Checkpoint, checkpoint_of
from actors.log.files import FileWriter

CLEAN_NAME: Final = ".clean_shutdown"


class Closed(NamedTuple):
    """A log as it was closed: its checkpoint, and the offset at which each leader epoch begins."""

    checkpoint: Checkpoint
    epochs: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class CleanMark:
    """`logs` says how each log was closed, by the name of its folder; None in a mark of an earlier release."""

    logs: dict[str, Closed] | None


def write_mark(directory: Path, logs: Mapping[str, Closed], writer: FileWriter) -> None:
    """Mark the stop of a data directory as clean. Raises OSError."""
    content = {name: {"checkpoint": asdict(each.checkpoint), "epochs": each.epochs} for name, each in logs.items()}
    writer.write_atomically(directory / CLEAN_NAME, json.dumps({"logs": content}).encode())


def take_mark(directory: Path, writer: FileWriter) -> CleanMark | None:
    """The mark, if the last stop was clean; from now on there is none. Raises OSError."""
    path = directory / CLEAN_NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    path.unlink()
    writer.fsync_directory(directory)
    try:
        logs = json.loads(content)["logs"] if content else None
        return CleanMark({name: _closed(each) for name, each in logs.items()} if logs is not None else None)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # it is damaged: all logs are checked


def _closed(fields: dict[str, Any]) -> Closed:
    epochs = tuple((int(epoch), int(start)) for epoch, start in fields["epochs"])
    return Closed(checkpoint_of(fields["checkpoint"]), epochs)
