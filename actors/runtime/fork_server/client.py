"""The program that Ray runs instead of a worker's Python: it has the worker forked, or starts it plainly.

See the package.

It runs as a script, `python -IS client.py FOLDER LOG WARM default_worker.py ARGUMENTS...`, without site and packages:
it imports little, so that it takes only a few milliseconds.
"""

from __future__ import annotations

import marshal
import os
import socket
import sys
import time

SOCKET = "server.sock"
FORKED = b"+"
"""The answer of a forked process. Any other answer is the reason why none was forked."""
LENGTH_BYTES = 4
_SERVER = """
import sys; sys.path.append(sys.argv[1])
from actors.runtime.fork_server import ending; ending.at_once_after_all_else()
from actors.runtime.fork_server.server import main; main()
"""
_PLAIN = "plain"  # a file that is there once the log says that processes are started plainly
_ANSWER_SECONDS = 20.0  # the first clients wait until the server has imported everything
_BACKLOG = 1024


def main() -> None:
    """End when the worker has been forked, or else become the worker."""
    folder, log, warm, *worker = sys.argv[1:]
    reason = _fork(folder, log, warm, worker)
    if reason is not None:
        _say_once(folder, log, reason)
        os.execv(sys.executable, [sys.executable, *worker])


def _fork(folder: str, log: str, warm: str, worker: list[str]) -> str | None:
    """Ask for the worker to be forked. Returns why it was not, or None."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            _connect(connection, folder, log, warm)
            answer = _ask(connection, worker)
    except OSError as error:
        return f"the fork server does not answer ({error.strerror or error})"
    if answer == FORKED:
        return None
    return answer.decode() or "the fork server has ended"


def _connect(connection: socket.socket, folder: str, log: str, warm: str) -> None:
    path = os.path.join(folder, SOCKET)
    try:
        connection.connect(path)
    except FileNotFoundError:
        listener = _listen_first(path)
        if listener is not None:
            _serve_in_this_process(listener, folder, log, warm)
        connection.connect(path)


def _listen_first(path: str) -> socket.socket | None:
    """Listen at `path` if nobody ever has; else None. The path appears only once its socket listens."""
    listener = socket.socket(socket.AF_UNIX)
    own = f"{path}.{os.getpid()}"
    listener.bind(own)
    listener.listen(_BACKLOG)
    try:
        os.link(own, path)
    except FileExistsError:
        listener.close()
        return None
    finally:
        os.unlink(own)
    return listener


def _serve_in_this_process(listener: socket.socket, folder: str, log: str, warm: str) -> None:
    """Become the server. It returns only in a forked child, which goes on as the client."""
    import signal  # here, because only one client of a cluster needs it

    # Nobody waits for this child. The server needs the same for the workers.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listener.close()
        return
    packages = os.path.abspath(os.path.join(__file__, *[os.pardir] * 4))
    os.set_inheritable(listener.fileno(), True)
    os.execv(sys.executable, [sys.executable, "-c", _SERVER, packages, folder, log, warm, str(listener.fileno())])


def _ask(connection: socket.socket, worker: list[str]) -> bytes:
    connection.settimeout(_ANSWER_SECONDS)
    request = marshal.dumps((worker, dict(os.environb), os.getcwdb(), os.getpgid(0)))
    socket.send_fds(connection, [len(request).to_bytes(LENGTH_BYTES, "big")], [0, 1, 2])
    connection.sendall(request)
    try:
        return connection.recv(1024)
    except TimeoutError:
        connection.shutdown(socket.SHUT_RD)  # whoever would answer now cannot, and ends; it may have done so just now
        return connection.recv(1024) or b"the fork server has not answered for %.0f s" % _ANSWER_SECONDS


def _say_once(folder: str, log: str, reason: str) -> None:
    try:
        os.close(os.open(os.path.join(folder, _PLAIN), os.O_CREAT | os.O_EXCL))
    except OSError:  # it has been said, or all this has ended
        return
    say(log, f"a process is started plainly, and others may be: {reason}")


def say(log: str, text: str) -> None:
    """Append a line to the file `log`, or write it to stderr."""
    line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} WARNING coterie: {text}\n"
    try:
        os.makedirs(os.path.dirname(log) or ".", exist_ok=True)
        with open(log or 2, "a", closefd=bool(log)) as file:
            file.write(line)
    except OSError:
        pass  # a worker starts all the same


if __name__ == "__main__":
    main()
