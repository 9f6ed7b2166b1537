"""The arguments of a handler: a request, and the parts of the broker.

Handlers never touch sockets or Ray; they return a message, or park the request and answer it later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from actors.broker.beside.host import Guests
from actors.broker.connections.connection import Connection
from actors.broker.connections.slots import Slot
from actors.broker.context import BrokerContext, Coordinators, Replication
from actors.broker.handlers.auto_creation import AutoCreation
from actors.broker.handlers.idle_settings import IdleSettings
from actors.broker.handlers.internal_topics import InternalTopics
from actors.broker.handlers.producer_ids import ProducerIds
from actors.broker.led import LedPartitions
from actors.runtime.log_levels import THIS_PROCESS, LogLevels
from actors.settings import BrokerConfig
from actors.wire.framing import RequestHeader, encode_large_response
from actors.wire.messages import ApiMessage
from placement.metadata import Endpoint


class Clients(Protocol):
    """The clients that are connected."""

    listening: tuple[Endpoint, ...]
    """The endpoints at which the broker listens, once it does."""

    def response_bytes_waiting(self) -> int:
        """Bytes of answers that clients have not read yet, counted a moment ago."""


class Certificates(Protocol):
    """The certificates of the broker's listeners."""

    def try_out(self, config: BrokerConfig, done: Callable[[str | None], None]) -> None:
        """`done` is called with why the files that these settings name cannot be used, or with None."""

    def read_again(self) -> None:
        """Take over what has changed in the files that the settings name."""


class _NoCertificates:
    def try_out(self, config: BrokerConfig, done: Callable[[str | None], None]) -> None:
        done(None)

    def read_again(self) -> None: ...


NO_CERTIFICATES: Final[Certificates] = _NoCertificates()


def _uncounted(api_key: int, response: ApiMessage) -> None: ...


@dataclass(slots=True)
class Request:
    """One request being handled. `slot` is None for a produce with acks=0, which nobody answers."""

    header: RequestHeader
    message: Any
    connection: Connection
    slot: Slot | None
    answered: Callable[[int, ApiMessage], None] = _uncounted
    """Told of an answer that comes later."""

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def is_moot(self) -> bool:
        """True if the client has gone, so that an answer need not be made."""
        return self.connection.transport is None

    def reply(self, response: ApiMessage) -> None:
        """Answer a parked request. Nothing is sent if its connection has gone."""
        if self.slot is not None and self.slot.answer is None:
            self.answered(self.header.api_key, response)
            self.slot.finish(encode_large_response(response, self.header.api_version, self.header.correlation_id))
            self.connection.flush()

    def reply_frame(self, frame: bytes, refusals: ApiMessage | None = None) -> None:
        """Answer a parked request with the whole frame of an answer. `refusals` has the errors in it, if any."""
        if self.slot is not None and self.slot.answer is None:
            if refusals is not None:
                self.answered(self.header.api_key, refusals)
            self.slot.finish(frame)
            self.connection.flush()


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """The parts of a broker that handlers use. Their helpers take only the part they need."""

    broker: BrokerContext
    led: LedPartitions
    replication: Replication
    coordinators: Coordinators
    clients: Clients
    producer_ids: ProducerIds
    internal_topics: InternalTopics
    auto_creation: AutoCreation
    idle_settings: IdleSettings
    guests: Guests
    advertised: Mapping[int, tuple[int, int]]
    """First and last version of each API that ApiVersions names, by API key."""
    certificates: Certificates = NO_CERTIFICATES
    log_levels: LogLevels = THIS_PROCESS
