"""Authorities that follow from a secret: the same in each process, and apart by purpose."""

from __future__ import annotations

import ssl

import pytest

from actors.security.authority import Authority
from actors.security.certificates import KeyStore, TrustStore
from actors.security.tls import ClientTls, Negotiation, client_context, server_context

SECRET = b"s" * 32
HOSTS = ("127.0.0.1", "localhost", "::1", "127.0.0.1")


def shakes_hands(keys: KeyStore, trusted: TrustStore, host: str) -> None:
    """A handshake in memory. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context(Negotiation(), keys, None).wrap_bio(to_server, to_client, server_side=True)
    client = client_context(ClientTls(cadata=trusted.pem)).wrap_bio(to_client, to_server, server_hostname=host)
    done = {server: False, client: False}
    while not all(done.values()):
        for end in done:
            try:
                end.do_handshake()
                done[end] = True
            except ssl.SSLWantReadError:
                continue


@pytest.mark.parametrize("host", HOSTS)
def test_another_process_with_the_secret_trusts_the_certificate_at_its_hosts(host: str) -> None:
    keys = Authority(SECRET, "clients").issue("broker-0", HOSTS)
    shakes_hands(keys, Authority(SECRET, "clients").trusted, host)


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        (Authority(b"t" * 32, "clients"), "localhost"),
        (Authority(SECRET, "links"), "localhost"),
        (Authority(SECRET, "clients"), "elsewhere"),
    ],
)
def test_nobody_trusts_it_elsewhere_nor_for_another_secret_or_purpose(authority: Authority, host: str) -> None:
    keys = Authority(SECRET, "clients").issue("broker-0", HOSTS)
    with pytest.raises(ssl.SSLCertVerificationError):
        shakes_hands(keys, authority.trusted, host)


def test_each_certificate_has_a_key_of_its_own() -> None:
    authority = Authority(SECRET, "clients")
    one, other = authority.issue("a"), authority.issue("a")
    assert one.chain[0].public_key() != other.chain[0].public_key()
    assert one.subject == "CN=a"
