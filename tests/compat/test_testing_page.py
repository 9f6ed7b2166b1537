"""The tests in docs/testing.md: taken out of the page, and run by a pytest of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.one_process import ROOT

_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIVE = [
    "test_a_rebalance_in_the_middle_of_work",
    "test_a_poison_record",
    "test_offsets_after_a_crash",
    "test_lag",
    "test_a_slow_handler",
]


def _blocks(language: str) -> list[str]:
    return [code for of, code in _FENCED.findall((ROOT / "docs/testing.md").read_text()) if of == language]


def _is_of_another_program(code: str) -> bool:
    return "coterie.testing.cluster(" in code and "def test_" not in code


def _run(folder: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_all_tests_of_the_page_pass(tmp_path: Path) -> None:
    (ini,) = _blocks("ini")
    (tmp_path / "pytest.ini").write_text(ini)
    blocks = [code for code in _blocks("python") if not _is_of_another_program(code)]
    main = next(code for code in blocks if "__main__" in code)
    (tmp_path / "test_worker.py").write_text("\n".join([*(code for code in blocks if code is not main), main]))
    pytest_of_its_own = [sys.executable, "-W", "ignore", "-m", "pytest", "-p", "coterie.pytest_plugin", "-v"]
    said = _run(tmp_path, *pytest_of_its_own, "test_worker.py")
    passed = re.findall(r"::(\w+).* PASSED", said)
    assert set(FIVE) <= set(passed)
    assert len(passed) == sum(code.count("\ndef test_") + code.startswith("def test_") for code in blocks)


def test_what_the_page_shows_of_other_programs_runs(tmp_path: Path) -> None:
    code = "\n".join(code for code in _blocks("python") if _is_of_another_program(code))
    (tmp_path / "program.py").write_text(f"{code}\nimport asyncio\n\nprint(asyncio.run(lose_a_leader()) in range(3))\n")
    assert _run(tmp_path, sys.executable, "program.py") == "True\n"
