"""Run the simulation in a process of its own: the order of sets of strings is fixed there, and so what a seed means."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`python -m tests.sim`, and what it said."""
    command = [sys.executable, "-m", "tests.sim", *arguments]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
