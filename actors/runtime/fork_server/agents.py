"""Stand-ins for Ray's two agents of a node. The raylet waits for their ports, and ends if one of them ends.

An agent imports ray: 0.9 s of CPU and 60 MiB each, for nothing in most clusters.

- The dashboard's agent, in a Ray without the dashboard's packages, writes down that it serves nothing. So does its
  stand-in.
- The agent for runtime environments is asked once a worker has one. Its stand-in listens, and at the first call becomes
  the agent, which listens elsewhere. A fork of the stand-in stays, and passes on all calls.

It runs as a script, `python -IS agents.py WORDS... NOTHING|CALLS NAMES... -- AGENT ARGUMENTS...`, without site and
packages: it imports little, so that it takes only a few milliseconds. It ends with its raylet. WORDS are those of Ray's
that it needs: `ray_inside.RAYLET_PID` and `ray_inside.AGENT_ARGUMENTS`.
"""

from __future__ import annotations

import itertools
import os
import select
import socket
import sys
import time
from collections.abc import Sequence

NOTHING = "nothing"
"""Said of an agent that serves nothing; NAMES are the names of its ports."""
CALLS = "calls"
"""Said of one that takes calls; NAMES are the name of its port, and the argument that chooses it."""
_NO_PORT = -1
_CHUNK_BYTES = 1 << 16
_LOOK_SECONDS = 0.05
_FILES_MAX = 1 << 16


def main() -> None:
    """Stand in for the agent until the raylet ends, or become it."""
    split = sys.argv.index("--")
    (raylet_pid, session, node, host, does, *names), agent = sys.argv[1:split], sys.argv[split + 1 :]
    try:
        raylet = os.pidfd_open(int(os.environ[raylet_pid]))
    except ProcessLookupError:
        return
    given = dict(word.split("=", 1) for word in agent if word.startswith("--") and "=" in word)
    files = [os.path.join(given[session], f"{name}_{given[node]}") for name in names]  # there the raylet looks
    if does == CALLS:
        _take_calls(files[0], names[1], given[host], given[names[1]], agent, raylet)
        return
    for file in files:
        _write(file, _NO_PORT)
    _first(raylet)


def _take_calls(file: str, argument: str, host: str, chosen: str, agent: Sequence[str], raylet: int) -> None:
    with _listening(host, int(chosen)) as listener:
        port: int = listener.getsockname()[1]
        _write(file, port)
        if _first(raylet, listener.fileno()) == raylet:
            return
        if os.fork() == 0:
            _pass_on(listener, file, port, raylet)
    elsewhere = [f"{argument}=0" if word.startswith(f"{argument}=") else word for word in agent]
    os.execv(sys.executable, [sys.executable, *elsewhere])


def _listening(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen()
    return listener


def _pass_on(listener: socket.socket, file: str, port: int, raylet: int) -> None:
    """Pass on the calls that come to `port` until the raylet ends, and this process with it."""
    import threading  # here, because few stand-ins need it

    _close_all_but(listener.fileno(), raylet)

    host: str = listener.getsockname()[0]
    while _first(raylet, listener.fileno()) != raylet:
        call, _ = listener.accept()
        threading.Thread(target=_pass, args=(call, host, file, port), daemon=True).start()
    os._exit(0)


def _close_all_but(*kept: int) -> None:
    """Close what the agent has inherited: by one of these files the raylet sees its end, and waits for that."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for before, after in itertools.pairwise([2, *sorted(kept), _FILES_MAX]):
        os.closerange(before + 1, after)


def _pass(call: socket.socket, host: str, file: str, port: int) -> None:
    """Pass one call to the agent, and its answer back."""
    with call, _called(host, file, port) as agent:
        other = {call.fileno(): agent, agent.fileno(): call}
        while True:
            for ready in select.select([call, agent], [], [])[0]:
                chunk = ready.recv(_CHUNK_BYTES)
                if not chunk:
                    return
                other[ready.fileno()].sendall(chunk)


def _called(host: str, file: str, port: int) -> socket.socket:
    """A connection to the agent, once it has written its own port over `port`, and listens there a little later."""
    while True:
        own = _read(file)
        if own not in (port, _NO_PORT):
            try:
                return socket.create_connection((host, own))
            except ConnectionRefusedError:
                pass
        time.sleep(_LOOK_SECONDS)


def _write(file: str, port: int) -> None:
    own = f"{file}.{os.getpid()}"
    with open(own, "w") as written:
        written.write(str(port))
    os.rename(own, file)


def _read(file: str) -> int:
    with open(file) as written:
        return int(written.read() or _NO_PORT)


def _first(*descriptors: int) -> int:
    """The first of these that has something, or has ended."""
    events = select.poll()
    for each in descriptors:
        events.register(each, select.POLLIN)
    ready = dict(events.poll())
    return next(each for each in descriptors if each in ready)


if __name__ == "__main__":
    main()
