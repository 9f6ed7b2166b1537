"""The suite runs in two processes: when one dies, its test has failed, and all others run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CONFTEST = "from tests.conftest import pytest_collection_modifyitems, pytest_xdist_make_scheduler"
DIES = """
import os, pathlib

def test_one(): pass

def test_two(): pass

def test_dies():
    died = pathlib.Path(__file__).with_name("died")
    if not died.exists():
        died.touch()
        os._exit(1)
"""
PASSES = "\n".join(f"def test_{number}(): pass" for number in range(3))


def test_the_death_of_a_process_fails_its_test_and_no_other_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(8):
        (folder / f"test_{number}.py").write_text(DIES if number == 4 else PASSES)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--no-loadscope-reorder", "--rootdir", str(tmp_path)]
    here = Path(__file__).parents[3]
    found = subprocess.run(
        [*command, "-p", "no:cacheprovider", "tests"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(here)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "crashed while running 'tests/unit/test_4.py::test_dies'" in found.stdout
    assert "1 failed, 24 passed" in found.stdout, found.stdout
