"""A command whose temporary files lie in memory."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

WHERE = """
import os, pathlib, sys, tempfile
pathlib.Path(sys.argv[1]).write_text(f"{tempfile.mkdtemp()} {os.stat(tempfile.gettempdir()).st_mode & 0o7777:o}")
sys.exit(7)
"""
WAITS = """
import pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print("waits", flush=True)
signal.pause()
"""


def start(command: list[str], memory: Path, room: int) -> subprocess.Popen[str]:
    script = "import sys; from pathlib import Path; from tools.in_memory import main; "
    script += f"sys.exit(main({command!r}, Path({str(memory)!r}), {room}))"
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)


def where(tmp_path: Path, memory: Path, room: int) -> tuple[str, str]:
    """The folder that a command made for itself, and what was said."""
    told = tmp_path / "told"
    with start([sys.executable, "-c", WHERE, str(told)], memory, room) as process:
        said, _ = process.communicate()
    assert process.returncode == 7, "the command's own"
    made, mode = told.read_text().split()
    assert mode == "1777", "other users have theirs beside it"
    return made, said


def test_temporary_files_lie_in_memory_and_go_with_the_command(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    folder, said = where(tmp_path, memory, 1)
    assert Path(folder).is_relative_to(memory)
    assert list(memory.iterdir()) == []
    assert said == ""


def test_where_memory_has_no_room_they_lie_where_they_always_do(tmp_path: Path) -> None:
    for memory, room in ((tmp_path, 1 << 60), (tmp_path / "none", 1)):
        folder, said = where(tmp_path, memory, room)
        assert not Path(folder).is_relative_to(tmp_path)
        assert str(memory) in said
        Path(folder).rmdir()


def test_a_sigterm_is_passed_on_and_the_end_is_awaited(tmp_path: Path) -> None:
    with start([sys.executable, "-c", WAITS], tmp_path, 1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 9
    assert list(tmp_path.iterdir()) == []
