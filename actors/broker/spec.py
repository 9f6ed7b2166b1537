"""A broker's orders when it is started, and why it may not start.

It goes through Ray as bytes of a codec: the code on the broker's node may be of another build than the controller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from actors import CoterieError
from actors.links.codec import Codec
from actors.links.versions import Spoken
from actors.runtime.logs import LogPlace
from actors.settings import SecurityProtocol


class StartError(CoterieError):
    """A broker cannot start; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Door:
    """A broker's door for clients of one listener, and the address that they are told.

    `port` 0 takes any free one, which the next start asks for again; `advertised_port` 0 is the port it listens at.
    """

    listener: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int = 0
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    port_chosen_by: str = ""
    """The setting that chose `port`, as a user writes it. If empty, another port will do if this one is taken."""

    def at(self, ports: Mapping[str, int]) -> Door:
        """The same at the port that its listener has among these, if any one will do."""
        return self if self.port_chosen_by else replace(self, port=ports.get(self.listener, self.port))

    def moved(self, before: str, now: str) -> Door:
        """The same on a node that had one address `before`, and has another one now."""
        host, advertised = (now if each == before else each for each in (self.host, self.advertised_host))
        return replace(self, host=host, advertised_host=advertised)


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """The start parameters of a broker. Other brokers reach it at `host`, which may be none of its doors'."""

    broker_id: int
    host: str
    doors: tuple[Door, ...]
    data_dir: str
    socket_path: str
    config: dict[str, str]

    def at_ports(self, ports: Mapping[str, int]) -> BrokerSpec:
        """The same with these ports, by listener, where a setting does not choose the port."""
        return replace(self, doors=tuple(door.at(ports) for door in self.doors))

    def moved(self, before: str, now: str) -> BrokerSpec:
        """The same on a node that had one address `before`, and has another one now. Other hosts stay."""
        host = now if self.host == before else self.host
        return replace(self, host=host, doors=tuple(door.moved(before, now) for door in self.doors))


@dataclass(frozen=True, slots=True)
class BrokerStart:
    """All that a broker's actor is told: by a process that speaks `starter`."""

    starter: Spoken
    spec: BrokerSpec
    namespace: str
    logs: LogPlace

    def encoded(self) -> bytes:
        """As it goes through Ray."""
        return _CODEC.encode(self)

    @classmethod
    def decoded(cls, encoded: bytes) -> Self:
        """The inverse of `encoded`. Raises LinkError."""
        return _CODEC.read(cls, encoded)


_CODEC: Final[Codec[BrokerStart]] = Codec("start", {1: BrokerStart})
