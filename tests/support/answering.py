"""A server that speaks no Kafka: it answers everything with the same bytes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x0a"
"""As a server that expects TLS answers plain bytes: unexpected_message."""


@contextmanager
def answering(data: bytes) -> Iterator[int]:
    """A server that answers whatever it is sent with these bytes, at this port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
