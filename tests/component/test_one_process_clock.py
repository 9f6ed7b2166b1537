"""A loop whose time is moved on, with sockets: what a timer sends is read before time goes on."""

from __future__ import annotations

import asyncio
import socket

from actors.one_process.clock import MovableLoop, MovableTime, move


def test_what_a_timer_sends_is_read_before_time_goes_on() -> None:
    time = MovableTime()
    read: list[int] = []

    async def go() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        begun = loop.time()

        class Reader(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                read.append(round(loop.time() - begun))

        await loop.create_connection(Reader, sock=theirs)
        for seconds in (0, 100, 200, 300):
            loop.call_later(seconds, ours.send, b"x")
        await move(time, 450)
        ours.close()

    with asyncio.Runner(loop_factory=lambda: MovableLoop(time)) as runner:
        runner.run(go())
    assert read == [0, 100, 200, 300]
