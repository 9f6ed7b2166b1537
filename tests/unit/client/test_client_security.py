"""A client's settings of security, and contradictions between them."""

from __future__ import annotations

import os
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest

from actors.client.config import (
    ADMIN_SETTINGS,
    admin_config,
    consumer_config,
    network_settings,
    producer_config,
    resolve,
)
from actors.client.errors import ConfigurationError
from actors.client.net.security import NO_SECURITY, Sasl, Security, refuse_secrets
from actors.settings.secret import Secret


class Provider:
    def __init__(self, token: Any, extensions: Any = None) -> None:
        self.given = token
        if extensions is not None:
            self.extensions = lambda: extensions

    def token(self) -> Any:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


BEARER = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
LOGIN = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "alice", "sasl_plain_password": "secret"}


def security(**given: Any) -> Security:
    return Security.of(resolve(ADMIN_SETTINGS, given))


@pytest.mark.conformance("XF-01")
def test_without_settings_connections_are_plain_and_there_is_no_login() -> None:
    assert security() == NO_SECURITY
    assert network_settings(consumer_config({})).security == NO_SECURITY


@pytest.mark.conformance("XF-01")
@pytest.mark.parametrize(
    ("protocol", "tls", "sasl"),
    [("PLAINTEXT", False, False), ("SSL", True, False), ("SASL_PLAINTEXT", False, True), ("SASL_SSL", True, True)],
)
def test_each_protocol_has_what_its_name_says(protocol: str, tls: bool, sasl: bool) -> None:
    found = security(security_protocol=protocol, **(LOGIN if sasl else {}))
    assert (found.tls is not None, found.sasl is not None) == (tls, sasl)


