"""A server's stores in PEM: its certificates with their key, and the certificates it trusts. Read and checked here.

Files are read by a function that is handed in. An error is a StoreError, whose text names the settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from actors import OutsideError
from actors.security.principals import subject_of
from actors.security.tls import Password

Read: TypeAlias = Callable[[str], bytes]
"""The bytes of a file. Raises OSError."""
Get: TypeAlias = Callable[[str], Any]
"""The value of a setting."""

EXPIRES_SOON_DAYS: Final = 30
_FORMS: Final = {
    "key": ("ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password"),
    "trust": ("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password"),
}
KEY_STORE: Final = ("ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key")
TRUST_STORE: Final = ("ssl.truststore.location", "ssl.truststore.certificates")
_NO_TEXT: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_HEADERS: Final = re.compile(r"\s*((?:[A-Za-z-]+:[^\n]*\n)+)")
_CERTIFICATE_LABELS: Final = ("CERTIFICATE", "X509 CERTIFICATE")
_DAY_S: Final = 86_400
_CONVERSIONS: Final = {
    "key": "openssl pkcs12 -in {file} -out {file}.pem",
    "trust": "keytool -list -rfc -keystore {file} > {file}.pem",
}
_JKS_FIRST: Final = "keytool -importkeystore -srckeystore {file} -destkeystore {file}.p12 -deststoretype PKCS12"


class StoreError(OutsideError, ValueError):
    """A key store or a trust store that cannot be used. The text is one line, and names the settings."""


class MismatchError(StoreError):
    """The key and the certificates do not belong together. If they are being replaced, they may soon."""


@dataclass(frozen=True, slots=True)
class KeyStore:
    """Certificates, the server's own first, and the key of the first."""

    chain: tuple[x509.Certificate, ...]
    pem: bytes = field(repr=False)
    """The certificates and the key as they were given."""
    password: Password | None

    @property
    def subject(self) -> str:
        """The subject of the first certificate."""
        return _subject(self.chain[0])

    @property
    def alternative_names(self) -> frozenset[str]:
        """The further names of the first certificate, such as the hosts it is for."""
        return _alternative_names(self.chain[0])

    def days_left(self, now_ms: int) -> float:
        """The number of days for which the first certificate is still valid."""
        return (self.chain[0].not_valid_after_utc.timestamp() - now_ms / 1000) / _DAY_S


@dataclass(frozen=True, slots=True)
class TrustStore:
    """Certificates of authorities, or of peers themselves."""

    pem: str


# --- stores from settings ---


def key_store(get: Get, read: Read, now_ms: int) -> KeyStore | None:
    """The key store that the settings name; None if they name none. Raises StoreError."""
    location, chain, key = (get(name) for name in KEY_STORE)
    password = get("ssl.key.password")
    _check_form("key", get, location, {KEY_STORE[1]: chain, KEY_STORE[2]: key})
    if location:
        chain_text = key_text = _read(read, KEY_STORE[0], location)
        names = (f"{KEY_STORE[0]}={location}",) * 2
    elif chain and key:
        chain_text, key_text, names = chain.reveal(), key.reveal(), KEY_STORE[1:]
    elif chain or key:
        one, other = KEY_STORE[1:] if chain else reversed(KEY_STORE[1:])
        raise StoreError(f"{one} is set without {other}")
    else:
        return None
    certificates = _certificates(chain_text, names[0])
    key_block = _key_block(key_text, names[1])
    _check_key(certificates, _private_key(key_block, password, names[1]), *names)
    _check_chain(certificates, names[0])
    _check_leaf(certificates[0], names[0], now_ms)
    pem = "".join((key_block, *_certificate_blocks(chain_text)))  # the checked blocks, and nothing else
    return KeyStore(certificates, pem.encode(), password)


def trust_store(get: Get, read: Read) -> TrustStore | None:
    """The trust store that the settings name; None if they name none. Raises StoreError."""
    location, certificates = (get(name) for name in TRUST_STORE)
    _check_form("trust", get, location, {TRUST_STORE[1]: certificates})
    if location:
        text, name = _read(read, TRUST_STORE[0], location), f"{TRUST_STORE[0]}={location}"
    elif certificates:
        text, name = certificates.reveal(), TRUST_STORE[1]
    else:
        return None
    found = _certificates(text, name)
    return TrustStore("".join(each.public_bytes(Encoding.PEM).decode() for each in found))


def _check_form(kind: str, get: Get, location: str | None, texts: dict[str, Password | None]) -> None:
    names = _FORMS[kind]
    form, given = get(names[0]), [name for name, text in texts.items() if text]
    if form.upper() != "PEM":
        if given:
            raise StoreError(f"{names[0]}={form} does not go with {given[0]}, which is PEM")
        raise StoreError(f"{names[0]}={form}: only PEM is read{_conversion(kind, form, location)}")
    if location and given:
        raise StoreError(f"{names[1]} and {given[0]} are both set: use one of them")
    if get(names[2]):
        hint = ": the password of an encrypted key is ssl.key.password" if kind == "key" else ""
        raise StoreError(f"{names[2]} does not go with {names[0]}=PEM, which has no password{hint}")


