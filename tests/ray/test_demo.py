"""The demo as who types `make demo` sees it: on a terminal, with Python's warnings, to its end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from tests.ray.support import ROOT, assert_gone, descendants

RESULTS = [
    "ok   336,776 of 336,776 flights handled",
    "ok   totals per carrier equal pandas's",
    "ok   after the restart 50,517 records were handled, 50,517 were new",
    "ok   the confluent-kafka group read 286,259 records",
    "ok   Spark's totals per origin and hour equal pandas's, 60 of them",
]
OF_OTHERS = re.compile(r"raylet|\bworker\b|\w*warning|traceback|error|^slot \d.*", re.IGNORECASE | re.MULTILINE)
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.mark.timeout(600)
def test_the_demo_equals_pandas_and_shows_nothing_but_its_own_words() -> None:
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:  # a short path: it has Unix sockets
        code, shown = on_a_terminal(folder, "-m", "examples.flights")
        lines = shown.splitlines()
        assert (code, [line for line in lines if line.startswith(("ok  ", "FAIL"))]) == (0, RESULTS), shown[-6000:]
        assert "DIFFERS" not in shown
        (told,) = [line for line in lines if line.startswith("what Ray, Spark and Python's warnings say goes to ")]
        log = Path(told.split()[-1])
        assert "A worker died or was killed" in log.read_text(), "Ray has told of the member that was killed"
        assert [path.name for path in log.parent.iterdir()] == ["log"], "the data is removed"
        assert OF_OTHERS.findall(shown.replace(told, "")) == []


def on_a_terminal(folder: str, *arguments: str) -> tuple[int, str]:
    """Python's exit code and what the terminal got, without its styles; it must leave no process behind."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    size = {"COLUMNS": "160", "LINES": "60", "TERM": "xterm"}
    ours, programs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=inherited | size | {"PYTHONWARNINGS": "default", "TMPDIR": folder},
        stdin=subprocess.DEVNULL,
        stdout=programs,
        stderr=programs,
    )
    os.close(programs)
    seen: dict[int, psutil.Process] = {}
    shown = b""
    try:
        while part := read(ours):
            shown += part
            seen.update({child.pid: child for child in descendants(process.pid)})
        code = process.wait(60)
    finally:
        os.close(ours)
        process.kill()
        process.wait()
    assert_gone(seen.values())
    return code, STYLE.sub("", shown.decode())


def read(terminal: int) -> bytes:
    """What was written next; nothing once the last program has closed the terminal."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # as Linux says it
        return b""
