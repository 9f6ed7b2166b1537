"""Key stores and trust stores, and every reason why one cannot be used: SECURITY.md, XA-41 to XA-46."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from actors.security.certificates import KeyStore, StoreError, key_store, trust_store
from actors.settings.secret import Secret
from tests.support.certificates import DAY_MS, NOW_MS, authority_of, chain_of, key_of, no_file, settings, texts

CA = trustme.CA()
INTERMEDIATE = CA.create_child_ca()
LEAF = INTERMEDIATE.issue_cert("localhost", "127.0.0.1", common_name="here")
OTHER = CA.issue_cert("localhost")


def keys(**given: Any) -> KeyStore | None:
    return key_store(settings(**given), no_file, NOW_MS)


def refused(**given: Any) -> str:
    with pytest.raises(StoreError) as error:
        key_store(settings(**given), no_file, NOW_MS)
    assert "\n" not in str(error.value)
    return str(error.value)


def both(chain: str, key: str) -> dict[str, Any]:
    return {"ssl_keystore_certificate_chain": Secret(chain), "ssl_keystore_key": Secret(key)}


# --- where they are, and in which form ---


@pytest.mark.conformance("XA-41")
def test_a_key_store_is_text_or_one_file() -> None:
    asked = list[str]()

    def read(path: str) -> bytes:
        asked.append(path)
        return b"Bag Attributes: caf\xe9\n" + key_of(LEAF).encode() + b"subject=x\n" + chain_of(LEAF).encode()

    assert keys() is None
    by_text = keys(**texts(LEAF))
    by_file = key_store(settings(ssl_keystore_location="/k.pem"), read, NOW_MS)
    assert by_text is not None
    assert by_file is not None
    assert asked == ["/k.pem"]
    assert by_text.chain == by_file.chain
    assert len(by_text.chain) == 2
    assert by_file.subject.startswith("CN=here,")
    assert by_file.alternative_names == by_text.alternative_names
    assert len(by_text.alternative_names) == 2


@pytest.mark.conformance("XA-41", "XA-43")
@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
@pytest.mark.parametrize("kind", [trustme.KeyType.RSA, trustme.KeyType.ECDSA])
@pytest.mark.parametrize("password", [None, "pw"])
def test_keys_of_all_forms_are_read(form: PrivateFormat, kind: trustme.KeyType, password: str | None) -> None:
    leaf = CA.issue_cert("localhost", key_type=kind)
    given = both(chain_of(leaf), key_of(leaf, password, form))
    assert keys(**given, ssl_key_password=Secret("pw")) is not None, "a password that is not needed does no harm"
    assert password or keys(**given) is not None


@pytest.mark.conformance("XA-41")
def test_text_on_one_line_is_read_too() -> None:
    assert keys(**both(chain_of(LEAF).replace("\n", " "), key_of(LEAF).replace("\n", " "))) is not None
    assert keys(**both(chain_of(LEAF).replace("\n", "\r\n"), key_of(LEAF).replace("\n", "\r\n"))) is not None


@pytest.mark.conformance("XA-41", "XA-42")
def test_a_trust_store_has_one_or_more_certificates() -> None:
    other = trustme.CA()
    bundle = "# us\n" + authority_of(CA) + "them:\n" + authority_of(other)
    by_text = trust_store(settings(ssl_truststore_certificates=Secret(bundle)), no_file)
    by_file = trust_store(settings(ssl_truststore_location="/t.pem"), lambda path: bundle.encode())
    assert by_text == by_file
    assert by_text is not None
    assert by_text.pem.count("BEGIN CERTIFICATE") == 2
    assert trust_store(settings(), no_file) is None
    with pytest.raises(StoreError, match=r"ssl.truststore.certificates has no certificate"):
        trust_store(settings(ssl_truststore_certificates=Secret(key_of(LEAF))), no_file)
    with pytest.raises(StoreError, match=r"ssl.truststore.location=/t.pem has no certificate"):
        trust_store(settings(ssl_truststore_location="/t.pem"), lambda path: b"")


@pytest.mark.parametrize("what", ["keystore", "truststore"])
@pytest.mark.parametrize("junk", [b"\0\0\0\1", b"\x7f", b"\x0b", b"\x1b[1m"])
def test_a_file_with_other_bytes_than_text_was_taken_for_the_pem_in_it(what: str, junk: bytes) -> None:
    """A segment of a log has one that a client has produced."""
    given = settings(**{f"ssl_{what}_location": "/f"})
    pem = (key_of(LEAF) + chain_of(LEAF)).encode()
    read = (
        (lambda data: trust_store(given, data)) if what == "truststore" else lambda data: key_store(given, data, NOW_MS)
    )
    for data in (junk + pem, pem + junk):
        with pytest.raises(StoreError, match=rf"ssl\.{what}\.location=/f is no PEM"):
            read(lambda path, data=data: data)


@pytest.mark.conformance("XA-42")
def test_combinations_that_mean_nothing_are_refused_by_the_names_of_the_settings() -> None:
    text = texts(LEAF)
    chain, key = text["ssl_keystore_certificate_chain"], text["ssl_keystore_key"]
    assert refused(ssl_keystore_key=key) == "ssl.keystore.key is set without ssl.keystore.certificate.chain"
    assert refused(ssl_keystore_certificate_chain=chain).endswith("chain is set without ssl.keystore.key")
    assert "ssl.keystore.location and ssl.keystore.key are both set" in refused(
        ssl_keystore_location="/k.pem", ssl_keystore_key=key
    )
    assert refused(**text, ssl_keystore_password=Secret("x")).startswith(
        "ssl.keystore.password does not go with ssl.keystore.type=PEM"
    )
    assert refused(**text, ssl_keystore_type="JKS").startswith(
        "ssl.keystore.type=JKS does not go with ssl.keystore.certificate.chain"
    )
    assert "No such file" in refused(ssl_keystore_location="/k.pem")
    for given, words in (
        ({"ssl_truststore_location": "/t", "ssl_truststore_certificates": Secret(authority_of(CA))}, "both set"),
        ({"ssl_truststore_location": "/t", "ssl_truststore_password": Secret("x")}, "ssl.truststore.password"),
        ({"ssl_truststore_location": "/t"}, "ssl.truststore.location=/t cannot be read: No such file"),
    ):
        with pytest.raises(StoreError, match=words):
            trust_store(settings(**given), no_file)


@pytest.mark.conformance("XA-43")
def test_other_forms_are_refused_with_the_command_that_converts_them() -> None:
    assert "openssl pkcs12 -in /k.p12 -out /k.p12.pem" in refused(
        ssl_keystore_type="PKCS12", ssl_keystore_location="/k.p12"
    )
    jks = refused(ssl_keystore_type="JKS", ssl_keystore_location="/k.jks")
    assert jks.endswith(
        "keytool -importkeystore -srckeystore /k.jks -destkeystore /k.jks.p12 -deststoretype PKCS12 && "
        "openssl pkcs12 -in /k.jks.p12 -out /k.jks.pem"
    )
    with pytest.raises(StoreError, match=r"keytool -list -rfc -keystore /t\.jks > /t\.jks\.pem"):
        trust_store(settings(ssl_truststore_type="JKS", ssl_truststore_location="/t.jks"), no_file)
    assert refused(ssl_keystore_type="odd") == "ssl.keystore.type=odd: only PEM is read"


@pytest.mark.conformance("XA-42")
def test_there_must_be_exactly_one_key() -> None:
    assert refused(**both(chain_of(LEAF), "")) == "ssl.keystore.key has no private key"
    assert refused(**both(chain_of(LEAF), "nothing")) == "ssl.keystore.key has no private key"
    assert "ssl.keystore.key has 2 private keys" in refused(**both(chain_of(LEAF), key_of(LEAF) * 2))
    assert refused(**both(key_of(LEAF), key_of(LEAF))) == "ssl.keystore.certificate.chain has no certificate"


@pytest.mark.conformance("XA-44")
def test_an_encrypted_key_needs_its_password() -> None:
    for form in (PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL):
        given = both(chain_of(LEAF), key_of(LEAF, "right", form))
        assert refused(**given) == "ssl.keystore.key has an encrypted key, and ssl.key.password is not set"
        wrong = refused(**given, ssl_key_password=Secret("wrong"))
        assert "ssl.key.password does not open the private key" in wrong


def test_nothing_else_of_a_text_gets_to_the_library() -> None:
    other = chain_of(OTHER).replace("BEGIN CERT", "BEGIN TRUSTED CERT").replace("END CERT", "END TRUSTED CERT")
    store = keys(**both(other + key_of(OTHER) + chain_of(LEAF), key_of(LEAF)))
    assert store is not None
    assert store.pem.decode() == key_of(LEAF) + chain_of(LEAF)


def test_no_text_of_a_store_shows_its_key() -> None:
    store = keys(**texts(LEAF, "password"))
    lines = [line for line in key_of(LEAF, "password").splitlines() if "PRIVATE" not in line]
    assert not any(line in repr(store) for line in lines)
    broken = key_of(LEAF).replace("M", "!")
    assert not any(line in refused(**both(chain_of(LEAF), broken)) for line in broken.splitlines())


# --- what a server's certificate must be ---


@pytest.mark.conformance("XA-46")
def test_the_key_must_belong_to_the_first_certificate() -> None:
    assert "the key does not belong to the first certificate" in refused(**both(chain_of(LEAF), key_of(OTHER)))
    first, second = (blob.bytes().decode() for blob in LEAF.cert_chain_pems)
    assert "it is that of certificate 2" in refused(**both(second + first, key_of(LEAF)))


@pytest.mark.conformance("XA-46")
def test_the_chain_must_be_in_order() -> None:
    first, second = (blob.bytes().decode() for blob in LEAF.cert_chain_pems)
    assert "was not issued by the next" in refused(**both(first + authority_of(CA) + second, key_of(LEAF)))
    assert keys(**both(first + second + authority_of(CA), key_of(LEAF))) is not None


@pytest.mark.conformance("XA-46")
def test_the_certificate_must_be_valid_now() -> None:
    days = timedelta(days=1)
    now = datetime.fromtimestamp(NOW_MS / 1000, UTC)
    expired = CA.issue_cert("localhost", not_before=now - 9 * days, not_after=now - days)
    assert "has expired on" in refused(**texts(expired))
    early = CA.issue_cert("localhost", not_before=now + days, not_after=now + 9 * days)
    assert "is not valid before" in refused(**texts(early))
    soon = keys(**texts(CA.issue_cert("localhost", not_before=now - days, not_after=now + 9 * days)))
    assert soon is not None
    assert 8.9 < soon.days_left(NOW_MS) < 9.1
    assert 7.9 < soon.days_left(NOW_MS + DAY_MS) < 8.1


@pytest.mark.conformance("XA-46")
@pytest.mark.parametrize(
    ("uses", "good"),
    [
        ([ExtendedKeyUsageOID.CLIENT_AUTH], False),
        ([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH], True),
        ([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE], True),
        ([], True),
    ],
)
def test_the_certificate_must_be_for_servers_if_it_says_for_whom(uses: list[x509.ObjectIdentifier], good: bool) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "self")])
    now = datetime.fromtimestamp(NOW_MS / 1000, UTC)
    builder = x509.CertificateBuilder(who, who, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    if uses:
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    chain = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
    given = both(chain, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
    if good:
        store = keys(**given)
        assert store is not None
        assert store.alternative_names == frozenset()
    else:
        assert refused(**given).endswith("CN=self is not for servers (its extended key usage)")
