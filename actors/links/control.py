"""Messages between a controller and its brokers, and between brokers: msgpack maps with a length, over TCP.

Both ends prove that they know the cluster's secret before anything else is said: a challenge each way, answered with
an HMAC-SHA256 over it and the role of the end that answers. Without the role, an end could be made to answer its own
challenge, on this connection or on another.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from typing import Any, Literal, cast

import msgpack

Role = Literal["controller", "broker", "leader", "follower"]

_PEERS: dict[Role, Role] = {
    "controller": "broker",
    "broker": "controller",
    "leader": "follower",
    "follower": "leader",
}
_LIMIT = 128 << 20  # above the largest message.max.bytes by more than what goes with it in one frame
_LIMIT_UNPROVED = 4096


class ControlProtocol(asyncio.Protocol):
    """One end of a control connection. `on_ready` is called once the other end has proved itself."""

    def __init__(
        self,
        role: Role,
        secret: bytes,
        on_ready: Callable[[ControlProtocol], None],
        on_message: Callable[[ControlProtocol, dict[str, Any]], None],
        on_lost: Callable[[ControlProtocol], None],
    ) -> None:
        self._role: Role = role
        self._peer: Role = _PEERS[role]
        self._secret = secret
        self._on_ready = on_ready
        self._on_message = on_message
        self._on_lost = on_lost
        self.transport: asyncio.Transport | None = None
        self._challenge = secrets.token_bytes(16)
        self._proved = False
        self._answered = False
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = 4
        self._closed = False
        self.writable = True
        """Whether the other end keeps up with what is sent."""
        self.on_writable: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.send({"challenge": self._challenge})

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._on_lost(self)

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self.on_writable()

    def data_received(self, data: bytes) -> None:
        if self._chunks:
            self._chunks.append(data)
            self._have += len(data)
            if self._have < self._need:
                return
            data = b"".join(self._chunks)
            self._chunks.clear()
        position, self._need = 0, 4
        while len(data) - position >= 4 and not self._closed:
            length = int.from_bytes(data[position : position + 4], "big")
            if length > (_LIMIT if self._proved else _LIMIT_UNPROVED):
                self.close()
                return
            if len(data) - position - 4 < length:
                self._need = 4 + length
                break
            body = data[position + 4 : position + 4 + length]
            position += 4 + length
            try:
                self._receive(msgpack.unpackb(body))
            except (ValueError, KeyError, TypeError):
                if self._proved:
                    raise
                self.close()
                return
        if position < len(data):
            self._chunks.append(data[position:])
            self._have = len(data) - position

    def _receive(self, message: dict[str, Any]) -> None:
        if self._proved and self._answered:
            self._on_message(self, message)
        elif "challenge" in message and not self._answered:
            self._answered = True
            self.send({"proof": self._proof(self._role, message["challenge"])})
            self._begin()
        elif "proof" in message and not self._proved:
            if not hmac.compare_digest(self._proof(self._peer, self._challenge), message["proof"]):
                self.close()
                return
            self._proved = True
            self._begin()
        else:
            self.close()

    def _proof(self, role: Role, challenge: bytes) -> bytes:
        return hmac.digest(self._secret, role.encode() + b":" + challenge, "sha256")

    def _begin(self) -> None:
        if self._proved and self._answered:
            self._on_ready(self)

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; nothing happens if the connection has gone."""
        if self.transport is not None:
            body = msgpack.packb(message)
            self.transport.write(len(body).to_bytes(4, "big") + body)

    def close(self) -> None:
        """End the connection at once; what has been read already is not looked at any more."""
        self._closed = True
        if self.transport is not None:
            self.transport.abort()
