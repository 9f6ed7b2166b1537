"""The code of an earlier build, from the repository's history."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
BEFORE_VERSIONS: Final = ("before-rooms", "abdf2285553a5a7f26df9448f73e4011f9e3780c")
"""The last build that says nothing of versions: its tag, and its commit, for clones that were made without tags."""
ROOMS: Final = ("actors", "placement")


def archived(build: tuple[str, ...], to: Path) -> Path:
    """Put a build's code into a new folder. Skips the test if the clone has it under none of these names."""
    name = next((each for each in build if _known(each)), None)
    if name is None:
        pytest.skip(f"this clone has no {build[0]}: fetch its tags, and its history")
    to.mkdir()
    code = subprocess.run(["git", "-C", str(ROOT), "archive", name, *ROOMS], stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(to)], input=code, check=True)
    return to


def present(to: Path) -> Path:
    """A new folder with the code of this build alone."""
    to.mkdir()
    for room in ROOMS:
        (to / room).symlink_to(ROOT / room)
    return to


def _known(name: str) -> bool:
    found = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "-q", "--verify", f"{name}^{{commit}}"], capture_output=True, check=False
    )
    return found.returncode == 0
