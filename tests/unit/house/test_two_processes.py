"""The suite runs in several processes: when one dies, its test has failed, and all others run; two start Rays."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
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


HEAVY = """
import pathlib, time

def test_waits_for_a_light_one():
    light = pathlib.Path(__file__).parents[1] / "light"
    until = time.monotonic() + 60
    while not light.exists():
        assert time.monotonic() < until, "all processes are in tests like this one"
        time.sleep(0.05)
"""
LIGHT = """
import pathlib

def test_is_there():
    (pathlib.Path(__file__).parents[1] / "light").touch()
"""


def test_the_death_of_a_process_fails_its_test_and_no_other_is_waited_for(tmp_path: Path) -> None:
    files = {f"unit/test_{number}.py": DIES if number == 4 else PASSES for number in range(8)}
    found = outcome(tmp_path, files, processes=2)
    assert "crashed while running 'tests/unit/test_4.py::test_dies'" in found
    assert "1 failed, 24 passed" in found, found


def test_two_processes_at_most_are_in_tests_that_start_rays_as_long_as_there_are_others(tmp_path: Path) -> None:
    files = {f"programs/test_{number}.py": HEAVY for number in range(6)}
    found = outcome(tmp_path, {**files, "unit/test_light.py": LIGHT}, processes=3)
    assert "7 passed" in found, found


def outcome(folder: Path, files: Mapping[str, str], *, processes: int) -> str:
    """The output of pytest on tests with these texts."""
    (folder / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        (folder / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tests" / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-n", str(processes), "--no-loadscope-reorder"]
    here = Path(__file__).parents[3]
    found = subprocess.run(
        [*command, "--rootdir", str(folder), "--basetemp", str(folder / "tmp"), "-p", "no:cacheprovider", "tests"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(here)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    return found.stdout
