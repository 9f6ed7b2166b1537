"""Processes that tests start, wait for and end by their ids, with all that these have started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO

import psutil


def command_of(process: psutil.Process) -> str:
    """The command line of a process, empty when it is gone."""
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline()) or process.name()
    return ""


def tree_of(pid: int) -> list[psutil.Process]:
    """All that a process has started, and they in turn."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []


def end_process(process: subprocess.Popen[bytes], grace_s: float = 8.0) -> None:
    """End a process that leads its own group, and all it started, by id: first asked, then killed."""
    family = tree_of(process.pid)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
        family += [p for p in tree_of(process.pid) if p not in family]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(grace_s)
    end_family(family)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def end_family(family: list[psutil.Process], grace_s: float = 0.0) -> None:
    """Kill what is left of these processes after `grace_s`; psutil checks that an id was not given anew."""
    deadline = time.monotonic() + grace_s
    while (alive := _running(family)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for member in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    deadline = time.monotonic() + 5
    while _running(alive) and time.monotonic() < deadline:
        time.sleep(0.05)


def _running(processes: list[psutil.Process]) -> list[psutil.Process]:
    # psutil's own wait_procs stumbles over a process that ends while it is being looked at.
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def read_ready_line(process: subprocess.Popen[bytes], log: Path, timeout_s: float) -> str:
    """The line by which a process says that it serves; RuntimeError with its log when it does not in time."""
    assert process.stdout is not None
    deadline = time.monotonic() + timeout_s
    buffered = b""
    descriptor = process.stdout.fileno()
    while (left := deadline - time.monotonic()) > 0:
        if not wait([descriptor], min(left, 0.5)):
            continue
        piece = os.read(descriptor, 65536)
        if not piece:
            break
        buffered += piece
        for line in buffered.splitlines(keepends=True):
            if line.startswith(b"ready ") and line.endswith(b"\n"):
                return line.decode().strip()
    tail = log.read_text(errors="replace")[-2000:] if log.exists() else ""
    raise RuntimeError(f"{process.args!r} did not become ready in {timeout_s:.0f} s: {buffered[-500:]!r}\n{tail}")


def _end_with_parent() -> None:
    """In the child: be told to stop when the process that started us is gone, however it went (Linux)."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def spawn(command: list[str], log: IO[bytes], cwd: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a process that leads a group of its own and ends with this one. Only the main thread may.

    It stays in our session: Linux shares CPU between sessions first (autogroup), and on a busy machine one with many
    processes would wait for tenths of a second. On a node, brokers and their clients are in Ray's session together.
    """
    # Linux ends it with the thread that has started it, and not with the process.
    assert threading.current_thread() is threading.main_thread()
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        cwd=cwd,
        process_group=0,
        preexec_fn=_end_with_parent,
    )