def _conversion(kind: str, form: str, location: str | None) -> str:
    if form.upper() not in ("JKS", "PKCS12"):
        return ""
    command = _CONVERSIONS[kind]
    if kind == "key" and form.upper() == "JKS":
        command = f"{_JKS_FIRST} && " + command.replace("{file}", "{file}.p12", 1)
    return ". To convert it: " + command.replace("{file}", location or "FILE")


def _read(read: Read, name: str, location: str) -> str:
    try:
        data = read(location)
    except OSError as error:
        raise StoreError(f"{name}={location} cannot be read: {error.strerror or error}") from None
    if _NO_TEXT.search(data):  # as in a file of records, of which one has PEM in it
        raise StoreError(f"{name}={location} is no PEM: it has other bytes than those of a text")
    return data.decode("utf-8", "replace")  # text before a header may be in any encoding


# --- PEM ---


def _blocks(text: str) -> Iterator[str]:
    """The parts of a PEM text in their plain form. In settings they may stand on one line."""
    for label, body in _BLOCK.findall(text):
        headers = match[1].strip() + "\n\n" if (match := _HEADERS.match(body)) else ""
        data = "".join((body[match.end() :] if match else body).split())
        lines = "\n".join(data[at : at + 64] for at in range(0, len(data), 64))
        yield f"-----BEGIN {label}-----\n{headers}{lines}\n-----END {label}-----\n"


def _label(block: str) -> str:
    return block[len("-----BEGIN ") : block.index("-----\n")]


def _certificate_blocks(text: str) -> list[str]:
    return [block for block in _blocks(text) if _label(block) in _CERTIFICATE_LABELS]


def _certificates(text: str, name: str) -> tuple[x509.Certificate, ...]:
    found = _certificate_blocks(text)
    if not found:
        raise StoreError(f"{name} has no certificate")
    try:
        return tuple(
            x509.load_pem_x509_certificate(block.replace("X509 CERTIFICATE", "CERTIFICATE").encode()) for block in found
        )
    except ValueError:
        raise StoreError(f"{name} has a certificate that cannot be read") from None


def _key_block(text: str, name: str) -> str:
    keys = [block for block in _blocks(text) if _label(block).endswith("PRIVATE KEY")]
    if len(keys) != 1:
        raise StoreError(f"{name} has {len(keys) or 'no'} private key{'s: there must be one' if keys else ''}")
    return keys[0]


def _private_key(block: str, password: Password | None, name: str) -> PrivateKeyTypes:
    encrypted = "ENCRYPTED" in block  # in the label or, in older forms, in a header
    if encrypted and not password:
        raise StoreError(f"{name} has an encrypted key, and ssl.key.password is not set")
    try:
        return load_pem_private_key(block.encode(), password.reveal().encode() if encrypted and password else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        why = "ssl.key.password does not open" if encrypted else "it cannot be read as"
        raise StoreError(f"{name}: {why} the private key") from None


# --- what a server's certificate must be ---


def _check_key(chain: tuple[x509.Certificate, ...], key: PrivateKeyTypes, chain_name: str, key_name: str) -> None:
    owners = [at for at, certificate in enumerate(chain) if _public(certificate) == _public(key)]
    if owners[:1] == [0]:
        return
    where = key_name if chain_name == key_name else f"{key_name} and {chain_name}"
    found = f": it is that of certificate {owners[0] + 1}, and the server's own must stand first" if owners else ""
    raise MismatchError(f"{where}: the key does not belong to the first certificate{found}")


def _public(of: x509.Certificate | PrivateKeyTypes) -> bytes:
    return of.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _check_chain(chain: tuple[x509.Certificate, ...], name: str) -> None:
    for at, (certificate, issuer) in enumerate(pairwise(chain), 1):
        try:
            certificate.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            text = f"{name}: certificate {at} ({_subject(certificate)}) was not issued by the next ({_subject(issuer)})"
            raise StoreError(text) from None


def _check_leaf(leaf: x509.Certificate, name: str, now_ms: int) -> None:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    if now > leaf.not_valid_after_utc:
        raise StoreError(f"{name}: the certificate of {_subject(leaf)} has expired on {_day(leaf.not_valid_after_utc)}")
    if now < leaf.not_valid_before_utc:
        text = f"{name}: the certificate of {_subject(leaf)} is not valid before {_day(leaf.not_valid_before_utc)}"
        raise StoreError(text)
    try:
        uses = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    except ValueError:
        raise StoreError(f"{name}: the certificate's extensions cannot be read") from None
    if not {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}.intersection(uses):
        raise StoreError(f"{name}: the certificate of {_subject(leaf)} is not for servers (its extended key usage)")


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _subject(certificate: x509.Certificate) -> str:
    return subject_of(certificate.public_bytes(Encoding.DER))


def _alternative_names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    return frozenset(repr(name) for name in names)
