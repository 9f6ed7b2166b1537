"""Passes frames on between two network interfaces, each after a delay: `pump.py ONE OTHER MILLISECONDS`.

The kernel's own means, netem, is not in every kernel. It ends with its standard input.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections import deque
from contextlib import suppress

_ALL_PROTOCOLS = 0x0003
_SOL_PACKET = 263
_VNET_HEADER = 15
"""Frames keep the work that their sender left to the hardware: their checksum, and their division into packets."""
_IGNORE_OUTGOING = 23
_LONGEST = 1 << 17


class Direction:
    """The frames from one interface to the other, in their order."""

    def __init__(self, source: socket.socket, target: socket.socket, delay_s: float) -> None:
        self._source = source
        self._target = target
        self._delay_s = delay_s
        self._waiting: deque[tuple[float, bytes]] = deque()

    def take(self) -> None:
        """Take in all frames that have come."""
        with suppress(BlockingIOError):
            while True:
                self._waiting.append((time.monotonic() + self._delay_s, self._source.recv(_LONGEST)))

    def give(self) -> float:
        """Pass on all frames whose time has come. Returns the seconds until the next one's."""
        while self._waiting:
            left = self._waiting[0][0] - time.monotonic()
            if left > 0:
                return left
            with suppress(OSError):  # the link is down or full, and a link loses frames
                self._target.send(self._waiting.popleft()[1])
        return 3600.0


def opened(interface: str) -> socket.socket:
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    found.setsockopt(_SOL_PACKET, _VNET_HEADER, 1)
    found.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
    found.setblocking(False)
    found.bind((interface, 0))
    return found


def main(one: str, other: str, milliseconds: str) -> None:
    ends, delay_s = [opened(one), opened(other)], float(milliseconds) / 1000
    directions = [Direction(ends[0], ends[1], delay_s), Direction(ends[1], ends[0], delay_s)]
    os.write(sys.stdout.fileno(), b"up\n")
    left = 3600.0
    while sys.stdin not in select.select([sys.stdin, *ends], [], [], left)[0]:
        for direction in directions:
            direction.take()
        left = min([direction.give() for direction in directions])


if __name__ == "__main__":
    main(*sys.argv[1:])
