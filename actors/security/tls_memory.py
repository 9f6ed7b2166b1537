"""TLS with its bytes in memory: what has come is put in, what is to be sent is taken out. No socket, and nobody waits.

Its owner is a transport or a protocol of asyncio, or a thread with a socket (`links`, `client`).
"""

from __future__ import annotations

import ssl
from typing import Any


class TlsMemory:
    """One end of a connection. All methods raise ssl.SSLError; then `outgoing` may have an alert for the other end."""

    __slots__ = ("incoming", "outgoing", "tls")

    def __init__(self, context: ssl.SSLContext, *, accepts: bool = False, host: str | None = None) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=accepts, server_hostname=host)

    def shake_hands(self) -> bool:
        """Go on with the handshake as far as what has come allows. Returns True when it is done."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def encrypt(self, data: Any) -> None:
        """Put everything into `outgoing`. The library takes one record at a time."""
        size, done = len(data), self.tls.write(data)
        if done < size:
            view = memoryview(data)
            while done < size:
                done += self.tls.write(view[done:])
