"""A broker's connection to the controller: the metadata's images come in by it, heartbeats and calls go out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from actors.broker.context import Done
from actors.broker.replication import LOST
from actors.links.control import ControlProtocol
from placement.metadata import ClusterMetadata

if TYPE_CHECKING:
    from actors.broker.server import BrokerServer

_CONNECT_SECONDS = 5.0


class ControllerLink:
    """This broker's connection to the controller. Calls made while it is down fail at once."""

    def __init__(self, server: BrokerServer, secret: bytes) -> None:
        self._server = server
        self.secret = secret
        self._protocol: ControlProtocol | None = None
        self._calls: dict[int, Done] = {}
        self._next_call = 0
        self.epoch = -1
        self.last_confirmed = 0.0
        self.unanswered = 0
        """Heartbeats sent since anything was heard. A number, not a time: a process that was stopped asked nobody."""

    @property
    def connected(self) -> bool:
        return self._protocol is not None

    async def connect(self, host: str, port: int) -> None:
        """Connect, both ends proving that they know the secret. Raises OSError, TimeoutError."""
        loop = self._server.loop
        ready: asyncio.Future[None] = loop.create_future()

        def on_ready(protocol: ControlProtocol) -> None:
            self._protocol = protocol  # not before: what else is said among the proofs ends the connection
            if not ready.done():
                ready.set_result(None)

        def on_lost(protocol: ControlProtocol) -> None:
            if not ready.done():
                ready.set_exception(ConnectionError("the controller hung up"))
            self._lost(protocol)

        protocol = ControlProtocol("broker", self.secret, on_ready, self._on_message, on_lost)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await loop.create_connection(lambda: protocol, host, port)
                await ready
        except BaseException:
            protocol.close()
            raise

    def send(self, message: dict[str, Any]) -> None:
        """Send, or drop it if there is no connection."""
        if self._protocol is not None:
            self._protocol.send(message)

    def heartbeat(self, load: dict[str, Any]) -> None:
        """Show that we live, and ask for the lease."""
        self.unanswered += 1
        self.send({"type": "heartbeat", "sent": self._server.loop.time(), "load": load})

    def call(self, operation: str, arguments: Mapping[str, Any], done: Done) -> None:
        """Have the controller do something; `done` gets (result, None) or (None, why not)."""
        if self._protocol is None:
            done(None, "the controller cannot be reached")
            return
        self._next_call += 1
        self._calls[self._next_call] = done
        self.send({"type": "call", "id": self._next_call, "operation": operation, "arguments": dict(arguments)})

    def _on_message(self, protocol: ControlProtocol, message: dict[str, Any]) -> None:
        self.unanswered = 0
        match message["type"]:
            case "image":
                self._server.apply_image(ClusterMetadata.from_wire(message["image"]))
                self.send({"type": "ack", "version": self._server.context.metadata.version})
            case "answer":
                done = self._calls.pop(message["id"], None)
                if done is not None:
                    done(message.get("result"), message.get("error"))
            case "heartbeat":
                self.last_confirmed = message["sent"]
            case "joined" | "welcome":
                if message["type"] == "welcome":
                    self.epoch = message["epoch"]
                self._server.on_welcome(message)

    def _lost(self, protocol: ControlProtocol) -> None:
        if protocol is not self._protocol:
            return
        self._protocol = None
        calls, self._calls = self._calls, {}
        for done in calls.values():
            done(None, LOST)
        self._server.on_controller_lost(self)

    def give_up(self) -> ControlProtocol | None:
        """Count on this connection no more; it is left open, for its end would be the news of our death."""
        protocol = self._protocol
        if protocol is not None:
            self._lost(protocol)
        return protocol

    def close(self) -> None:
        """Hang up."""
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.close()
