"""Helpers for tests of a cluster in a child process: its processes, a program that starts one, and requests to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from actors.one_process.asking import ask
from actors.wire.messages import ApiMessage
from tests.support.waiting import wait_until as wait_until

ROOT = Path(__file__).parents[2]


def runs(pid: int) -> bool:
    """True if a process runs. One that has ended does not, though nobody has waited for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def program(code: str, *arguments: str, new_group: bool = False, **environment: str) -> subprocess.Popen[str]:
    """A program in a process of its own, whose lines the test reads; with `new_group` it leads a process group."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=new_group,
    )


async def asked(servers: str, message: ApiMessage, version: int) -> Any:
    """The answer of the first of these brokers."""
    host, _, port = servers.partition(",")[0].rpartition(":")
    return await ask(host, int(port), message, version)
