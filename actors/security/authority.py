"""The authorities of a cluster: key pairs that follow from its secret, and what they sign.

Every process that knows the secret has the same authorities without being told anything, and makes certificates of its
own, of keys that it throws away at its end. Nobody else can make one. Nothing of this is written to a disk but the
certificate of an authority, which clients trust.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePublicKey,
    derive_private_key,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from actors.security.certificates import KeyStore, TrustStore

LINKS: Final = "links"
CLIENTS: Final = "clients"
POOL: Final = "pool"
"""The purposes of authorities: connections between processes, those of clients to brokers, and a pool's to a member."""
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256
# Whatever the machines' clocks say: a certificate is as good as the secret, for as long as its process lives.
_FROM: Final = datetime(2000, 1, 1, tzinfo=UTC)
_UNTIL: Final = datetime(2200, 1, 1, tzinfo=UTC)


class Authority:
    """One authority. `purpose` keeps those of one secret apart: what one has signed is nothing to the others."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Coterie {purpose}")])
        # 512 bits of digest: their deviation from even chance is too small to matter.
        number = int.from_bytes(hmac.digest(secret, f"coterie authority: {purpose}".encode(), "sha512"), "big")
        self._key = derive_private_key(1 + number % (_ORDER - 1), SECP256R1())
        certificate = self._certificate(self._name, self._key.public_key(), (), is_authority=True)
        self.trusted = TrustStore(certificate.public_bytes(Encoding.PEM).decode())
        """The trust store of those that trust this authority."""

    def issue(self, name: str, hosts: Iterable[str] = ()) -> KeyStore:
        """A certificate for a process that is reached at these names and addresses, with a new key."""
        key = generate_private_key(SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._certificate(subject, key.public_key(), tuple(dict.fromkeys(hosts)), is_authority=False)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return KeyStore((certificate,), certificate.public_bytes(Encoding.PEM) + pem, None)

    def _certificate(
        self, subject: x509.Name, key: EllipticCurvePublicKey, hosts: tuple[str, ...], *, is_authority: bool
    ) -> x509.Certificate:
        path_length = 0 if is_authority else None
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(1 if is_authority else x509.random_serial_number())
            .not_valid_before(_FROM)
            .not_valid_after(_UNTIL)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=path_length), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if is_authority:
            made = made.add_extension(_SIGNS, critical=True)
        else:
            both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            made = made.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        if hosts:
            made = made.add_extension(x509.SubjectAlternativeName(map(_host, hosts)), critical=False)
        return made.sign(self._key, SHA256())


def trusting(*authorities: Authority) -> TrustStore:
    """The trust store of those that trust each of these authorities."""
    return TrustStore("".join(each.trusted.pem for each in authorities))


_SIGNS: Final = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
