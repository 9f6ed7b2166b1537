"""Admission to a broker's SASL listeners: what the logins at each of them go by, made of the settings."""

from __future__ import annotations

from pathlib import Path

from actors.broker.connections.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.entrance.authenticating import Gate, Limits, SaslListener
from actors.broker.entrance.token_keys import KeySource
from actors.broker.entrance.tokens import NoTokens, Tokens, rules_of
from actors.broker.entrance.users import Passwords, StoredUsers
from actors.broker.spec import StartError
from actors.links.status import Logins
from actors.links.unauthenticated import FailureLog, UnauthenticatedConnections
from actors.runtime.private import read_own
from actors.security.authentication import Terms
from actors.security.oauth import OAUTHBEARER
from actors.security.plain import jaas_users, kept_of
from actors.security.scram import SALT_BYTES, ScramCredential
from actors.settings import Listener, ListenerConfig

_KEY_BYTES = 32


class Admission:
    """The SASL listeners of a broker. There may be none: then every client is admitted at once."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self.failures = FailureLog(context.loop.time)
        """Of all logins at this broker."""
        self._users = StoredUsers(context)
        self._passwords = Passwords(self._users, context.loop, context.environment.chance.randbytes(_KEY_BYTES))
        self.listeners = {
            listener.name: self._opened(listener) for listener in context.config.listeners if listener.protocol.sasl
        }

    async def open(self) -> None:
        """Have what logins need. Raises StartError."""
        for listener in self.listeners.values():
            await listener.tokens.open(listener.name)

    def admit(self, connection: Connection) -> None:
        """A client has connected: on a SASL listener it has to log in first."""
        if (listener := self.listeners.get(connection.listener)) is not None:
            connection.gate = Gate(connection, listener)

    def forget(self, connection: Connection) -> None:
        """A client has gone."""
        if isinstance(connection.gate, Gate):
            connection.gate.gone()

    def close_overdue(self) -> None:
        """Close the connections of clients that take too long to log in."""
        for listener in self.listeners.values():
            listener.unauthenticated.close_overdue()

    def figures(self) -> tuple[Logins, ...]:
        """The outcomes of clients' logins."""
        return tuple(Logins(name, **listener.counts) for name, listener in self.listeners.items())

    def present(self, name: str) -> tuple[int, int]:
        """The numbers of a listener's clients that have not logged in (TLS handshakes count), and that failed."""
        listener = self.listeners.get(name)
        if listener is None:
            return 0, 0
        before, failing = sum(listener.failing.values()), len(listener.failing)
        return len(listener.unauthenticated) - failing + before, failing

    def close(self) -> None:
        """Verify no more passwords and tokens."""
        self._passwords.close()
        for listener in self.listeners.values():
            listener.tokens.close()

    def _opened(self, listener: Listener) -> SaslListener:
        context, config = self._context, self._context.config
        own = config.for_listener(listener.name)
        mechanisms = own.items_of("sasl.enabled.mechanisms")
        lifetimes = {each: own.for_mechanism(each).integer("connections.max.reauth.ms") for each in mechanisms}
        unauthenticated = UnauthenticatedConnections(
            listener.name,
            own.integer("coterie.unauthenticated.connections.max"),
            own.integer("coterie.connection.setup.timeout.ms") / 1000,
            context.loop.time,
            self.failures,
        )
        return SaslListener(
            listener.name,
            Terms(mechanisms, lifetimes),
            Limits(
                config.integer("sasl.server.max.receive.size"),
                config.integer("connection.failed.authentication.delay.ms") / 1000,
            ),
            self._users,
            self._passwords,
            unauthenticated,
            self.failures,
            context.loop,
            context.environment.chance,
            self._users_of(own.text("coterie.plain.users.file")),
            self._tokens(listener.name, own.for_mechanism(OAUTHBEARER)) if OAUTHBEARER in mechanisms else NoTokens(),
        )

    def _tokens(self, listener: str, own: ListenerConfig) -> Tokens:
        return Tokens(rules_of(own), KeySource.of(listener, own, self._context.loop), self._context.now_ms)

    def _users_of(self, file: str | None) -> dict[str, ScramCredential]:
        """The users of PLAIN in a file, with what is kept of their passwords. Raises StartError."""
        if file is None:
            return {}
        try:
            passwords = jaas_users(read_own(Path(file)))
        except (OSError, ValueError) as error:
            raise StartError(f"coterie.plain.users.file={file} cannot be used: {error}") from None
        salt = self._context.environment.chance.randbytes
        return {name: kept_of(password, salt(SALT_BYTES)) for name, password in passwords.items() if password}
