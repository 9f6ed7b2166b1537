"""Certificates for tests: one authority, and what it has signed, as files in PEM form."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization


@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate with its chain, its key, and both in one file as Kafka has them; the key is in PKCS#8 form."""

    certificate: str
    key: str
    both: str


class Authority:
    """Signs certificates, whose files go to `folder`. `cafile` is what others trust it by."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = name
        self._ca = trustme.CA()
        self.cafile = str(folder / f"{name}.pem")
        self._ca.cert_pem.write_to_path(self.cafile)

    def sign(self, *names: str, common_name: str | None = None, until: datetime | None = None) -> Pem:
        """A certificate for these host names and addresses. `until`: when it expires, if not in a long time."""
        leaf = self._ca.issue_cert(*names, common_name=common_name, not_after=until)
        chain = b"".join(each.bytes() for each in leaf.cert_chain_pems)
        key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        stem = f"{self._name}-{(common_name or names[0]).replace('*', 'any').replace(':', '_')}"
        paths = [self._folder / f"{stem}{end}" for end in (".crt", ".key", ".pem")]
        for path, content in zip(paths, (chain, key, key + chain), strict=True):
            path.write_bytes(content)
            path.chmod(0o600)
        return Pem(*map(str, paths))

    def server(self, *names: str, until: datetime | None = None) -> ssl.SSLContext:
        """A server's context with a certificate for these names."""
        pem = self.sign(*names, until=until)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem.certificate, pem.key)
        return context
