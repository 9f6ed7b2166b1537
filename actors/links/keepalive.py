"""Probes of the machine at the other end of a connection, which answers whatever its process does.

A kernel answers for its processes: it acknowledges probes also while a process holds its interpreter's lock, or gets no
CPU. So silence here is that of a machine, or of the network to it.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

_PROBE_SECONDS: Final = 5
_LAST_ACK: Final = struct.Struct("<I")
_LAST_ACK_AT: Final = 56  # tcpi_last_ack_recv of struct tcp_info, in milliseconds


def probe(connection: socket.socket) -> None:
    """Have the kernel ask the other end for a sign of life every few seconds. Only TCP has this."""
    if connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_SECONDS)


def unanswered_s(connection: socket.socket) -> float:
    """The time for which the other machine has acknowledged nothing; 0 if that is unknown, or the connection is closed.

    It is what TCP itself knows: a timeout of ours would count a process that does not read as gone, and without one a
    message to a machine that has vanished is sent again for a quarter of an hour.
    """
    if connection.family == socket.AF_UNIX:
        return 0.0
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_ACK_AT + _LAST_ACK.size)
    except OSError:
        return 0.0
    ms: int = _LAST_ACK.unpack_from(info, _LAST_ACK_AT)[0]
    return ms / 1000
