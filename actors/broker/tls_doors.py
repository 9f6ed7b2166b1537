"""Listeners with TLS: what is put between a client's socket and its Connection, and who the client is."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from actors.broker.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.spec import Door, StartError
from actors.broker.strangers import FailureLog, Strangers
from actors.broker.tls_transport import TlsTransport
from actors.security.principals import PrincipalError

if TYPE_CHECKING:
    from actors.broker.certificates import ListenerTls


class TlsDoor:
    """One listener. Its connections are strangers until their handshake is done, or, with SASL, until they log in."""

    def __init__(self, door: Door, broker: BrokerContext, strangers: Strangers, failures: FailureLog) -> None:
        """Raises StartError if there is no certificate that can be used."""
        self.tls = _tls_of(door, broker)
        self._listener = door.listener
        self._sasl = door.protocol.sasl
        self._strangers = strangers
        self._failures = failures

    def protocol_of(self, connection: Connection) -> TlsTransport:
        """What a socket that was just accepted talks to."""
        return TlsTransport(self.tls.context, connection, self)

    # --- what the transports tell ---

    def secured(self, transport: TlsTransport) -> bool:
        """The handshake is done."""
        if self._sasl:  # it has yet to log in, and is whoever it logs in as
            return True
        connection = cast(Connection, transport.app)
        try:
            connection.principal = self.tls.rules.principal_of(transport.certificate)
        except PrincipalError as error:
            self._failures.note(connection.peer, self._listener, str(error))
            return False
        self._strangers.remove(connection)
        return True

    def failed(self, transport: TlsTransport, why: str) -> None:
        """The handshake has failed."""
        connection = cast(Connection, transport.app)
        self._failures.note(connection.peer, self._listener, f"TLS handshake failed: {why}")


def _tls_of(door: Door, broker: BrokerContext) -> ListenerTls:
    try:
        from actors.broker.certificates import ListenerTls  # only brokers with TLS need what it imports
    except ImportError as error:
        text = f"listener {door.listener} needs a package that is not installed ({error}): pip install 'coterie[tls]'"
        raise StartError(text) from error
    return ListenerTls(door.listener, door.protocol, lambda: broker.config.for_listener(door.listener), broker.now_ms)
