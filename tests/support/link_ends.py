"""Ends of connections between a cluster's processes, in TLS, without the processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import trustme

from actors.links import versions
from actors.links.acceptance import listen_for_links
from actors.links.connection import ControlProtocol, Message
from actors.links.proof import Role
from actors.links.secret import Secrets
from actors.links.versions import Spoken
from actors.runtime.environment import REAL
from actors.settings import OWN_STORE, OWN_TRUST, LinkSecurity, LinkStores
from tests.support.certificates import authority_of, chain_of, key_of
from tests.support.runtime_helpers import SECRET

OWN = LinkStores()


def link_stores(folder: Path, authority: trustme.CA, *hosts: str) -> LinkStores:
    """Files of a node: the operator's certificate for these addresses, and whom it trusts."""
    leaf = authority.issue_cert(*hosts)
    keys, trusted = folder / f"{'-'.join(hosts)}.pem", folder / "trusted.pem"
    keys.write_text(key_of(leaf) + chain_of(leaf))
    trusted.write_text(authority_of(authority))
    return LinkStores(str(keys), str(trusted))


def of_files(stores: LinkStores) -> dict[str, str]:
    """The settings that name these files, if there are any."""
    given = {OWN_STORE: stores.keys, OWN_TRUST: stores.trusted}
    return {name.replace(".", "_"): path for name, path in given.items() if path is not None}


class End:
    """One end of a link, and what it heard."""

    def __init__(self, role: Role, secret: Secrets = SECRET, spoken: Spoken = versions.OWN) -> None:
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
            spoken=spoken,
        )


async def accepting(
    end: End, secret: Secrets = SECRET, security: LinkSecurity = LinkSecurity.TLS, tls: LinkStores = OWN
) -> tuple[asyncio.Server, int]:
    server = await listen_for_links(lambda: end.protocol, "127.0.0.1", lambda: secret, lambda: security, tls)
    return server, server.sockets[0].getsockname()[1]
