"""A log's notes beside its records, in one small JSON file of its folder."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from actors.log.files import FileWriter

FILE_NAME: Final = "log.checkpoint"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Offsets of one log.

    `recovery_point`: all before it is on disk. `cleaned_to`: all before it has been compacted. `cleanings`: of some
    compactions, the offset each reached and its time (ms), from which delete.retention.ms counts for tombstones.
    """

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    cleaned_to: int = 0
    cleanings: tuple[tuple[int, int], ...] = ()


def load_checkpoint(directory: Path) -> Checkpoint:
    """The folder's checkpoint. If it is missing or unreadable: one of zeros, which is always safe."""
    try:
        found = json.loads((directory / FILE_NAME).read_bytes())
        return checkpoint_of(found) if found.pop("version") == _VERSION else Checkpoint()
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return Checkpoint()


def checkpoint_of(found: dict[str, Any]) -> Checkpoint:
    """A checkpoint as JSON has it. Raises ValueError, TypeError, KeyError and AttributeError if it is none.

    Fields that a later build has added are left out.
    """
    pairs = tuple((int(offset), int(time)) for offset, time in found.pop("cleanings"))
    known = {field.name for field in fields(Checkpoint)}
    numbers = {name: int(value) for name, value in found.items() if name in known}
    return Checkpoint(**numbers, cleanings=pairs)


def save_checkpoint(directory: Path, checkpoint: Checkpoint, writer: FileWriter, *, durable: bool = False) -> None:
    """Replace the folder's checkpoint. OSError when the disk refuses."""
    text = json.dumps({"version": _VERSION, **asdict(checkpoint)})
    writer.write_atomically(directory / FILE_NAME, text.encode(), durable=durable)
