"""Connecting to a Ray that is not there: what is at the address instead is said, and soon. No Ray is started."""

from __future__ import annotations

import socket
import threading

import pytest

from actors.runtime.ray_connection import ClusterError, connect


def test_an_address_where_nobody_listens_is_said() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{unheard.getsockname()[1]}"
        with pytest.raises(
            ClusterError, match=rf"^no Ray answers at {address} \(Connection refused\): is it running\?$"
        ):
            connect(address)


@pytest.mark.parametrize("says", [b"HTTP/1.1 505 HTTP Version Not Supported\r\n\r\n", b"SSH-2.0-x\r\n", b""])
def test_a_port_where_something_else_listens_is_said_to_be_no_rays(says: bytes) -> None:
    """Ray itself was waited for, for twenty seconds, with a warning every five."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(says)

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"^what answers at {address} is no Ray: "):
            connect(address)
        thread.join()
