"""The settings of listeners that take tokens: SECURITY.md, B.4."""

from __future__ import annotations

import pytest

from actors.settings import BrokerConfig, SettingError
from actors.settings.sasl import EXPECTED_AUDIENCE, EXPECTED_ISSUER, JWKS_URL

LISTENER = {
    "listeners": "LOGIN://:9092",
    "listener.security.protocol.map": "LOGIN:SASL_SSL",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    EXPECTED_ISSUER: "https://issuer",
    EXPECTED_AUDIENCE: "kafka",
}
UNVERIFIED = {
    EXPECTED_ISSUER: "sasl.oauthbearer.allow.unverified.issuer",
    EXPECTED_AUDIENCE: "sasl.oauthbearer.allow.unverified.audience",
}


@pytest.mark.conformance("XB-29")
@pytest.mark.parametrize(
    "url",
    ["https://issuer", "https://issuer:8443/a/keys?b=c", "https://[::1]/", "file:///keys", "file://localhost/a%20b"],
)
def test_keys_come_by_https_or_from_a_file(url: str) -> None:
    config = BrokerConfig.from_mapping(LISTENER | {JWKS_URL: url})
    assert config.for_listener("LOGIN").for_mechanism("OAUTHBEARER").text(JWKS_URL) == url


@pytest.mark.conformance("XB-29")
@pytest.mark.parametrize(
    "url",
    [
        *("http://issuer/keys", "ftp://issuer/keys", "issuer", "/keys", "https:///keys", "https://issuer:x/"),
        *("file://elsewhere/keys", "file:keys", "https://user:pass@issuer/", "https://user@issuer/", "https://[::1/"),
    ],
)
def test_keys_come_from_nowhere_else(url: str) -> None:
    with pytest.raises(SettingError, match=JWKS_URL):
        BrokerConfig.from_mapping(LISTENER | {JWKS_URL: url})


@pytest.mark.conformance("XB-28")
def test_a_listener_that_takes_tokens_needs_to_know_who_signs_them() -> None:
    with pytest.raises(SettingError, match=f"listener LOGIN takes tokens: {JWKS_URL} must say who signs them"):
        BrokerConfig.from_mapping(LISTENER)
    BrokerConfig.from_mapping(LISTENER | {"sasl.enabled.mechanisms": "PLAIN"})
    BrokerConfig.from_mapping(LISTENER | {f"listener.name.login.oauthbearer.{JWKS_URL}": "file:///keys"})


@pytest.mark.parametrize("missing", UNVERIFIED)
def test_a_listener_took_tokens_that_were_meant_for_others_unasked(missing: str) -> None:
    """Apache Kafka 4.4 starts no such listener either, unless it is told to."""
    known = LISTENER | {JWKS_URL: "file:///keys"}
    told = {name: text for name, text in known.items() if name != missing}
    for texts in (told, known | {missing: ""} if missing == EXPECTED_AUDIENCE else told):
        with pytest.raises(SettingError, match=f"{missing} must say which are for it, or {UNVERIFIED[missing]}=true"):
            BrokerConfig.from_mapping(texts)
    BrokerConfig.from_mapping(told | {UNVERIFIED[missing]: "true"})
    BrokerConfig.from_mapping(told | {f"listener.name.login.oauthbearer.{UNVERIFIED[missing]}": "true"})
    BrokerConfig.from_mapping(told | {f"listener.name.login.oauthbearer.{missing}": "own"})
    with pytest.raises(SettingError):
        BrokerConfig.from_mapping(told | {f"listener.name.other.{missing}": "own"})


def test_the_shortest_pause_is_not_longer_than_the_longest() -> None:
    backoff = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
    with pytest.raises(SettingError, match=f"{backoff}=20000 must not exceed"):
        BrokerConfig.from_mapping(LISTENER | {JWKS_URL: "file:///keys", backoff: "20000"})
