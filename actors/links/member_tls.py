"""TLS for a blocking socket that one thread reads while others write.

An SSL object must not be used by two threads at once, and Python's SSLSocket waits within it. Here it works in memory,
under a lock, and nobody waits for the network with that lock.
"""

from __future__ import annotations

import io
import socket
import ssl
import threading
from importlib.util import find_spec
from typing import Any, Final

from actors.security.tls_memory import TlsMemory

_READ_BYTES: Final = 1 << 16
_WRITE_BYTES: Final = 1 << 20  # encrypted at a time


def can_encrypt() -> bool:
    """True if this environment can make the certificates of `encryption`."""
    return find_spec("cryptography") is not None


class TlsStream(io.RawIOBase):
    """A TLS stream over a socket. One thread sends at a time, and one reads.

    Raises OSError and EOFError when it is made; the handshake is done then.
    """

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, *, accepts: bool) -> None:
        self._socket = connection
        self._memory = TlsMemory(context, accepts=accepts)
        self._lock = threading.Lock()
        while not self._shaken():
            if not self._receive():
                raise EOFError("the other end has hung up")

    def _shaken(self) -> bool:
        """Go on with the handshake. True if it is done."""
        try:
            return self._memory.shake_hands()
        finally:  # also what tells the other end that it has failed
            self._socket.sendall(self._memory.outgoing.read())

    def _receive(self) -> bool:
        """Take in what comes next. False at the end."""
        data = self._socket.recv(_READ_BYTES)
        with self._lock:
            self._memory.incoming.write(data)
        return bool(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            with self._lock:
                try:
                    return self._memory.tls.read(len(buffer), buffer)  # type: ignore[return-value]
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLZeroReturnError:
                    return 0
            if not self._receive():
                return 0

    def sendall(self, data: bytes) -> None:
        """Send everything. Raises OSError."""
        view = memoryview(data)
        for start in range(0, len(view), _WRITE_BYTES):
            self._socket.sendall(self._encrypted(view[start : start + _WRITE_BYTES]))

    def _encrypted(self, part: memoryview) -> bytes:
        with self._lock:
            self._memory.encrypt(part)
            return self._memory.outgoing.read()
