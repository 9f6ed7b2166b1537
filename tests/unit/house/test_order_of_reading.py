"""Each process of the suite reads the tests from a place of its own on, and all have them in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tests.conftest import begun_elsewhere, pytest_collection_modifyitems


def folders(root: Path, **files: int) -> list[Path]:
    """Folders with so many files."""
    for name, count in files.items():
        (root / name / "inner").mkdir(parents=True)
        for number in range(count):
            (root / name / "inner" / f"test_{number}.py").touch()
    return [root / name for name in files]


def test_each_process_begins_at_a_share_of_its_own_and_leaves_nothing_out(tmp_path: Path) -> None:
    a, b, c, d = found = folders(tmp_path, a=3, b=3, c=2, d=1)
    assert begun_elsewhere(found, 0, 3) == [a, b, c, d]
    assert begun_elsewhere(found, 1, 3) == [b, c, d, a]
    assert begun_elsewhere(found, 2, 3) == [c, d, a, b]


def test_more_processes_than_folders_are_served(tmp_path: Path) -> None:
    (only,) = found = folders(tmp_path, a=3)
    assert [begun_elsewhere(found, number, 4) for number in range(4)] == [[only]] * 4


class Config:
    def getoption(self, name: str, default: object) -> object:
        return default


class Item:
    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid


@pytest.mark.parametrize("first", [0, 1, 2, 4])  # no process begins in the middle of a file
def test_the_order_of_the_tests_does_not_depend_on_where_the_reading_began(first: int) -> None:
    wanted = ["tests/ray/test_b.py::test", "tests/component/test_z.py::test", "tests/unit/a/test_a.py::test_two"]
    wanted += ["tests/unit/a/test_a.py::test_one", "tests/unit/b/test_a.py::test"]
    read = sorted(wanted, key=lambda each: each.partition("::")[0])
    items: list[Any] = [Item(each) for each in (*read[first:], *read[:first])]
    pytest_collection_modifyitems(cast(pytest.Config, Config()), items)
    assert [each.nodeid for each in items] == wanted
