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
    begun: list[Served] = []
    there = threading.Event()

    async def run() -> None:
        begun.append(served(entrance, options, Place(port=0)))
        there.set()
        await begun[0].run()

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="console")
    thread.start()
    try:
        assert there.wait(20)
        yield begun[0].address
    finally:
        begun[0].stop()
        thread.join(20)
