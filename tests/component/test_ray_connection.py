"""Connecting to a Ray that is not there: what is at the address instead is said, and soon. No Ray is started."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace

import pytest

from actors.runtime import ray_connection
from actors.runtime.ray_connection import ClusterError, connect, looked_at, openness, openness_here


def test_an_address_where_nobody_listens_is_said() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{unheard.getsockname()[1]}"
        with pytest.raises(
            ClusterError, match=rf"^no Ray answers at {address} \(Connection refused\): is it running\?$"
        ) as raised:
            connect(address)
    assert raised.value.__suppress_context__, "one paragraph: the cause says the same with twenty lines of frames"


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


@pytest.mark.conformance("XE-40")
@pytest.mark.parametrize(
    ("address", "token", "found"),
    [
        ("127.0.0.1:6379", True, []),
        ("10.1.2.3:6379", True, []),
        ("[::1]:6379", True, []),
        ("127.0.0.1:6379", False, ["it asks for no token"]),
        ("8.8.8.8:6379", True, ["its address 8.8.8.8 is a public one"]),
        ("8.8.8.8:6379", False, ["it asks for no token", "its address 8.8.8.8 is a public one"]),
    ],
)
def test_a_ray_that_others_may_use_is_told_of(
    address: str, token: bool, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = openness(address, token=token)
    assert [each.partition(",")[0].partition(":")[0] for each in told] == found
    monkeypatch.setattr(ray_connection, "asks_for_token", lambda: token)
    monkeypatch.setattr(ray_connection.ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address=address))
    assert openness_here() == [f"warning: the Ray at {address}: {each}" for each in told]


@pytest.mark.conformance("XE-40")
@pytest.mark.parametrize(("mine", "lets_in", "open_to_all"), [(True, True, 0), (False, False, 0), (False, True, 1)])
def test_of_a_ray_elsewhere_it_is_tried_whether_it_lets_anybody_in(
    mine: bool, lets_in: bool, open_to_all: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_connection, "_check_there", lambda *address: None)
    monkeypatch.setattr(ray_connection, "asks_for_token", lambda: mine)
    monkeypatch.setattr(ray_connection, "_lets_in", lambda address: lets_in)
    assert len(looked_at("127.0.0.1:6379")) == open_to_all
    with pytest.raises(ClusterError, match="auto is no address"):
        looked_at("auto")
