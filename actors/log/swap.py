"""Puts compacted segments in the place of the old ones. After a crash at any step either all new ones count or none.

    1  `*.cleaned` files are durable                                     (compaction.py)
    2  `compaction.swap`, which names old and new segments, is renamed in: from here on the new ones count
    3  old files are renamed to `*.deleted`, then `*.cleaned` to their names, each segment's log last
    4  `compaction.swap` is removed

Opening a log's folder runs 3 and 4 again if step 2 was reached, and removes the `*.cleaned` files if it was not.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from actors.log.compaction import CLEANED_SUFFIX, cleaned
from actors.log.files import FileWriter, remove_files
from actors.log.segment import DELETED_SUFFIX, Segment

MANIFEST: Final = "compaction.swap"

Step = Callable[[str], None]
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Swap:
    """The base offsets of the segments that go, and of those that come."""

    old: tuple[int, ...]
    new: tuple[int, ...]

    def encoded(self) -> bytes:
        return json.dumps({"version": _VERSION, "old": self.old, "new": self.new}).encode()

    @classmethod
    def decoded(cls, data: bytes) -> "Swap":
        """Raises ValueError for bytes that are not JSON, KeyError if something is missing."""
        content = json.loads(data)
        return cls(tuple(content["old"]), tuple(content["new"]))


def commit(directory: Path, old_bases: Sequence[int], new_bases: Sequence[int], writer: FileWriter) -> None:
    """Step 2. OSError when the disk refuses or has lost a new segment: nothing has changed then."""
    for base in new_bases:
        cleaned(Segment(directory, base).path).stat()  # `install` would take a missing one for installed already
    writer.write_atomically(directory / MANIFEST, Swap(tuple(old_bases), tuple(new_bases)).encoded())


def install(directory: Path, writer: FileWriter, step: Step = lambda _: None) -> list[Path]:
    """Steps 3 and 4, to be called again if interrupted. Returns the renamed old files, for the caller to remove.

    `step` is called before each change with what it is; tests interrupt there.
    """
    manifest = directory / MANIFEST
    try:
        swap = Swap.decoded(manifest.read_bytes())
    except FileNotFoundError:
        return []
    new = [Segment(directory, base) for base in swap.new]
    missing = {segment.base_offset for segment in new if cleaned(segment.path).exists()}
    installed = {segment.base_offset for segment in new} - missing
    retired: list[Path] = []
    for base in swap.old:
        if base not in installed:
            retired += _retire(Segment(directory, base), step)
    for segment in new:
        if segment.base_offset in missing:
            _install(segment, step)
    writer.fsync_directory(directory)
    step("remove manifest")
    manifest.unlink()
    return retired


def recover(directory: Path, writer: FileWriter) -> None:
    """Finish a swap that a crash interrupted, or drop what a compaction had written for one."""
    remove_files(install(directory, writer))
    remove_files(directory.glob(f"*{CLEANED_SUFFIX}"))


def _retire(segment: Segment, step: Step) -> list[Path]:
    renamed = []
    for path in segment.paths():
        if path.exists():
            step(f"retire {path.name}")
            renamed.append(path.rename(path.with_name(path.name + DELETED_SUFFIX)))
    return renamed


def _install(segment: Segment, step: Step) -> None:
    # The log file goes last: until it is there, the segment counts as not installed.
    for path in reversed(segment.paths()):
        if cleaned(path).exists():
            step(f"install {path.name}")
            cleaned(path).rename(path)
