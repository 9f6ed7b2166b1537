"""The logins at a broker's listeners: a desk for each SASL listener, made of the settings."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from actors.broker.authenticating import Desk, Gate, Limits
from actors.broker.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.spec import StartError
from actors.broker.token_keys import KeySource
from actors.broker.tokens import Tokens, rules_of
from actors.broker.users import Passwords, StoredUsers
from actors.links.status import Logins
from actors.links.strangers import FailureLog, Strangers
from actors.runtime.private import read_own
from actors.security.authentication import Terms
from actors.security.oauth import OAUTHBEARER
from actors.security.plain import jaas_users, kept_of
from actors.security.scram import SALT_BYTES, ScramCredential
from actors.settings import Listener, ListenerConfig

_KEY_BYTES = 32


class Reception:
    """The SASL listeners of a broker. A broker without one has an empty reception."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._failures = FailureLog(context.loop.time)
        self._users = StoredUsers(context)
        self._passwords: Passwords | None = None
        self._desks = {
            listener.name: self._desk(listener) for listener in context.config.listeners if listener.protocol.sasl
        }

    async def open(self) -> None:
        """Have what logins need. Raises StartError."""
        for name, desk in self._desks.items():
            if desk.tokens is not None:
                _need_cryptography(name)
                await desk.tokens.source.open()

    def receive(self, connection: Connection) -> None:
        """A client has connected: on a SASL listener it has to log in first."""
        if (desk := self._desks.get(connection.listener)) is not None:
            connection.gate = Gate(connection, desk)

    def dismiss(self, connection: Connection) -> None:
        """A client has gone."""
        if isinstance(connection.gate, Gate):
            connection.gate.gone()

    def close_overdue(self) -> None:
        """Close the connections of clients that take too long to log in."""
        for desk in self._desks.values():
            desk.strangers.close_overdue()

    def figures(self) -> tuple[Logins, ...]:
        """The outcomes of clients' logins."""
        return tuple(Logins(listener, **desk.counts) for listener, desk in self._desks.items())

    def present(self, listener: str) -> tuple[int, int]:
        """The numbers of a listener's clients that have not logged in (TLS handshakes count), and that failed."""
        desk = self._desks.get(listener)
        if desk is None:
            return 0, 0
        before = sum(desk.failing.values())
        return len(desk.strangers) - len(desk.failing) + before, len(desk.failing)

    def close(self) -> None:
        """Verify no more passwords and tokens."""
        if self._passwords is not None:
            self._passwords.close()
        for desk in self._desks.values():
            if desk.tokens is not None:
                desk.tokens.close()

    def _desk(self, listener: Listener) -> Desk:
        context, config = self._context, self._context.config
        own = config.for_listener(listener.name)
        if self._passwords is None:
            self._passwords = Passwords(self._users, context.loop, context.environment.chance.randbytes(_KEY_BYTES))
        mechanisms = own.items_of("sasl.enabled.mechanisms")
        lifetimes = {each: own.for_mechanism(each).integer("connections.max.reauth.ms") for each in mechanisms}
        strangers = Strangers(
            listener.name,
            own.integer("coterie.unauthenticated.connections.max"),
            own.integer("coterie.connection.setup.timeout.ms") / 1000,
            context.loop.time,
            self._failures,
        )
        return Desk(
            listener.name,
            Terms(mechanisms, lifetimes),
            Limits(
                config.integer("sasl.server.max.receive.size"),
                config.integer("connection.failed.authentication.delay.ms") / 1000,
            ),
            self._users,
            self._passwords,
            strangers,
            self._failures,
            context.loop,
            context.environment.chance,
            self._users_of(own.text("coterie.plain.users.file")),
            tokens=self._tokens(listener.name, own.for_mechanism(OAUTHBEARER)) if OAUTHBEARER in mechanisms else None,
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


def _need_cryptography(listener: str) -> None:
    if find_spec("cryptography") is None:
        text = f"listener {listener} takes tokens, for which a package is not installed: pip install 'coterie[tls]'"
        raise StartError(text)
