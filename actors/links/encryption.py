"""TLS between the processes of a cluster: either end proves in the handshake that it knows the cluster's secret.

Each process has a throw-away certificate of the authority that follows from the secret (`security/authority`), and
takes none but those. So nobody in between can read, or add to, what is said after the proofs (`proof`), which are
exchanged within.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from actors.links.secret import Secrets
from actors.security.authority import LINKS, POOL, Authority, trusting
from actors.security.tls import ClientTls, Negotiation, client_context, load_keys, server_context

HANDSHAKE_SECONDS: Final = 5.0
"""How long the handshake of a connection between processes may take."""


@dataclass(frozen=True, slots=True)
class LinkTls:
    """The contexts of one process: for connections that it accepts, and for those that it makes."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@lru_cache(maxsize=4)
def link_tls(secrets: Secrets) -> LinkTls:
    """The contexts for these secrets, with one certificate for the life of this process."""
    return _tls_of(*(Authority(secret, LINKS) for secret in secrets.known))


def pool_tls(secret: bytes) -> LinkTls:
    """The contexts of a pool and one of its members, who know this secret alone."""
    return _tls_of(Authority(secret, POOL))


def _tls_of(own_authority: Authority, *others: Authority) -> LinkTls:
    own = own_authority.issue("process")
    trusted = trusting(own_authority, *others)
    # A process has no name; it proves that it is one of the cluster's.
    client = client_context(ClientTls(cadata=trusted.pem, check_hostname=False))
    load_keys(client, own)
    return LinkTls(server_context(Negotiation(ssl.TLSVersion.TLSv1_3), own, trusted, "required"), client)
