"""TLS between the processes of a cluster: either end proves in the handshake that it knows the cluster's secret.

The secret gives a pair of keys, the same in every process: the cluster's authority. Each process makes a key that it
throws away at its end, and a certificate that the authority signs. Who can make such a certificate knows the secret,
and an end takes no other. So nobody in between can read, or add to, what is said after the proofs (`proof`), which are
exchanged within. Nothing of this is written to a disk.
"""

from __future__ import annotations

import hmac
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    derive_private_key,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from actors.security.certificates import KeyStore, TrustStore
from actors.security.tls import ClientTls, Negotiation, client_context, server_context
from actors.settings.secret import Secret

HANDSHAKE_SECONDS: Final = 5.0
"""How long the handshake of a connection between processes may take."""
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256
_AUTHORITY: Final = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Coterie cluster")])
_PROCESS: Final = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Coterie process")])
# Whatever the machines' clocks say: a certificate is as good as the secret, for as long as its process lives.
_FROM: Final = datetime(2000, 1, 1, tzinfo=UTC)
_UNTIL: Final = datetime(2200, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LinkTls:
    """The contexts of one process: for connections that it accepts, and for those that it makes."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@lru_cache(maxsize=2)
def link_tls(secret: bytes) -> LinkTls:
    """The contexts for this secret, with one certificate for the life of this process."""
    authority = derive_private_key(_derived(secret), SECP256R1())
    trusted = _certificate(_AUTHORITY, authority.public_key(), authority, is_authority=True)
    key = generate_private_key(SECP256R1())
    own = _certificate(_PROCESS, key.public_key(), authority, is_authority=False)
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    own_pem, trusted_pem = own.public_bytes(Encoding.PEM), trusted.public_bytes(Encoding.PEM).decode()
    store = KeyStore((own,), own_pem + key_pem, None)
    newest = Negotiation(ssl.TLSVersion.TLSv1_3)
    settings = ClientTls(
        cadata=trusted_pem,
        certdata=own_pem.decode(),
        keydata=Secret(key_pem.decode()),
        check_hostname=False,  # a process has no name, and proves that it is one of the cluster's
    )
    return LinkTls(server_context(newest, store, TrustStore(trusted_pem), "required"), client_context(settings))


def _derived(secret: bytes) -> int:
    """The authority's private key. 512 bits of digest make its deviation from even chance too small to matter."""
    return 1 + int.from_bytes(hmac.digest(secret, b"coterie link authority", "sha512"), "big") % (_ORDER - 1)


def _certificate(
    subject: x509.Name, key: EllipticCurvePublicKey, authority: EllipticCurvePrivateKey, *, is_authority: bool
) -> x509.Certificate:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(_AUTHORITY)
        .public_key(key)
        .serial_number(1 if is_authority else x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .sign(authority, SHA256())
    )
