"""TLS contexts: what a server's and a client's end may negotiate, and how either proves who it is and checks the other.

Only Python's ssl is needed here; certificates.py reads a server's stores.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from actors import OutsideError

CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
SUITES_OF_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""Those of TLS 1.3 that the library has switched on. Python 3.11 cannot choose among them."""
_LEAST_BITS: Final = 112
_SIGNED: Final = ("auth-rsa", "auth-ecdsa")


class TlsError(OutsideError, ValueError):
    """TLS cannot be set up as it is wanted. The text is one line, and names the settings."""


class Password(Protocol):
    """A secret text, which is taken out where it is needed (actors.settings.secret)."""

    def reveal(self) -> str: ...


class Keys(Protocol):
    """A certificate chain and its key in one PEM text, as certificates.KeyStore has them."""

    @property
    def pem(self) -> bytes: ...
    @property
    def password(self) -> Password | None: ...


class Trusted(Protocol):
    """Certificates in PEM, as certificates.TrustStore has them."""

    @property
    def pem(self) -> str: ...


# --- what may be negotiated ---


@dataclass(frozen=True, slots=True)
class Negotiation:
    """The versions and cipher suites an end takes. `suites` are those of TLS 1.2; empty: the library's choice."""

    lowest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    highest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    suites: tuple[str, ...] = ()

    @classmethod
    def of(cls, get: Callable[[str], Any]) -> Negotiation:
        """From `ssl.enabled.protocols`, `ssl.protocol` and `ssl.cipher.suites`. Raises TlsError."""
        versions = _versions(get("ssl.enabled.protocols"), get("ssl.protocol"))
        return cls._limited(versions, get("ssl.cipher.suites") or ())

    @classmethod
    def _limited(cls, versions: Iterable[ssl.TLSVersion], suites: Iterable[str]) -> Negotiation:
        key = "ssl.cipher.suites"
        wanted, left = list(dict.fromkeys(map(openssl_name, suites))), sorted(versions)
        of_1_3 = [name for name in wanted if name in SUITES_OF_1_3]
        older = tuple(name for name in wanted if name not in SUITES_OF_1_3)
        for name in older:
            if name not in _suites(name):
                raise TlsError(f"{key}: {name} is no cipher suite that this machine's TLS library offers")
        if wanted and not older:
            left = [version for version in left if version is not ssl.TLSVersion.TLSv1_2]
        if wanted and not of_1_3 and left == [ssl.TLSVersion.TLSv1_3]:
            left = []
        if not left:
            raise TlsError(f"{key} leaves no cipher suite for the protocols that are enabled")
        if wanted and ssl.TLSVersion.TLSv1_3 in left and len(of_1_3) < len(SUITES_OF_1_3):
            missing = ", ".join(name for name in SUITES_OF_1_3 if name not in of_1_3)
            raise TlsError(
                f"{key} leaves out {missing}, and single suites of TLS 1.3 cannot be switched off: name all three, "
                "or TLSv1.2 as the only protocol"
            )
        return cls(left[0], left[-1], older)

    def apply(self, context: ssl.SSLContext) -> None:
        """Have a context negotiate so."""
        context.minimum_version, context.maximum_version = self.lowest, self.highest
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        if self.suites:
            context.set_ciphers(":".join(self.suites))


def _versions(enabled: tuple[str, ...], highest: str) -> list[ssl.TLSVersion]:
    for name, key in [*((each, "ssl.enabled.protocols") for each in enabled), (highest, "ssl.protocol")]:
        if name not in VERSIONS:
            raise TlsError(f"{key}: {name} is not one of {', '.join(VERSIONS)}")
    found = [VERSIONS[name] for name in enabled if VERSIONS[name] <= VERSIONS[highest]]
    if not found:
        raise TlsError(f"ssl.enabled.protocols={','.join(enabled)} and ssl.protocol={highest} leave no version")
    return found


def openssl_name(name: str) -> str:
    """OpenSSL's name of a cipher suite, for IANA's (`TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`) or OpenSSL's own."""
    exchange, found, cipher = name.removeprefix("TLS_").partition("_WITH_")
    if not found or not name.startswith("TLS_"):
        return name  # OpenSSL's, or one of TLS 1.3, where both say the same
    exchange = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    cipher = (
        cipher.replace("AES_", "AES")
        .replace("_CBC", "")
        .replace("CCM_8", "CCM8")
        .replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305")
    )
    return exchange + cipher.replace("_", "-")


def _suites(name: str) -> list[str]:
    """The suites that OpenSSL takes a name for, if they are any good; the name itself, if it is that of one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.set_ciphers(name)
    except ssl.SSLError:
        return []
    offered: list[Any] = context.get_ciphers()  # typeshed knows fewer keys
    return [each["name"] for each in offered if each["strength_bits"] >= _LEAST_BITS and each["auth"] in _SIGNED]


# --- contexts ---


def server_context(
    negotiation: Negotiation, keys: Keys, trusted: Trusted | None, client_auth: str = "none"
) -> ssl.SSLContext:
    """The context of connections from now on; it is never changed. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    negotiation.apply(context)
    load_keys(context, keys)
    if client_auth != "none":
        if trusted is None:
            raise TlsError(
                f"ssl.client.auth={client_auth} needs the certificates of those who are trusted: "
                "ssl.truststore.location or ssl.truststore.certificates"
            )
        _trust(context, trusted.pem)
    context.verify_mode = CLIENT_AUTH[client_auth]
    return context


