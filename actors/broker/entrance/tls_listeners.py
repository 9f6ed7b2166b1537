"""Listeners with TLS: what is put between a client's socket and its Connection, who the client is, and reloads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from actors import OutsideError
from actors.broker.connections.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.spec import Door, StartError
from actors.links.secret import Secrets
from actors.links.status import TlsListener
from actors.links.tls_transport import TlsTransport
from actors.links.unauthenticated import FailureLog, UnauthenticatedConnections
from actors.security.acl import is_loopback
from actors.security.principals import PrincipalError
from actors.settings import ANY_HOST, BrokerConfig, ListenerConfig

if TYPE_CHECKING:
    from actors.broker.entrance.certificates import ListenerTls
    from actors.security.certificates import KeyStore

OWN_NAMES = "coterie.ssl.own.names"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

log = logging.getLogger(__name__)

_UNTOLD_SECONDS = 3600.0  # between looks at the clock, where files are looked at only when told


class TlsListeners:
    """The listeners of a broker that have TLS. There may be none."""

    def __init__(self, broker: BrokerContext, secrets: Callable[[], Secrets]) -> None:
        self._broker = broker
        self._secrets = secrets
        self._failures = FailureLog(broker.loop.time)
        self._listeners: dict[str, Handshakes] = {}  # by listener
        self._config = broker.config
        self._follower: asyncio.Task[None] | None = None
        self._trials: set[asyncio.Task[str | None]] = set()
        self._wanted = asyncio.Event()  # that files are looked at now

    def add(self, spec: Door) -> None:
        """A listener will be opened. Raises StartError if there is no certificate that can be used."""
        self._listeners[spec.listener] = Handshakes(spec, self._broker, self._secrets, self._failures)

    def protocol_of(self, connection: Connection) -> asyncio.BaseProtocol:
        """The protocol of a socket that was just accepted."""
        listener = self._listeners.get(connection.listener)
        return connection if listener is None else listener.protocol_of(connection)

    def accepted(self, connection: Connection) -> None:
        """A client was accepted, by whatever listener."""
        if (listener := self._listeners.get(connection.listener)) is not None:
            listener.accepted(connection)

    def gone(self, connection: Connection) -> None:
        """A client has gone."""
        if (listener := self._listeners.get(connection.listener)) is not None:
            listener.gone(connection)

    def close_overdue(self) -> None:
        """Close connections whose handshake takes too long."""
        for listener in self._listeners.values():
            listener.unauthenticated.close_overdue()

    def of(self, listener: str) -> ListenerTls:
        """The TLS of one listener."""
        return self._listeners[listener].tls

    def figures(self) -> tuple[TlsListener, ...]:
        """The figures of TLS, by listener."""
        return tuple(listener.figures() for listener in self._listeners.values())

    def under_way(self, listener: str) -> int:
        """The number of a listener's handshakes that are not done."""
        found = self._listeners.get(listener)
        return 0 if found is None else found.under_way

    # --- certificates (handlers.context.Certificates) ---

    def follow_files(self) -> None:
        """Take over certificates that change, from now on."""
        if self._listeners:
            self._follower = self._broker.loop.create_task(self._follow())

    def tick(self) -> None:
        """The settings may have changed: files of other names are in force then."""
        if self._broker.config is not self._config:
            self._config = self._broker.config
            if any(listener.tls.is_outdated for listener in self._listeners.values()):
                self._wanted.set()

    def read_again(self) -> None:
        """Take over what has changed in the files that the settings name."""
        self._wanted.set()

    def try_out(self, config: BrokerConfig, done: Callable[[str | None], None]) -> None:
        """`done` is called with why the files that these settings name cannot be used, or with None."""
        task = self._broker.loop.create_task(self._problem(config))
        task.add_done_callback(lambda task: done("the broker stops" if task.cancelled() else task.result()))
        self._trials.add(task)
        task.add_done_callback(self._trials.discard)

    async def _problem(self, config: BrokerConfig) -> str | None:
        for name, listener in self._listeners.items():
            given = config.for_listener(name)
            try:
                await self._broker.loop.run_in_executor(None, listener.tls.replacement, given)
            except OutsideError as error:
                return f"listener {name}: {error}"
            except Exception as error:  # a bug, or of the TLS library: whoever changes the settings waits
                log.exception("trying the certificates of listener %s", name)
                return f"listener {name}: {type(error).__name__}"
        return None

    async def _follow(self) -> None:
        seconds = self._broker.config.integer("coterie.certificates.check.ms") / 1000
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), seconds or _UNTOLD_SECONDS)
            look = bool(seconds) or self._wanted.is_set()
            self._wanted.clear()
            for listener in self._listeners.values():
                try:
                    if look:
                        await listener.tls.check()
                    listener.tls.warn_of_expiry()
                except Exception:  # one listener's trouble must not end it
                    log.exception("checking certificates")

    def close(self) -> None:
        """Follow no files any more."""
        for task in (self._follower, *self._trials):
            if task is not None:
                task.cancel()


