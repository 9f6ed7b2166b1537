"""A broker of ours without Ray, with its controller, in one process of its own: it starts in a second.

It hosts no groups. Run as a program it serves until it is told to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import uvloop

from tests.compat.peers import ROOT
from tests.compat.processes import end_process, read_ready_line, spawn
from tests.support.one_broker import world

_START_TIMEOUT_S = 60.0


async def _serve(folder: Path, settings: Mapping[str, str]) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with world(folder, **settings) as made:
        sys.stdout.write(f"ready 127.0.0.1:{made.server.socket_server.ports['PLAINTEXT']}\n")
        sys.stdout.flush()
        await stop.wait()


@contextlib.contextmanager
def broker_alone(folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """The address of a broker with these settings, which keeps its files in `folder`."""
    command = [sys.executable, "-m", __name__, str(folder), *(f"{name}={value}" for name, value in settings.items())]
    log_path = folder / "broker.log"
    with log_path.open("wb") as log:
        process = spawn(command, log, ROOT)
        try:
            yield read_ready_line(process, log_path, _START_TIMEOUT_S).split()[1]
        finally:
            end_process(process)


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1]), dict(pair.split("=", 1) for pair in sys.argv[2:])))
