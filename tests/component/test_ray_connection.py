"""Connecting to a Ray that is not there: what is at the address instead is said, and soon. No Ray is started."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from ray.exceptions import AuthenticationError

from actors.runtime import ray_inside
from actors.runtime.ray_connection import ClusterError, connect, looked_at, mode_for, openness, openness_lines

SETTINGS_FRAME = b"\0\0\0\x04\0\0\0\0\0"
"""The beginning of every answer in HTTP/2."""


@contextmanager
def answering(says: bytes) -> Iterator[str]:
    """The address of somebody who says this to the first that connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(says)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(60)


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
    with answering(says) as address:
        with pytest.raises(ClusterError, match=f"^what answers at {address} is no Ray: "):
            connect(address)


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
def test_a_ray_that_others_may_use_is_told_of(address: str, token: bool, found: list[str]) -> None:
    told = openness(address, token=token)
    assert [each.partition(",")[0].partition(":")[0] for each in told] == found
    assert openness_lines(address, token=token) == [f"warning: the Ray at {address}: {each}" for each in told]


@pytest.mark.conformance("XE-40")
@pytest.mark.parametrize(("lets_in", "open_to_all"), [(False, 0), (True, 1)])
@pytest.mark.parametrize("mode", [None, "token", "disabled"])
def test_of_a_ray_elsewhere_it_is_tried_whether_it_lets_anybody_in_whoever_asks(
    mode: str | None, lets_in: bool, open_to_all: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who gives a token was told that any Ray asks for one."""
    modes: list[str | None] = []

    def knock(address: str) -> None:
        modes.append(os.environ.get("RAY_AUTH_MODE"))
        if not lets_in:
            raise AuthenticationError("no token")

    monkeypatch.setattr(ray_inside, "knock", knock)
    monkeypatch.setenv("RAY_AUTH_MODE", mode or "")
    if mode is None:
        monkeypatch.delenv("RAY_AUTH_MODE")
    with answering(SETTINGS_FRAME) as address:
        assert len(looked_at(address)) == open_to_all
    assert (modes, os.environ.get("RAY_AUTH_MODE")) == (["disabled"], mode)
    with pytest.raises(ClusterError, match="auto is no address"):
        looked_at("auto")


NONE = "there is none in /root/.ray/auth_token"


@pytest.mark.parametrize(
    ("said", "missing", "free", "given", "mode"),
    [
        (None, NONE, True, False, None),
        (None, None, True, False, None),
        (None, None, False, False, "token"),
        ("token", None, False, True, None),
        ("token", None, True, True, None),
        ("disabled", NONE, True, False, None),
        # From Ray 2.61 each gives a token who says nothing.
        (None, None, False, True, None),
        (None, None, True, True, None),
        (None, NONE, True, True, "disabled"),
    ],
)
def test_a_user_who_says_nothing_of_tokens_is_let_in_where_one_can_be(
    said: str | None, missing: str | None, free: bool, given: bool, mode: str | None
) -> None:
    assert mode_for("h:1", said, missing, free=free, given=given) == mode


@pytest.mark.parametrize(
    ("said", "missing", "given", "why"),
    [
        (None, NONE, False, f"h:1 asks for a token, but {NONE}: set RAY_AUTH_TOKEN_PATH to a file with its token"),
        (None, NONE, True, f"h:1 asks for a token, but {NONE}: set RAY_AUTH_TOKEN_PATH to a file with its token"),
        (
            "disabled",
            None,
            False,
            "h:1 asks for a token, and RAY_AUTH_MODE=disabled holds it back: unset RAY_AUTH_MODE",
        ),
    ],
)
def test_a_user_whose_token_is_missing_is_told_in_one_line(
    said: str | None, missing: str | None, given: bool, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's C++ ends a process that is to give a token and has none, with a trace of its stack."""
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    with pytest.raises(ClusterError, match=f"^the Ray at {why}"):
        mode_for("h:1", said, missing, free=False, given=given)
