"""A console with a real socket, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from actors.console.app import Options
from actors.console.entrance import Entrance
from actors.console.server import Place, Served, served


@contextmanager
def served_console(entrance: Entrance, options: Options) -> Iterator[str]:
    """Its address, while the block lasts."""
    begun: list[tuple[Served, asyncio.AbstractEventLoop]] = []
    there = threading.Event()

    async def run() -> None:
        console = served(entrance, options, Place(port=0))
        begun.append((console, asyncio.get_running_loop()))
        there.set()
        await console.run()

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="console")
    thread.start()
    try:
        assert there.wait(20)
        yield begun[0][0].address
    finally:
        console, loop = begun[0]
        loop.call_soon_threadsafe(console.stop)
        thread.join(20)
