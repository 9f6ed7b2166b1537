"""A logger's level is set by `setLevel`.

A logger remembers which levels it shows. One whose `level` is assigned goes on with what it remembers, so a test then
depends on which tests ran before it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("actors", "benchmarks", "coterie", "examples", "placement", "spark_bridge", "tests", "tools")
ASSIGNED = re.compile(r"^\s*(?:[^=\n#\"'(]*,\s*)?(?!self\.level)[\w.]+\.level\b(?:\s*,[^=\n]*)?\s*=(?!=)", re.MULTILINE)


@pytest.mark.parametrize(
    "line",
    ["log.level = 20", "    level, log.level = log.level, 20", "self._log.level=20", "log.level, x = 20, 1"],
)
def test_an_assigned_level_is_noticed(line: str) -> None:
    assert ASSIGNED.search(line)


@pytest.mark.parametrize("line", ["self.level = level", "level = log.level", "assert x.level == 2", "f(a.level, b=1)"])
def test_other_levels_are_free(line: str) -> None:
    assert not ASSIGNED.search(line)


def test_a_logger_whose_level_was_assigned_stayed_silent() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    assert [str(file) for file in files if ASSIGNED.search(file.read_text())] == []
