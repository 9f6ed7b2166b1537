"""The port of a broker: the one that was chosen, or any free one, which it keeps over restarts if it can.

Free ports come from the range of which outgoing connections get theirs. While a broker is down, one of those may take
its port.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable

from actors import CoterieError

log = logging.getLogger(__name__)

_GRACE_SECONDS = 2.0  # waits for a predecessor that is ending, or a short connection
_RETRY_SECONDS = 0.05


class PortTakenError(CoterieError, OSError):
    """The chosen port cannot be listened at. The text says which, why, and what chose it."""


async def listen(
    accept: Callable[[], asyncio.BaseProtocol], host: str, port: int, chosen_by: str, *, backlog: int
) -> asyncio.Server:
    """Listen at `port`. If it is taken, raise PortTakenError if `chosen_by` names a setting, else take another port."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _GRACE_SECONDS
    while True:
        try:
            return await loop.create_server(accept, host, port, backlog=backlog, reuse_address=True)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and loop.time() < deadline:
                await asyncio.sleep(_RETRY_SECONDS)
            elif error.errno == errno.EADDRINUSE and port and not chosen_by:
                log.warning("port %d, which this broker had before, is taken: listening at another one", port)
                port = 0
            else:
                raise PortTakenError(error.errno, taken(host, port, chosen_by, error)) from error


def taken(host: str, port: int, chosen_by: str, error: OSError) -> str:
    """The text of the error that the port cannot be listened at."""
    if (unknown := isinstance(error, socket.gaierror)) or error.errno == errno.EADDRNOTAVAIL:
        reason = error.strerror if unknown else os.strerror(error.errno or 0)
        return (
            f"cannot listen on {host}:{port} ({reason}): {host} is no address of this machine; mend the host, which "
            "--host or the setting listeners names"
        )
    reason = os.strerror(error.errno) if error.errno else str(error)
    chosen = f", which {chosen_by} chose" if chosen_by else ""
    return f"cannot listen on {host}:{port}{chosen} ({reason}): choose another port, or 0 for any free one"
