"""The making of a client's connections: plain or in TLS, and with or without a login."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final, TypeVar

from actors.client.errors import KafkaConnectionError
from actors.client.net.login import Login, Speaks
from actors.client.net.security import NO_SECURITY, Security, Tls
from actors.client.net.tls import TlsTransport, explained, needs_certificate
from actors.runtime.environment import REAL, Chance

log = logging.getLogger(__name__)
P = TypeVar("P", bound=asyncio.BufferedProtocol)

_LOOK_S: Final = 5.0


class Access:
    """Made with a client: what is wrong with its files and its password is known at once, as ConfigurationError."""

    def __init__(self, security: Security, chance: Chance) -> None:
        self._chance = chance
        self.login: Login | NoLogin = NoLogin() if security.sasl is None else Login(security.sasl, chance)
        self._sockets: _Plain | _Encrypted = _Plain() if security.tls is None else _Encrypted(_Contexts(security.tls))
        self.has_tls = security.tls is not None
        """True if connections are encrypted."""
        self.logs_in = security.sasl is not None
        """True if the client proves who it is, beyond a certificate."""
        if security.sasl is not None:
            security.sasl.check()

    def renew_after_ms(self, lifetime_ms: int) -> float:
        """The wait until a new proof: 85 to 95 % of a session's lifetime, so that not all do it at once."""
        return lifetime_ms * self._chance.uniform(0.85, 0.95)

    async def connect(self, make: Callable[[], P], host: str, port: int) -> P:
        """Connect a protocol. Raises OSError, KafkaConnectionError, SslAuthenticationError."""
        return await self._sockets.connect(make, host, port)


class NoLogin:
    """The login of a client that does not log in."""

    async def log_in(self, broker: Speaks) -> int:
        """The session never ends."""
        return 0


class _Plain:
    """Sockets without TLS."""

    async def connect(self, make: Callable[[], P], host: str, port: int) -> P:
        _, protocol = await asyncio.get_running_loop().create_connection(make, host, port)
        return protocol


class _Encrypted:
    """Sockets with TLS."""

    def __init__(self, contexts: _Contexts) -> None:
        self._contexts = contexts

    async def connect(self, make: Callable[[], P], host: str, port: int) -> P:
        loop = asyncio.get_running_loop()
        context = await asyncio.to_thread(self._contexts.current)
        inner = make()
        _, pipe = await loop.create_connection(lambda: TlsTransport(context, host, inner), host, port)
        try:
            await pipe.ready
        except KafkaConnectionError as error:
            raise type(error)(f"cannot connect to {host}:{port}: {error}") from error
        except (ssl.SSLError, ValueError) as error:
            shown = await asyncio.to_thread(certificate_of, host, port) if needs_certificate(error) else None
            raise explained(error, host, shown) from error
        except BaseException:  # cancelled, too: the pipe would stay open
            pipe.abort()
            raise
        return inner


class _Contexts:
    """The TLS context, made anew when one of its files has been replaced.

    A file that cannot be read leaves the old one.
    """

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._context = tls.context()
        self._files = tls.files()
        if tls.made is None and not tls.settings.check_hostname:
            log.warning(
                "ssl_check_hostname=False: any broker with a certificate that is believed is taken for the right one"
            )

    def current(self) -> ssl.SSLContext:
        files = self._files
        try:
            files = self._tls.files()
            if files != self._files:
                self._context, self._files = self._tls.context(), files
        except (OSError, ValueError) as error:  # in the middle of being replaced, or wrong
            log.warning("the files of TLS are not read again, those from before stay in force: %s", error)
        return self._context


def certificate_of(host: str, port: int) -> bytes | None:
    """The certificate that a server shows, whoever it is; for an error's text, and nothing is sent to it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with contextlib.suppress(OSError, ValueError):
        with socket.create_connection((host, port), timeout=_LOOK_S) as plain:
            with context.wrap_socket(plain, server_hostname=host.rstrip(".")) as wrapped:
                return wrapped.getpeercert(binary_form=True)
    return None


OPEN_ACCESS: Final = Access(NO_SECURITY, REAL.chance)
"""Plain connections, and no login."""
