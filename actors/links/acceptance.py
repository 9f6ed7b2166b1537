"""Accepts connections of other processes of the cluster: in TLS, without, or as the other end begins.

While a cluster changes from one to the other (`LinkSecurity`), some of its processes still connect as they did before.
The first byte tells: the handshake of TLS begins with 22, and a first message of ours, which is short, with 0.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast

from actors.links.connection import ControlProtocol
from actors.links.secret import Secrets
from actors.links.tls_transport import TlsTransport
from actors.security.tls import TlsError
from actors.settings import LinkSecurity, LinkStores

log = logging.getLogger(__name__)

_HANDSHAKE: Final = 22  # the type of the first record of TLS (RFC 8446, 5.1)


async def listen_for_links(
    accept: Callable[[], ControlProtocol],
    host: str,
    secrets: Callable[[], Secrets],
    security: Callable[[], LinkSecurity],
    stores: LinkStores,
) -> asyncio.Server:
    """Accept other processes of the cluster at a free port of `host`. Raises OSError, TlsError.

    A connection counts from accept on, before any handshake. `secrets` and `security` are asked when it comes, and hold
    for it. Without TLS, the other end speaks first.
    """

    def made() -> asyncio.BaseProtocol:
        if security() is LinkSecurity.TLS:
            return _behind_tls(accept(), secrets(), stores)
        return _EitherWay(accept(), secrets(), stores)

    if security().encrypts:
        check_stores(secrets(), stores)
    return await asyncio.get_running_loop().create_server(made, host, 0)


def check_stores(secrets: Secrets, stores: LinkStores) -> None:
    """Raise TlsError if a process cannot take connections in TLS with these."""
    from actors.links.encryption import link_tls  # certificates are not needed without

    link_tls(secrets, stores)


def _behind_tls(app: ControlProtocol, secrets: Secrets, stores: LinkStores) -> TlsTransport:
    from actors.links.encryption import link_tls

    return TlsTransport(link_tls(secrets, stores).server, app, _Handshakes())


class _Handshakes:
    """The observer of the handshakes of accepted connections."""

    def secured(self, transport: TlsTransport) -> bool:
        """The other end has a certificate of the cluster's. It has to prove itself all the same."""
        cast(ControlProtocol, transport.app).challenge()
        return True

    def failed(self, transport: TlsTransport, why: str) -> None:
        """The other end has none. Anybody can have this said, as often as they like."""
        log.debug("a handshake of TLS has failed: %s", why)


class _EitherWay(asyncio.Protocol):
    """An accepted connection of which nothing has been heard yet; then it is given to who speaks as the other end."""

    def __init__(self, app: ControlProtocol, secrets: Secrets, stores: LinkStores) -> None:
        self._app = app
        self._secrets = secrets
        self._stores = stores
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._app.arrived(transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        speaker = self._speaker(data[0])
        if speaker is None:
            self._transport.abort()
            return
        self._transport.set_protocol(speaker)
        speaker.connection_made(self._transport)
        speaker.data_received(data)

    def _speaker(self, first: int) -> ControlProtocol | TlsTransport | None:
        if first != _HANDSHAKE:
            return self._app
        try:
            return _behind_tls(self._app, self._secrets, self._stores)
        except ImportError as error:
            log.error("somebody connects in TLS, which needs a package that is not installed: %s", error)
        except TlsError as error:
            log.error("somebody connects in TLS: %s", error)
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._app.connection_lost(exc)
