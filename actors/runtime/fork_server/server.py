"""The warm process: it imports what workers need, and forks one for each client that asks. See the package.

Run by the first client, in that client's process: `main` with the arguments FOLDER LOG WARM LISTENER.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

import ray

from actors.runtime import ray_inside
from actors.runtime.fork_server import holes
from actors.runtime.fork_server.client import FORKED, LENGTH_BYTES, say

_OF_A_WORKER = {os.fsencode(ray_inside.JOB_ID)}  # workers of one raylet differ in these
_REQUEST_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Request:
    """A worker that is wanted: its script and arguments, and what a process inherits from its parent."""

    arguments: list[str]
    environment: dict[bytes, bytes]
    folder: bytes
    process_group: int
    files: list[int]


def main() -> None:
    """Serve until the raylet ends. In a forked process, run as the worker."""
    packages, folder, log, warm, listener_fd = sys.argv[1:]
    raylet = int(os.environ[ray_inside.RAYLET_PID])
    environment = dict(os.environb)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for the workers
    # Leave the process group of the first worker: when that worker ends, the raylet kills its whole group.
    os.setpgid(0, os.getpgid(raylet))
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"  # else pyarrow, when it is imported, starts a thread
    with socket.socket(fileno=int(listener_fd)) as listener, open(os.pidfd_open(raylet), "rb", 0) as life:
        _import(*ray_inside.WARM, *filter(None, warm.split(",")))
        if (unsound := _why_unsound()) is not None:
            say(log, f"processes are started plainly: {unsound}")
            return  # the folder stays, because the executable that Ray runs as Python is in it
        _be_as_a_worker(packages)
        worker = _serve(listener, life.fileno(), environment)
    if worker is not None:
        runpy.run_path(worker.arguments[0], run_name="__main__")
    else:
        _remove(Path(folder))


def _import(*modules: str) -> None:
    for name in modules:
        importlib.import_module(name)


def _why_unsound() -> str | None:
    """The reason why this process cannot be forked after its imports, in words; None if it can."""
    if _draw_in_a_fork() == _draw_in_a_fork():
        return "imports have drawn a random id of Ray's, and all forked processes would draw the same ones"
    # Only now: numpy's threads end when their process forks, and come back when they are needed.
    if (threads := len(os.listdir("/proc/self/task"))) > 1:
        return f"imports have started {threads - 1} threads, which a fork would lose"
    return None


def _draw_in_a_fork() -> bytes:
    """The first random id of Ray's that a forked process draws."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, ray.ObjectRef.from_random().binary())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        return answer.read()


def _be_as_a_worker(packages: str) -> None:
    """Set up what Ray reads when it is imported, as it is in a worker that has just started."""
    sys.path.reverse()
    sys.path.remove(packages)  # the last one, which `client` has appended; what is imported finds its own parts
    sys.path.reverse()
    sys.stdout.flush()
    sys.stderr.flush()
    gc.collect()
    holes.fill()
    gc.freeze()  # the collector writes to objects it looks at, and a page that is written is no longer shared


def _serve(listener: socket.socket, raylet_fd: int, environment: dict[bytes, bytes]) -> Request | None:
    """Fork for every client that asks. Returns the request in each forked process, and None when the raylet ends."""
    events = select.poll()
    events.register(listener, select.POLLIN)
    events.register(raylet_fd, select.POLLIN)
    while raylet_fd not in dict(events.poll()):
        connection, _ = listener.accept()
        with connection:
            request = _receive(connection)
            if request is None:
                continue
            refusal = _refusal(request.environment, environment)
            if refusal is not None:
                _refuse(connection, refusal)
            elif _fork_for(connection):
                _become(request, connection)
                return request
            for descriptor in request.files:
                os.close(descriptor)
    return None


def _receive(connection: socket.socket) -> Request | None:
    """Read a client's request. None if the client is gone, or has sent something else."""
    connection.settimeout(_REQUEST_SECONDS)
    files: list[int] = []
    try:
        header, files, _, _ = socket.recv_fds(connection, LENGTH_BYTES, 3)
        with connection.makefile("rb") as stream:
            text = stream.read(int.from_bytes(header, "big"))
        arguments, variables, folder, process_group = marshal.loads(text)
        return Request(arguments, variables, folder, process_group, files)
    except (OSError, EOFError, ValueError, TypeError):
        for descriptor in files:
            os.close(descriptor)
        return None


def _refusal(wanted: dict[bytes, bytes], own: dict[bytes, bytes]) -> str | None:
    """The reason why this worker cannot be forked from this server, whose environment differs; None if it can."""
    names = (wanted.keys() | own.keys()) - _OF_A_WORKER
    differs = sorted(name for name in names if wanted.get(name) != own.get(name))
    return f"the environment differs in {b', '.join(differs).decode()}" if differs else None


def _refuse(connection: socket.socket, reason: str) -> None:
    with contextlib.suppress(OSError):  # the client may have given up
        connection.sendall(reason.encode())


def _fork_for(connection: socket.socket) -> bool:
    """Fork, and return whether this is the forked process. If forking fails, the client is told why."""
    try:
        return os.fork() == 0
    except OSError as error:
        _refuse(connection, f"the system refuses to fork: {error.strerror}")
        return False


def _become(request: Request, connection: socket.socket) -> None:
    """In the forked process: become as if the client had started it, and tell the client. Else the process ends."""
    try:
        os.setpgid(0, request.process_group)  # the client's, which lives until it is answered
        for number, descriptor in enumerate(request.files):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.chdir(request.folder)
        os.environb.clear()
        os.environb.update(request.environment)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        sys.argv = request.arguments
        script_folder = os.path.dirname(request.arguments[0])
        sys.path[:] = [entry or script_folder for entry in sys.path]  # "" stands for the folder of the script
        connection.sendall(FORKED)
    except BaseException:  # a copy of the server must not go on as one
        traceback.print_exc()
        os._exit(1)


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):  # the user who started Ray may do so, too
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