class LookedAfterElsewhere:
    """No connections: those of a listener where others count them."""

    def add(self, connection: Connection) -> None: ...

    def remove(self, connection: Connection) -> None: ...

    def close_overdue(self) -> None: ...


class Handshakes:
    """The handshakes at one listener. Raises StartError if there is no certificate that can be used."""

    def __init__(self, spec: Door, broker: BrokerContext, secrets: Callable[[], Secrets], failures: FailureLog) -> None:
        self.tls = _tls_of(spec, broker, secrets)
        self._logs_in = spec.protocol.sasl
        self.unauthenticated = LookedAfterElsewhere() if self._logs_in else _unauthenticated_of(spec, broker, failures)
        """Those whose handshake is not done. With SASL it is not enough: `admission` has them until they log in."""
        self._listener = spec.listener
        self._failures = failures
        self._loop = broker.loop
        self._begun: dict[Connection, float] = {}  # times of accepted connections whose handshake is not done
        self._handshakes = 0
        self._failed = 0
        self._total = 0.0
        self._longest = 0.0

    def protocol_of(self, connection: Connection) -> TlsTransport:
        """The protocol of a socket that was just accepted."""
        return TlsTransport(self.tls.context, connection, self)

    def accepted(self, connection: Connection) -> None:
        """A client was accepted: the handshake begins."""
        self._begun[connection] = self._loop.time()
        self.unauthenticated.add(connection)

    def gone(self, connection: Connection) -> None:
        """A client has gone."""
        self._begun.pop(connection, None)
        self.unauthenticated.remove(connection)

    @property
    def under_way(self) -> int:
        """The number of handshakes that are not done."""
        return len(self._begun)

    def figures(self) -> TlsListener:
        """The figures of TLS at this listener."""
        return TlsListener(
            self._listener,
            round(self.tls.days_left, 1),
            self.tls.failure,
            self._handshakes,
            self._failed,
            self.under_way,
            round(self._total * 1000, 1),
            round(self._longest * 1000, 1),
        )

    # --- what the transports tell ---

    def secured(self, transport: TlsTransport) -> bool:
        """The handshake is done."""
        connection = cast(Connection, transport.app)
        now = self._loop.time()
        took = now - self._begun.pop(connection, now)
        self._handshakes += 1
        self._total += took
        self._longest = max(self._longest, took)
        if self._logs_in:  # it is whoever it logs in as
            return True
        try:
            connection.principal = self.tls.rules.principal_of(transport.certificate)
        except PrincipalError as error:
            self._failures.note(connection.peer, self._listener, str(error))
            return False
        self.unauthenticated.remove(connection)
        return True

    def failed(self, transport: TlsTransport, why: str) -> None:
        """The handshake has failed."""
        self._failed += 1
        connection = cast(Connection, transport.app)
        self._begun.pop(connection, None)
        self._failures.note(connection.peer, self._listener, f"TLS handshake failed: {why}")


def _tls_of(spec: Door, broker: BrokerContext, secrets: Callable[[], Secrets]) -> ListenerTls:
    try:
        from actors.broker.entrance.certificates import ListenerTls  # only brokers with TLS need what it imports
        from actors.security.authority import CLIENTS, Authority
    except ImportError as error:
        text = f"listener {spec.listener} needs a package that is not installed ({error}): pip install 'coterie[tls]'"
        raise StartError(text) from error

    def make_own() -> KeyStore:
        known = secrets()  # clients may not trust the newer authority yet
        authority = Authority(known.previous or known.current, CLIENTS)
        return authority.issue(f"broker-{broker.broker_id}", [*_hosts(spec), *given()[OWN_NAMES]])

    def given() -> ListenerConfig:
        return broker.config.for_listener(spec.listener)

    return ListenerTls(spec.listener, spec.protocol, given, broker.now_ms, make_own, broker.data_dir.path.parent)


def _hosts(spec: Door) -> list[str]:
    """The names and addresses that clients may have dialled."""
    anywhere = spec.host in ANY_HOST
    here = _LOOPBACK if anywhere or is_loopback(spec.host) else ()
    return [spec.advertised_host, *(() if anywhere else (spec.host,)), *here]


def _unauthenticated_of(spec: Door, broker: BrokerContext, failures: FailureLog) -> UnauthenticatedConnections:
    config = broker.config.for_listener(spec.listener)
    return UnauthenticatedConnections(
        spec.listener,
        config.integer("coterie.unauthenticated.connections.max"),
        config.integer("coterie.connection.setup.timeout.ms") / 1000,
        broker.loop.time,
        failures,
    )
