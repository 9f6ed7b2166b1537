"""Two ends of a control or a replication link without a socket, and the bytes between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack

from actors.links.connection import ControlProtocol, Message
from actors.links.control import CODEC, ControlMessage
from actors.links.proof import Role
from actors.links.secret import Secrets
from actors.links.versions import OWN, Spoken
from actors.runtime.environment import REAL

SECRET = b"s" * 32


class Transport:
    def __init__(self, end: End) -> None:
        self.end = end
        self.out = b""
        self.aborted = False
        self.closed = False

    def write(self, data: bytes) -> None:
        self.out += data

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.closed = True


class End:
    def __init__(self, role: Role, secret: bytes = SECRET, spoken: Spoken = OWN) -> None:
        self.ready = 0
        self.messages: list[Message] = []
        self.on_message: Callable[[Message], None] = lambda _: None
        """Called with each message, after it was noted."""
        self.lost = 0
        self.protocol = ControlProtocol(
            role, Secrets(secret), REAL.chance, self._on_ready, self._on_message, self._on_lost, spoken=spoken
        )
        self.transport = Transport(self)
        made: Any = self.transport
        self.protocol.connection_made(made)

    def _on_ready(self, protocol: ControlProtocol) -> None:
        self.ready += 1

    def _on_message(self, protocol: ControlProtocol, message: Message) -> None:
        self.messages.append(message)
        self.on_message(message)

    def _on_lost(self, protocol: ControlProtocol) -> None:
        self.lost += 1

    def take(self) -> bytes:
        out, self.transport.out = self.transport.out, b""
        return out

    def said(self) -> list[Any]:
        return unframed(self.take())


CHALLENGE, PROOF = 1, 2


def framed(message: Any) -> bytes:
    """A message as it travels: its tag and the values of its fields."""
    body = msgpack.packb(message)
    return len(body).to_bytes(4, "big") + body


def unframed(data: bytes) -> list[Any]:
    found = []
    while data:
        length = int.from_bytes(data[:4], "big")
        found.append(msgpack.unpackb(data[4 : 4 + length]))
        data = data[4 + length :]
    return found


def framed_message(message: ControlMessage) -> bytes:
    body = CODEC.encode(message)
    return len(body).to_bytes(4, "big") + body


def talk(one: End, other: End) -> None:
    """Carry bytes both ways until nobody says anything."""
    while one.transport.out or other.transport.out:
        for sender, receiver in ((one, other), (other, one)):
            data = sender.take()
            if data and not (receiver.transport.aborted or receiver.transport.closed):
                receiver.protocol.data_received(data)


def met() -> tuple[End, End]:
    controller, broker = End("controller"), End("broker")
    talk(controller, broker)
    return controller, broker
