"""Machines lose their power under load, and what was not synced, also of folders. Bugs: test_planted_bugs.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.sim.command import simulate
from tests.sim.entries import Entries

_SEEDS = 12

pytestmark = pytest.mark.timeout(1200)  # all of it is computing: on a busy machine that takes minutes


def test_what_was_acknowledged_survives_that_machines_lose_their_power_again_and_again() -> None:
    done = simulate("--seeds", f"0-{_SEEDS - 1}", "--power")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{_SEEDS} seeds, 0 failed" in done.stdout
    totals = {name: int(count) for name, count in re.findall(r"'(\w+)': (\d+)", done.stdout)}
    assert totals["machine_dies"] > 30


class Folder:
    """A folder of a disk, and what a crash leaves of it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "disk"
        self.path.mkdir()
        self.entries = Entries(self.path)

    def after_crash(self, *undone: bool) -> dict[str, str]:
        """The files with their contents. `undone`, for one change after the other: it was not synced, and is undone."""
        left = list(undone)
        assert len(list(self.entries.crash(lambda: left.pop(0)))) == sum(undone)
        assert left == []
        return {str(each.relative_to(self.path)): each.read_text() for each in self.path.rglob("*") if each.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(tmp_path)
    for name in ("a", "b", "c"):
        (found.path / name).write_text(name)
    found.entries.synced(found.path)
    return found


def test_what_was_created_renamed_or_removed_may_be_undone_each_by_itself(folder: Folder) -> None:
    (folder.path / "b").rename(folder.path / "b.old")
    (folder.path / "c").unlink()
    (folder.path / "new").write_text("new")
    assert folder.after_crash(True, False, True) == {"a": "a", "b": "b"}


def test_what_takes_the_place_of_another_is_undone_as_one(folder: Folder) -> None:
    (folder.path / "a").rename(folder.path / "a.old")
    (folder.path / "b").rename(folder.path / "a")
    assert folder.after_crash(True) == {"a": "a", "b": "b", "c": "c"}


def test_a_synced_folder_loses_nothing_and_after_a_crash_all_that_is_there_is_synced(folder: Folder) -> None:
    (folder.path / "c").unlink()
    (folder.path / "new").write_text("new")
    folder.entries.synced(folder.path)
    assert folder.after_crash() == {"a": "a", "b": "b", "new": "new"}
    (folder.path / "new").rename(folder.path / "newer")
    assert folder.after_crash(False) == {"a": "a", "b": "b", "newer": "new"}
    assert folder.after_crash() == {"a": "a", "b": "b", "newer": "new"}


def test_a_folder_that_was_renamed_and_removed_is_back_with_what_was_synced_in_it(folder: Folder) -> None:
    inner = folder.path / "t-0"
    inner.mkdir()
    (inner / "segment").write_text("synced")
    folder.entries.synced(inner)
    (inner / "later").write_text("not synced")
    folder.entries.synced(folder.path)
    gone = inner.rename(folder.path / "t-0.delete")
    for each in gone.iterdir():
        each.unlink()
    gone.rmdir()
    assert folder.after_crash(True) == {"a": "a", "b": "b", "c": "c", "t-0/segment": "synced"}


def test_a_folder_that_only_was_renamed_is_back_with_all_of_it_and_its_own_changes_count_by_themselves(
    folder: Folder,
) -> None:
    inner = folder.path / "t-0"
    inner.mkdir()
    folder.entries.synced(inner)
    folder.entries.synced(folder.path)
    (inner / "later").write_text("later")
    inner.rename(folder.path / "t-0.delete")
    assert folder.after_crash(True, False) == {"a": "a", "b": "b", "c": "c", "t-0/later": "later"}
