"""Certificates for one test, and handshakes between two ends in memory."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from actors.settings.secret import Secret

PEM = "PEM"
NOW_MS = int(datetime.now(UTC).timestamp() * 1000)
DAY_MS = 86_400_000

DEFAULTS: dict[str, Any] = {
    "ssl.keystore.type": PEM,
    "ssl.truststore.type": PEM,
    "ssl.enabled.protocols": ("TLSv1.2", "TLSv1.3"),
    "ssl.protocol": "TLSv1.3",
}


def settings(**given: Any) -> Callable[[str], Any]:
    """Settings by name, as a listener has them; `ssl_keystore_location="f"` sets one."""
    values = DEFAULTS | {name.replace("_", "."): value for name, value in given.items()}
    return values.get


def no_file(path: str) -> bytes:
    raise FileNotFoundError(2, "No such file or directory", path)


def chain_of(certificate: trustme.LeafCert) -> str:
    return "".join(blob.bytes().decode() for blob in certificate.cert_chain_pems)


def key_of(
    certificate: trustme.LeafCert, password: str | None = None, form: PrivateFormat = PrivateFormat.PKCS8
) -> str:
    """The private key in PEM, encrypted if there is a password."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, form, encryption).decode()


def texts(certificate: trustme.LeafCert, password: str | None = None) -> dict[str, Any]:
    """A key store as text, for `settings`."""
    return {
        "ssl_keystore_certificate_chain": Secret(chain_of(certificate)),
        "ssl_keystore_key": Secret(key_of(certificate, password)),
        "ssl_key_password": Secret(password) if password else None,
    }


def authority_of(ca: trustme.CA) -> str:
    return ca.cert_pem.bytes().decode()


class Ends:
    """A server's and a client's end of TLS, with the bytes in between at hand."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, name: str | None = "localhost") -> None:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = server.wrap_bio(to_server, to_client, server_side=True)
        self.client = client.wrap_bio(to_client, to_server, server_hostname=name)

    def shake(self) -> Ends:
        """Complete the handshake, and one byte in each direction. Raises SSLError."""
        for step in (self.client.do_handshake, self.server.do_handshake) * 2:
            try:
                step()
            except ssl.SSLWantReadError:
                continue
        self.server.write(b"s")
        assert self.client.read() == b"s"
        self.client.write(b"c")
        assert self.server.read() == b"c"
        return self
