"""The first process of a host: `init.py NAME [FOLDER MOUNTED_AT]`. It runs without site packages, and imports little.

It becomes the parent of whoever loses its own, and ends when its standard input does: whoever made the host has ended,
or wants the host to end. The kernel then kills all other processes of the host.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys


def main(name: str, *mounted: str) -> None:
    socket.sethostname(name)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if mounted:
        subprocess.run(["mount", "--bind", *mounted], check=True)
    signal.signal(signal.SIGCHLD, _bury)
    os.write(sys.stdout.fileno(), b"up\n")
    while os.read(sys.stdin.fileno(), 1):
        pass


def _bury(*_: object) -> None:
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
