"""TLS contexts, tried out between two ends in memory: SECURITY.md, XA-37 to XA-45, XA-49."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from actors.security.certificates import TrustStore, key_store
from actors.security.tls import (
    SUITES_OF_1_3,
    ClientTls,
    Negotiation,
    TlsError,
    client_context,
    openssl_name,
    server_context,
)
from actors.settings.secret import Secret
from tests.support.certificates import NOW_MS, Ends, authority_of, chain_of, key_of, no_file, settings, texts

CA = trustme.CA()
LEAF = CA.issue_cert("localhost", "127.0.0.1")
CLIENT = CA.issue_cert("client@example.com", common_name="client")
STRANGER = trustme.CA().issue_cert("client@example.com")
TRUSTED = TrustStore(authority_of(CA))
GCM = "ECDHE-ECDSA-AES128-GCM-SHA256"


def server(client_auth: str = "none", leaf: trustme.LeafCert = LEAF, **given: Any) -> ssl.SSLContext:
    keys = key_store(settings(**texts(leaf)), no_file, NOW_MS)
    assert keys is not None
    return server_context(Negotiation.of(settings(**given)), keys, TRUSTED, client_auth)


def client(own: trustme.LeafCert | None = None, **given: Any) -> ssl.SSLContext:
    given = {"cadata": authority_of(CA)} | given
    if own:
        given |= {"certdata": chain_of(own), "keydata": Secret(key_of(own))}
    return client_context(ClientTls(**given))


def only(version: ssl.TLSVersion, own: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = client(own)
    context.minimum_version = context.maximum_version = version
    return context


# --- client certificates ---


@pytest.mark.conformance("XA-37")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_whether_a_client_must_show_a_certificate(version: ssl.TLSVersion) -> None:
    now = datetime.fromtimestamp(NOW_MS / 1000, UTC)
    expired = CA.issue_cert("e@example.com", not_before=now - timedelta(days=3), not_after=now - timedelta(days=1))
    accepted = {
        "none": (None, CLIENT, STRANGER, expired),
        "requested": (None, CLIENT),
        "required": (CLIENT,),
    }
    for mode, good in accepted.items():
        context = server(mode)
        for own in (None, CLIENT, STRANGER, expired):
            ends = Ends(context, only(version, own))
            if own in good:
                seen = ends.shake().server.getpeercert(binary_form=True)
                assert (seen is not None) == (mode != "none" and own is not None)
            else:
                with pytest.raises(ssl.SSLError):
                    ends.shake()


def test_asking_for_certificates_needs_to_know_whom_to_trust() -> None:
    keys = key_store(settings(**texts(LEAF)), no_file, NOW_MS)
    assert keys is not None
    with pytest.raises(TlsError, match=r"ssl.client.auth=requested needs .* ssl.truststore.location"):
        server_context(Negotiation(), keys, None, "requested")


def test_what_is_in_a_trust_store_need_not_be_a_root() -> None:
    between = CA.create_child_ca()
    leaf = between.issue_cert("localhost")
    Ends(server(leaf=leaf), client(cadata=authority_of(between))).shake()


# --- versions and suites ---


@pytest.mark.conformance("XA-39")
def test_versions() -> None:
    agreed = {"TLSv1.2": ("TLSv1.2",), "TLSv1.3": ("TLSv1.3",)}
    for name, enabled in agreed.items():
        ends = Ends(server(ssl_enabled_protocols=enabled), client()).shake()
        assert ends.server.version() == name
    assert Ends(server(), client()).shake().server.version() == "TLSv1.3"
    assert Ends(server(ssl_protocol="TLSv1.2"), client()).shake().server.version() == "TLSv1.2"
    for given, words in (
        ({"ssl_enabled_protocols": ("TLSv1.1", "TLSv1.2")}, "ssl.enabled.protocols: TLSv1.1 is not one of"),
        ({"ssl_protocol": "TLS"}, "ssl.protocol: TLS is not one of TLSv1.2, TLSv1.3"),
        ({"ssl_enabled_protocols": ("TLSv1.3",), "ssl_protocol": "TLSv1.2"}, "leave no version"),
        ({"ssl_enabled_protocols": ()}, "leave no version"),
    ):
        with pytest.raises(TlsError, match=words):
            Negotiation.of(settings(**given))


@pytest.mark.conformance("XA-39")
def test_neither_compression_nor_renegotiation_and_the_servers_order_holds() -> None:
    context = server(ssl_enabled_protocols=("TLSv1.2",), ssl_cipher_suites=(GCM, "ECDHE-ECDSA-AES256-GCM-SHA384"))
    for option in (ssl.OP_NO_COMPRESSION, ssl.OP_NO_RENEGOTIATION, ssl.OP_CIPHER_SERVER_PREFERENCE):
        assert context.options & option
    ends = Ends(context, client(ciphers=f"ECDHE-ECDSA-AES256-GCM-SHA384:{GCM}")).shake()
    assert (ends.server.cipher() or [""])[0] == GCM


@pytest.mark.conformance("XA-40")
@pytest.mark.parametrize(
    ("iana", "openssl"),
    [  # as `openssl ciphers -stdname` prints them
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CCM", "ECDHE-ECDSA-AES256-CCM"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8", "ECDHE-ECDSA-AES128-CCM8"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
        ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
    ],
)
def test_both_spellings_of_a_suite(iana: str, openssl: str) -> None:
    assert openssl_name(iana) == openssl_name(openssl) == openssl


@pytest.mark.conformance("XA-40")
def test_lists_of_suites() -> None:
    def of(*suites: str, enabled: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")) -> Negotiation:
        return Negotiation.of(settings(ssl_cipher_suites=suites, ssl_enabled_protocols=enabled))

    v12, v13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    iana = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    assert of() == Negotiation(v12, v13, ())
    assert of(iana, *SUITES_OF_1_3) == of(GCM, *SUITES_OF_1_3) == Negotiation(v12, v13, (GCM,))
    assert (
        of(iana, enabled=("TLSv1.2",))
        == of(iana, SUITES_OF_1_3[0], enabled=("TLSv1.2",))
        == Negotiation(v12, v12, (GCM,))
    )
    assert of(*SUITES_OF_1_3) == Negotiation(v13, v13, ())
    for suites in ((GCM,), SUITES_OF_1_3[:1], (GCM, *SUITES_OF_1_3[:2])):
        with pytest.raises(TlsError, match=r"leaves out TLS_.* cannot be switched off"):
            of(*suites)
    for suites, enabled in (((GCM,), ("TLSv1.3",)), (SUITES_OF_1_3, ("TLSv1.2",))):
        with pytest.raises(TlsError, match="leaves no cipher suite"):
            of(*suites, enabled=enabled)
    for bad in ("NULL-SHA256", "ADH-AES128-SHA", "HIGH", "@SECLEVEL=0", "TLS_AES_128_CCM_SHA256", "no-such"):
        with pytest.raises(TlsError, match=rf"ssl.cipher.suites: {bad} is no cipher suite"):
            of(GCM, bad)


# --- keys ---


@pytest.mark.conformance("XA-44")
def test_nobody_is_ever_asked_for_a_password(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "both.pem"
    file.write_text(key_of(CLIENT, "right") + chain_of(CLIENT))
    for password in (None, Secret("wrong"), Secret("")):
        with pytest.raises(TlsError, match=r"ssl_certfile=.*both\.pem cannot be used: .* ssl_password must"):
            client(certfile=str(file), password=password)
    client(certfile=str(file), password=Secret("right"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.conformance("XA-45")
def test_a_key_that_is_text_is_in_no_file_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[str]()
    make = os.memfd_create
    monkeypatch.setattr(os, "memfd_create", lambda name: opened.append(name) or make(name))
    before = set(os.listdir("/proc/self/fd"))
    Ends(server(), client(CLIENT)).shake()
    assert len(opened) == 2
    assert set(os.listdir("/proc/self/fd")) <= before


@pytest.mark.conformance("XA-49")
def test_tickets_of_an_older_context_are_not_taken() -> None:
    context, theirs = server(), only(ssl.TLSVersion.TLSv1_2)

    def resumed(by: ssl.SSLContext, session: ssl.SSLSession | None) -> tuple[bool | None, ssl.SSLSession | None]:
        ends = Ends(by, theirs)
        if session:
            ends.client.session = session
        ends.shake()
        return ends.client.session_reused, ends.client.session

    _, session = resumed(context, None)
    assert resumed(context, session)[0]
    assert not resumed(server(), session)[0]


# --- a client's end ---


def test_the_name_that_was_dialled_is_looked_for() -> None:
    for name in ("localhost", "127.0.0.1"):
        Ends(server(), client(), name).shake()
    for name in ("elsewhere", "127.0.0.2"):
        with pytest.raises(ssl.SSLCertVerificationError):
            Ends(server(), client(), name).shake()
        Ends(server(), client(check_hostname=False), name).shake()


def test_the_common_name_is_not_consulted() -> None:
    leaf = CA.issue_cert("other.example", common_name="localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        Ends(server(leaf=leaf), client()).shake()


def test_an_authority_that_is_not_known_is_not_trusted(tmp_path: Path) -> None:
    other = tmp_path / "ca.pem"
    other.write_text(authority_of(trustme.CA()))
    for context in (client(cadata=None), client(cadata=None, cafile=str(other), check_hostname=False)):
        with pytest.raises(ssl.SSLCertVerificationError):
            Ends(server(), context).shake()


def test_a_client_takes_no_older_version() -> None:
    old = server()
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError):
        Ends(old, client()).shake()


def test_what_cannot_be_used_is_named_by_its_setting(tmp_path: Path) -> None:
    nothing, absent = tmp_path / "nothing.pem", str(tmp_path / "absent.pem")
    nothing.write_text("")
    for given, words in (
        ({"cafile": absent}, "ssl_cafile=.*absent.pem cannot be read: No such file"),
        ({"cafile": str(nothing)}, "ssl_cafile=.*nothing.pem cannot be used"),
        ({"cadata": "x"}, "ssl_cadata cannot be used"),
        ({"certfile": absent}, "ssl_certfile=.*absent.pem cannot be read"),
        ({"certfile": str(nothing)}, "ssl_certfile=.*nothing.pem cannot be used"),
        ({"crlfile": absent}, "ssl_crlfile=.*absent.pem cannot be read"),
        ({"ciphers": "no-such"}, "ssl_ciphers=no-such cannot be used"),
        ({"keyfile": absent}, "a client's key needs its certificate"),
        ({"certdata": chain_of(CLIENT)}, "a client's key needs its certificate"),
    ):
        with pytest.raises(TlsError, match=words):
            client(**given)


def test_a_clients_suites_are_openssls_list_or_ianas_names() -> None:
    for ciphers in ("ECDHE+AESGCM:!aNULL", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", f"{SUITES_OF_1_3[0]},{GCM}"):
        Ends(server(ssl_protocol="TLSv1.2"), client(ciphers=ciphers)).shake()
    with pytest.raises(ssl.SSLError):
        Ends(server(ssl_protocol="TLSv1.2"), client(ciphers=SUITES_OF_1_3[0])).shake()
