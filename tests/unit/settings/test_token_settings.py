"""The settings of listeners that take tokens: SECURITY.md, B.4."""

from __future__ import annotations

import pytest

from actors.settings import BrokerConfig, SettingError
from actors.settings.sasl import JWKS_URL

LISTENER = {
    "listeners": "LOGIN://:9092",
    "listener.security.protocol.map": "LOGIN:SASL_SSL",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
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


def test_the_shortest_pause_is_not_longer_than_the_longest() -> None:
    backoff = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
    with pytest.raises(SettingError, match=f"{backoff}=20000 must not exceed"):
        BrokerConfig.from_mapping(LISTENER | {JWKS_URL: "file:///keys", backoff: "20000"})