def _trust(context: ssl.SSLContext, pem: str) -> None:
    context.load_verify_locations(cadata=pem)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # whatever is in the store is trusted, as in Java


def load_keys(context: ssl.SSLContext, keys: Keys) -> None:
    """Have a context show a certificate. Raises TlsError.

    By way of a file without a name, in memory: the library takes nothing but paths.
    """
    file = os.memfd_create("keys")
    try:
        with open(file, "wb", closefd=False) as out:
            out.write(keys.pem)
        context.load_cert_chain(f"/proc/self/fd/{file}", password=_password(keys.password))
    except ssl.SSLError as error:
        why = getattr(error, "reason", None) or error.args[-1]
        raise TlsError(f"the certificate chain and its key cannot be used: {why}") from None
    finally:
        os.close(file)


def _password(password: Password | None) -> Callable[[], bytes]:
    """A password in any case: without one the library would ask at the terminal."""
    return lambda: password.reveal().encode() if password else b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """A client's settings of TLS. Without cafile and cadata the system's authorities are trusted.

    `cadata`, `certdata` are PEM texts, `keydata` one that is secret; they stand for the file of the same meaning.
    `ciphers` are OpenSSL's cipher list, as in kafka-python, or IANA's names; it is about TLS 1.2 only.
    """

    cafile: str | None = None
    cadata: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    certdata: str | None = None
    keydata: Password | None = None
    password: Password | None = None
    check_hostname: bool = True
    crlfile: str | None = None
    ciphers: str | None = None


@dataclass(frozen=True, slots=True)
class _PemKeys:
    pem: bytes
    password: Password | None


def client_context(settings: ClientTls) -> ssl.SSLContext:
    """The context of a client's connections. Files are read now. Raises TlsError, which names the setting.

    Hand `wrap_bio` or `create_connection` the name that was dialled as `server_hostname`; an IP address will do. It is
    looked for in the certificate's alternative names; the common name is not consulted.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    Negotiation().apply(context)
    if settings.ciphers:
        _choose(context, settings.ciphers)
    context.check_hostname = settings.check_hostname
    context.hostname_checks_common_name = False
    _load_authorities(context, settings)
    if settings.crlfile:
        _loading("ssl_crlfile", settings.crlfile, lambda: context.load_verify_locations(cafile=settings.crlfile))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    _load_client_keys(context, settings)
    return context


def _choose(context: ssl.SSLContext, ciphers: str) -> None:
    names = [openssl_name(name.strip()) for name in ciphers.replace(",", ":").split(":") if name.strip()]
    older = [name for name in names if name not in SUITES_OF_1_3]
    if older:
        _loading("ssl_ciphers", ciphers, lambda: context.set_ciphers(":".join(older)))
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3


def _load_authorities(context: ssl.SSLContext, settings: ClientTls) -> None:
    if settings.cafile:
        _loading("ssl_cafile", settings.cafile, lambda: context.load_verify_locations(cafile=settings.cafile))
    if settings.cadata:
        _loading("ssl_cadata", "", lambda: context.load_verify_locations(cadata=settings.cadata))
    if not settings.cafile and not settings.cadata:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _load_client_keys(context: ssl.SSLContext, settings: ClientTls) -> None:
    password = _password(settings.password)
    if settings.certfile:
        name = " and ".join(filter(None, (settings.certfile, settings.keyfile)))
        _loading(
            "ssl_certfile",
            name,
            lambda: context.load_cert_chain(settings.certfile or "", settings.keyfile, password),
            "it must be a certificate and its own key in PEM, and ssl_password must open the key if it is encrypted",
        )
    elif settings.certdata and settings.keydata:
        pem = f"{settings.certdata}\n{settings.keydata.reveal()}\n".encode()
        load_keys(context, _PemKeys(pem, settings.password))
    elif settings.keyfile or settings.keydata or settings.certdata:
        raise TlsError("a client's key needs its certificate, and the certificate its key: ssl_certfile, ssl_keyfile")


def _loading(setting: str, name: str, load: Callable[[], None], hint: str = "") -> None:
    given = f"{setting}={name}" if name else setting
    try:
        load()
    except ssl.SSLError as error:  # some of them have no reason, and that of a wrong password says nothing
        why = hint or getattr(error, "reason", None) or error.args[-1]
        raise TlsError(f"{given} cannot be used: {why}") from None
    except (OSError, ValueError) as error:
        raise TlsError(f"{given} cannot be read: {getattr(error, 'strerror', None) or error}") from None
