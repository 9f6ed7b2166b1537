"""Filling the holes of a process's heaps ends, whatever allocator it has."""

from __future__ import annotations

import subprocess
import sys

import pytest

_FILL = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from actors.runtime.fork_server import holes
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
holes.fill()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize("options", [(), ("-X", "dev")], ids=["usual", "debug"])
def test_filling_holes_takes_little_memory(options: tuple[str, ...]) -> None:
    """In Python's development mode no two blocks lie side by side, as in other C libraries' heaps."""
    done = subprocess.run([sys.executable, *options, "-c", _FILL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) <= 64
