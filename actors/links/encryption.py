"""TLS between the processes of a cluster: either end proves in the handshake that it knows the cluster's secret.

Each process has a throw-away certificate of the authority that follows from the secret (`security/authority`), and
takes none but those. So nobody in between can read, or add to, what is said after the proofs (`proof`), which are
exchanged within. The operator may give the processes certificates of his own instead; the proofs are exchanged all the
same, and then it is the authority that keeps others out of the middle, and the address that is looked for.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from actors.links.secret import Secrets
from actors.security.authority import LINKS, POOL, Authority, trusting
from actors.security.certificates import KeyStore, TrustStore
from actors.security.tls import ClientTls, Negotiation, TlsError, client_context, load_keys, server_context
from actors.settings import LinkStores

HANDSHAKE_SECONDS: Final = 5.0
"""The time limit for the handshake of a connection between processes."""


@dataclass(frozen=True, slots=True)
class LinkTls:
    """The contexts of one process: for connections that it accepts, and for those that it makes."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def link_tls(secrets: Secrets, stores: LinkStores) -> LinkTls:
    """The contexts for these secrets, or these files, for the life of this process. Raises TlsError."""
    if stores.keys is None or stores.trusted is None:
        return _made(secrets)
    return _given(stores.keys, stores.trusted)


@lru_cache(maxsize=4)
def _made(secrets: Secrets) -> LinkTls:
    return _tls_of(*(Authority(secret, LINKS) for secret in secrets.known))


@lru_cache(maxsize=2)
def _given(keys: str, authorities: str) -> LinkTls:
    try:
        own = KeyStore((), Path(keys).read_bytes(), None)
        trusted = TrustStore(Path(authorities).read_text())
        return _contexts(own, trusted, ClientTls(cadata=trusted.pem))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise TlsError(f"the certificates of links, {keys} and {authorities}, cannot be used: {why}") from None


def pool_tls(secret: bytes) -> LinkTls:
    """The contexts of a pool and one of its members, who know this secret alone."""
    return _tls_of(Authority(secret, POOL))


def _tls_of(own_authority: Authority, *others: Authority) -> LinkTls:
    trusted = trusting(own_authority, *others)
    # A process has no name; it proves that it is one of the cluster's.
    return _contexts(own_authority.issue("process"), trusted, ClientTls(cadata=trusted.pem, check_hostname=False))


def _contexts(own: KeyStore, trusted: TrustStore, looks: ClientTls) -> LinkTls:
    client = client_context(looks)
    load_keys(client, own)
    return LinkTls(server_context(Negotiation(ssl.TLSVersion.TLSv1_3), own, trusted, "required"), client)
