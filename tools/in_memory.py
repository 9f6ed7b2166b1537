"""`python -m tools.in_memory COMMAND...`: a command whose temporary files lie in memory, where there is room for them.

The tests write tens of thousands of small files and have each flushed to the disk, as brokers do. A process that is
killed loses nothing that lies in memory, so a test sees no difference; the machine's own death is what no test tries.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")
"""The file system in memory that Linux has."""
ROOM: Final = 10 << 30
"""Bytes that must be free there; a run of all tests takes a third."""


def main(command: list[str], memory: Path = MEMORY, room: int = ROOM) -> int:
    """Run it to its end; its exit code. The folder of its temporary files is gone then."""
    if not memory.is_dir() or shutil.disk_usage(memory).free < room:
        print(f"{memory} has less than {room >> 30} GiB: temporary files lie in {tempfile.gettempdir()}", flush=True)
        return run(command, os.environ)
    # A short name, because the paths of Unix sockets begin with it.
    with tempfile.TemporaryDirectory(prefix="c", dir=memory, ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o1777)  # as /tmp: some tests run programs of other users
        return run(command, {**os.environ, "TMPDIR": folder})


def run(command: list[str], environ: Mapping[str, str]) -> int:
    """Its exit code. Ctrl-C reaches it from the terminal, a SIGTERM is passed on; either way its end is awaited."""
    signal.signal(signal.SIGINT, lambda *_: None)  # the command has the default: a handler is not inherited
    with subprocess.Popen(command, env=environ) as process:
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