@pytest.mark.conformance("XF-01")
@pytest.mark.parametrize("make", [consumer_config, producer_config])
def test_all_clients_have_the_settings(make: Any) -> None:
    config = make({"security_protocol": "SASL_SSL", **LOGIN})
    assert network_settings(config).security.sasl == Sasl("PLAIN", "alice", Secret("secret"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"security_protocol": "TLS"}, "security_protocol='TLS': must be one of PLAINTEXT, SSL"),
        ({"security_protocol": "SASL_SSL"}, "SASL_SSL needs sasl_mechanism: one of PLAIN, SCRAM-SHA-256"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "needs sasl_plain_username"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"},
            "sasl_mechanism='GSSAPI': must be one of PLAIN",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_plain_username": "alice"},
            "one of sasl_plain_password, sasl_password_file, sasl_password_env is needed",
        ),
        (
            {"security_protocol": "SASL_SSL", **LOGIN, "sasl_password_env": "X"},
            "sasl_plain_password and sasl_password_env",
        ),
        (
            {"security_protocol": "SASL_SSL", **LOGIN, "sasl_plain_password": ""},
            "sasl_plain_password must not be empty",
        ),
        (
            {"security_protocol": "SASL_SSL", **LOGIN, "sasl_plain_username": "a\0b"},
            "sasl_plain_username must not contain",
        ),
        (LOGIN, "sasl_mechanism needs security_protocol=SASL_SSL or SASL_PLAINTEXT"),
        (
            {"ssl_cafile": "ca.pem"},
            "ssl_cafile needs security_protocol=SSL or SASL_SSL, but security_protocol=PLAINTEXT",
        ),
        ({"security_protocol": "SSL", **LOGIN}, "sasl_mechanism needs security_protocol=SASL_SSL"),
        ({"security_protocol": "SSL", "ssl_cafile": "a", "ssl_cadata": "b"}, "ssl_cafile and ssl_cadata are given"),
        ({"security_protocol": "SSL", "ssl_keyfile": "k"}, "ssl_keyfile needs ssl_certfile"),
        ({"security_protocol": "SSL", "ssl_certdata": "c"}, "ssl_certdata and ssl_keydata need one another"),
        ({"security_protocol": "SSL", "ssl_password": "p"}, "ssl_password needs ssl_certfile"),
        (BEARER, "one of sasl_oauth_token_provider, sasl_oauth_token_file is needed with sasl_mechanism=OAUTHBEARER"),
        (
            BEARER | {"sasl_oauth_token_file": "a", "sasl_oauth_token_provider": Provider("secret")},
            "sasl_oauth_token_provider and sasl_oauth_token_file are given",
        ),
        (BEARER | {"sasl_oauth_token_provider": "secret"}, "must be an object with a method token()"),
        (BEARER | {"sasl_oauth_token_file": "a", "sasl_plain_username": "b"}, "sasl_plain_username has no effect with"),
        (BEARER | {"sasl_oauth_token_file": "a", "sasl_password_env": "b"}, "sasl_password_env has no effect with"),
        (
            {"security_protocol": "SASL_SSL", **LOGIN, "sasl_oauth_token_file": "a"},
            "sasl_oauth_token_file needs sasl_mechanism=OAUTHBEARER, but sasl_mechanism=PLAIN",
        ),
        ({"sasl_oauth_token_file": "a"}, "sasl_oauth_token_file needs security_protocol=SASL_SSL"),
        ({"security_protocol": "SSL", "ssl_context": object()}, "must be an ssl.SSLContext"),
        (
            {"security_protocol": "SSL", "ssl_context": ssl.create_default_context(), "ssl_cafile": "a"},
            "ssl_cafile has no effect beside ssl_context",
        ),
    ],
)
def test_an_error_names_the_setting(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        security(**given)
    assert words in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("given", [{"ssl_cafile": "/nowhere/ca.pem"}, {"ssl_crlfile": "/nowhere/ca.pem"}])
def test_a_file_that_is_not_there_is_named_with_the_machine(given: dict[str, str]) -> None:
    tls = security(security_protocol="SSL", **given).tls
    assert tls is not None
    with pytest.raises(
        ConfigurationError, match=r"ssl_\w+file=/nowhere/ca.pem cannot be read: No such file or directory \(on "
    ):
        tls.context()


def test_a_password_file_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "password"
    sasl = Sasl("PLAIN", "alice", password_file=str(path))
    with pytest.raises(ConfigurationError, match=r"sasl_password_file=.*password: No such file"):
        sasl.secret()
    for text in ("one\n", "two"):
        path.write_text(text)
        path.chmod(0o600)
        assert sasl.secret() == Secret(text.strip())
    path.write_text("\n")
    with pytest.raises(ConfigurationError, match="the file is empty"):
        sasl.secret()


@pytest.mark.conformance("XE-24")
def test_others_should_not_be_able_to_read_a_password_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "password"
    path.write_text("secret")
    path.chmod(0o644)
    assert Sasl("PLAIN", "alice", password_file=str(path)).secret() == Secret("secret")
    assert "others can read this file" in caplog.text


@pytest.mark.conformance("XE-25")
def test_a_password_can_stand_in_a_variable_and_is_taken_out_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sasl = Sasl("PLAIN", "alice", password_env="THE_PASSWORD")
    with pytest.raises(ConfigurationError, match="sasl_password_env=THE_PASSWORD: there is no such variable here"):
        sasl.secret()
    for text in ("secret", "a newer one"):
        monkeypatch.setenv("THE_PASSWORD", text)
        assert sasl.secret() == Secret(text)
        assert "THE_PASSWORD" not in os.environ
        assert Sasl("PLAIN", "bob", password_env="THE_PASSWORD").secret() == Secret(text), "the next client, too"


@pytest.mark.conformance("XE-25")
def test_clients_of_several_threads_get_what_one_of_them_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread has taken the variable and not kept it yet when another asks for it."""
    environment, found, taken = {"THE_PASSWORD": "secret"}, list[Secret](), threading.Event()

    def take(name: str) -> str | None:
        text = environment.pop(name, None)
        if text is not None:
            second.start()
            taken.wait(0.2)  # as long as it takes a second one to get in, where nobody keeps it out
        else:
            taken.set()
        return text

    def ask() -> None:
        found.append(Sasl("PLAIN", "bob", password_env="THE_PASSWORD").secret())

    second = threading.Thread(target=ask)
    monkeypatch.setattr("actors.client.net.security.take_variable", take)
    ask()
    second.join()
    assert found == [Secret("secret")] * 2


@pytest.mark.conformance("XF-01")
def test_a_token_is_asked_for_anew_each_time(tmp_path: Path) -> None:
    path, provider = tmp_path / "token", Provider("one")
    by_file = security(**BEARER, sasl_oauth_token_file=str(path)).sasl
    by_provider = security(**BEARER, sasl_oauth_token_provider=provider).sasl
    assert by_file is not None
    assert by_provider is not None
    by_provider.check()
    with pytest.raises(ConfigurationError, match=r"sasl_oauth_token_file=.*token: No such file"):
        by_file.check()
    for text in ("one\n", "two"):
        path.write_text(text)
        path.chmod(0o600)
        provider.given = text.strip()
        assert by_file.secret() == by_provider.secret() == Secret(text.strip())
        assert by_file.extensions() == by_provider.extensions() == {}
    assert "two" not in repr(by_provider)


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (Provider(OSError("secret")), "sasl_oauth_token_provider: token() has failed: OSError"),
        (Provider(b"secret"), "token() must return a str"),
        (Provider("secret", 7), "extensions() must return a mapping"),
    ],
)
def test_what_is_wrong_with_a_provider_is_told_without_what_it_says(provider: Provider, words: str) -> None:
    sasl = Sasl("OAUTHBEARER", token_provider=provider)
    sasl.check()
    with pytest.raises(ConfigurationError) as raised:
        sasl.secret(), sasl.extensions()
    assert words in str(raised.value)
    assert "secret" not in str(raised.value)


def test_secrets_are_shown_nowhere() -> None:
    config = admin_config({"security_protocol": "SASL_SSL", **LOGIN})
    assert "secret" not in repr(config) + repr(network_settings(config))


@pytest.mark.conformance("XE-35")
@pytest.mark.parametrize(
    "name", ["sasl_plain_password", "ssl_password", "ssl_keydata", "ssl_context", "sasl_oauth_token_provider"]
)
def test_secrets_do_not_travel_and_the_error_says_what_does(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name} does not travel to actors: .*name .*file") as raised:
        refuse_secrets({"sasl_password_file": "/a", name: "secret"}, "actors")
    assert "secret" not in str(raised.value)
    refuse_secrets({"sasl_password_file": "/a", "sasl_password_env": "B", "ssl_keyfile": "/c", name: None}, "actors")
