"""A controller's port: it accepts connections, and gives each to the part that speaks with such an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from actors.links.acceptance import listen_for_links
from actors.links.connection import ControlProtocol, Message, close_unauthenticated
from actors.links.secret import Secrets
from actors.links.unproved import Unproved
from actors.links.versions import Spoken
from actors.runtime.environment import Chance
from actors.settings import BrokerConfig


@dataclass(slots=True)
class InForce:
    """The settings and the secrets that a controller goes by. Both may be exchanged while it runs."""

    config: BrokerConfig
    secrets: Secrets


class Speaker(Protocol):
    """A part that speaks with others over connections that they have opened."""

    def came(self, protocol: ControlProtocol) -> None:
        """The other end has proved itself: `protocol.peer` is its role."""

    def heard(self, protocol: ControlProtocol, message: Message) -> None:
        """It has said this."""

    def lost(self, protocol: ControlProtocol) -> None:
        """The connection has ended."""


class Acceptor:
    """Listens at one port. `spoken` gives the versions that this end speaks with one who connects now.

    `speaker` chooses who speaks with a connection, by what its other end has proved to be; None has it closed. It is
    asked once for each: the choice holds until the connection ends.
    """

    def __init__(
        self,
        in_force: InForce,
        loop: asyncio.AbstractEventLoop,
        chance: Chance,
        spoken: Callable[[], Spoken],
        speaker: Callable[[ControlProtocol], Speaker | None],
    ) -> None:
        self._in_force = in_force
        self._chance = chance
        self._spoken = spoken
        self._speaker = speaker
        self.unproved = Unproved(loop)
        """The connections whose other ends have yet to prove themselves."""
        self._speakers: dict[ControlProtocol, Speaker] = {}
        self.listening: asyncio.AbstractServer | None = None

    async def listen(self, host: str) -> int:
        """Accept connections at any free port of `host`; returns the port. Raises OSError, TlsError."""
        in_force = self._in_force
        self.listening = await listen_for_links(
            self._accept,
            host,
            lambda: in_force.secrets,
            lambda: in_force.config.link_security,
            in_force.config.link_stores,
        )
        port: int = self.listening.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Stop listening, and close all connections."""
        if self.listening is not None:
            self.listening.close()
        self.unproved.close()
        for protocol in list(self._speakers):
            protocol.close()

    def close_unauthenticated(self) -> None:
        """Close connections by a secret that is valid no longer: what has been started since has made new ones."""
        close_unauthenticated(self._speakers, self._in_force.secrets)

    def _accept(self) -> ControlProtocol:
        return ControlProtocol(
            "controller",
            self._in_force.secrets,
            self._chance,
            self._on_ready,
            self._on_message,
            self._on_lost,
            self.unproved,
            spoken=self._spoken(),
        )

    def _on_ready(self, protocol: ControlProtocol) -> None:
        speaker = self._speaker(protocol)
        if speaker is None:
            protocol.close()
            return
        self._speakers[protocol] = speaker
        speaker.came(protocol)

    def _on_message(self, protocol: ControlProtocol, message: Message) -> None:
        self._speakers[protocol].heard(protocol, message)

    def _on_lost(self, protocol: ControlProtocol) -> None:
        speaker = self._speakers.pop(protocol, None)
        if speaker is not None:
            speaker.lost(protocol)
