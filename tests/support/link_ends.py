"""Ends of connections between a cluster's processes, in TLS, without the processes."""

from __future__ import annotations

import asyncio

from actors.links.acceptance import listen_for_links
from actors.links.connection import ControlProtocol, Message
from actors.links.proof import Role
from actors.links.secret import Secrets
from actors.runtime.environment import REAL
from actors.settings import LinkSecurity
from tests.support.runtime_helpers import SECRET


class End:
    """One end of a link, and what it heard."""

    def __init__(self, role: Role, secret: Secrets = SECRET) -> None:
        self.secrets = secret
        self.heard: list[Message] = []
        self.ready, self.lost = asyncio.Event(), asyncio.Event()
        self.protocol = ControlProtocol(
            role,
            secret,
            REAL.chance,
            lambda _: self.ready.set(),
            lambda _, message: self.heard.append(message),
            lambda _: self.lost.set(),
        )


async def accepting(
    end: End, secret: Secrets = SECRET, security: LinkSecurity = LinkSecurity.TLS
) -> tuple[asyncio.Server, int]:
    server = await listen_for_links(lambda: end.protocol, "127.0.0.1", lambda: secret, lambda: security)
    return server, server.sockets[0].getsockname()[1]
