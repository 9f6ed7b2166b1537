"""Security settings in the spellings of Java's clients and of librdkafka."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client import spellings
from actors.client.config import ADMIN_SETTINGS, resolve
from actors.client.errors import ConfigurationError
from actors.settings.secret import Secret

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def ours(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in text.strip().splitlines():
        key, _, value = line.strip().partition("=")
        found |= spellings.of(key, value)
    return found


WANTED = {
    "security_protocol": "SASL_SSL",
    "ssl_cafile": "/ca.pem",
    "ssl_check_hostname": True,
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": "alice",
    "sasl_plain_password": Secret("a;b \"c' d"),
}


@pytest.mark.conformance("XF-02")
@pytest.mark.parametrize(
    "text",
    [
        rf"""
        security.protocol=sasl_ssl
        ssl.truststore.location=/ca.pem
        ssl.truststore.type=PEM
        ssl.endpoint.identification.algorithm=https
        sasl.mechanism=SCRAM-SHA-512
        sasl.jaas.config={SCRAM} required username="alice" password="a;b \"c' d";
        """,
        """
        security.protocol=SASL_SSL
        ssl.ca.location=/ca.pem
        enable.ssl.certificate.verification=true
        ssl.endpoint.identification.algorithm=https
        sasl.mechanisms=scram-sha-512
        sasl.username=alice
        sasl.password=a;b "c' d
        """,
        """
        security_protocol=SASL_SSL
        ssl_cafile=/ca.pem
        ssl_check_hostname=TRUE
        sasl_mechanism=SCRAM-SHA-512
        sasl_plain_username=alice
        sasl.plain.password=a;b "c' d
        """,
    ],
)
def test_all_spellings_mean_the_same(text: str) -> None:
    assert ours(text) == WANTED
    resolve(ADMIN_SETTINGS, ours(text))


@pytest.mark.conformance("XF-02")
@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("ssl.keystore.location", "/both.pem", {"ssl_certfile": "/both.pem"}),
        ("ssl.certificate.location", "/c.pem", {"ssl_certfile": "/c.pem"}),
        ("ssl.key.location", "/k.pem", {"ssl_keyfile": "/k.pem"}),
        ("ssl.keystore.certificate.chain", "PEM", {"ssl_certdata": "PEM"}),
        ("ssl.keystore.key", "PEM", {"ssl_keydata": Secret("PEM")}),
        ("ssl.key.pem", "PEM", {"ssl_keydata": Secret("PEM")}),
        ("ssl.ca.pem", "PEM", {"ssl_cadata": "PEM"}),
        ("ssl.key.password", " x ", {"ssl_password": Secret(" x ")}),
        ("ssl.crl.location", "/crl", {"ssl_crlfile": "/crl"}),
        ("ssl.cipher.suites", "A,B", {"ssl_ciphers": "A,B"}),
        ("ssl.endpoint.identification.algorithm", "", {"ssl_check_hostname": False}),
        ("ssl.endpoint.identification.algorithm", "none", {"ssl_check_hostname": False}),
        ("ssl_check_hostname", "false", {"ssl_check_hostname": False}),
        ("sasl.password.file", "/p", {"sasl_password_file": "/p"}),
        ("sasl_password_env", "P", {"sasl_password_env": "P"}),
        ("sasl.oauth.token.file", "/t", {"sasl_oauth_token_file": "/t"}),
        ("sasl.oauthbearer.token.endpoint.url", "file:///a%20b", {"sasl_oauth_token_file": "/a b"}),
        ("sasl.jaas.config", "org.x.oauthbearer.OAuthBearerLoginModule required ;", {}),
    ],
)
def test_each_key_has_its_setting(key: str, value: str, found: dict[str, Any]) -> None:
    assert spellings.of(key, value) == found


@pytest.mark.conformance("XF-02")
@pytest.mark.parametrize(
    ("text", "user", "password"),
    [
        (f'{PLAIN} required username="u" password="p";', "u", "p"),
        (f"{PLAIN} required  username='u'\n password='p' ;", "u", "p"),
        (f"{SCRAM} required password=p username=u;", "u", "p"),
        (rf'{SCRAM} required username="a\"b" password="c\\d";', 'a"b', r"c\d"),
        (f'{SCRAM} required username="u" password="x=y;z";', "u", "x=y;z"),
    ],
)
def test_a_jaas_line_has_a_user_and_a_password(text: str, user: str, password: str) -> None:
    assert spellings.of("sasl.jaas.config", text) == {
        "sasl_plain_username": user,
        "sasl_plain_password": Secret(password),
    }


@pytest.mark.conformance("XF-02")
@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (
            "sasl.jaas.config",
            "com.sun.security.auth.module.Krb5LoginModule required;",
            "only PlainLoginModule, ScramLoginModule, and OAuthBearer",
        ),
        ("sasl.jaas.config", 'OAuthBearerLoginModule required clientSecret="hunter2";', "without options"),
        ("sasl.oauthbearer.token.endpoint.url", "https://issuer/token", "must be file:///PATH"),
        ("sasl.oauthbearer.token.endpoint.url", "file:token", "must be file:///PATH"),
        ("sasl.jaas.config", f'{SCRAM} required username="u" password="hunter2"; more', "must be like"),
        ("sasl.jaas.config", f'{SCRAM} required username="u" password="hunter2', "must be like"),
        ("sasl.jaas.config", f'{SCRAM} required username="u";', "password is missing"),
        ("sasl.jaas.config", f'{SCRAM} required username="u" password="hunter2" tokenauth="true";', "tokenauth is not"),
        ("ssl.truststore.type", "JKS", "stores are PEM here; `keytool"),
        ("ssl.truststore.password", "hunter2", "PEM stores have no password"),
        ("enable.ssl.certificate.verification", "false", "certificates are always verified"),
        ("ssl.endpoint.identification.algorithm", "ldaps", "must be https"),
        ("security.protocol", "TLS", "must be one of PLAINTEXT, SSL"),
        ("sasl.mechanism", "GSSAPI", "must be one of PLAIN, SCRAM-SHA-256"),
    ],
)
def test_what_cannot_be_understood_is_an_error_without_secrets(key: str, value: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        spellings.of(key, value)
    assert str(raised.value).startswith(f"{key}: ")
    assert words in str(raised.value)
    assert "hunter2" not in str(raised.value)
