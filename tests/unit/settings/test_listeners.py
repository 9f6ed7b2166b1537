"""Listeners: their names, what is told of them, and the settings of one of them."""

from __future__ import annotations

import pytest

from actors.settings import BrokerConfig, Listener, SecurityProtocol, SettingError

TWO = {
    "listeners": "INTERNAL://10.0.0.1:9092,external://[::]:9093",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT, External:SASL_SSL",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
}


def test_there_is_one_listener_if_none_is_set() -> None:
    assert BrokerConfig.from_mapping({}).listeners == (Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, "", 9092),)


@pytest.mark.conformance("XA-01", "XA-02")
def test_names_are_mapped_to_protocols_whatever_their_case() -> None:
    assert BrokerConfig.from_mapping(TWO).listeners == (
        Listener("INTERNAL", SecurityProtocol.PLAINTEXT, "10.0.0.1", 9092),
        Listener("EXTERNAL", SecurityProtocol.SASL_SSL, "::", 9093),
    )


def test_listeners_of_kafkas_controllers_are_left_out() -> None:
    texts = {"listeners": "CONTROLLER://:9093,RAFT://:9094,PLAINTEXT://:9092", "controller.listener.names": "RAFT"}
    assert [listener.port for listener in BrokerConfig.from_mapping(texts).listeners] == [9092]


@pytest.mark.conformance("XA-02", "XA-03", "XA-04")
@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"listeners": "OUTER://:9092"}, "listener OUTER of listeners is not in listener.security.protocol.map"),
        ({"listeners": "CONTROLLER://:9092"}, "names no listener for clients"),
        ({"listeners": "SSL://:1,ssl://:2"}, "listeners has SSL twice"),
        ({"listeners": "SSL://:1,PLAINTEXT://:1"}, "SSL and PLAINTEXT of listeners share port 1"),
        ({"advertised.listeners": "SSL://h:1"}, "advertised.listeners has SSL, which listeners has not"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "nobody can connect to that"),
        ({"advertised.listeners": "PLAINTEXT://[::]:1"}, "nobody can connect to that"),
        ({"listeners": "PLAINTEXT://h:99999"}, "'PLAINTEXT://h:99999' is not NAME://HOST:PORT"),
        ({"listener.security.protocol.map": "A:TLS"}, "'A:TLS' is not NAME:PROTOCOL"),
    ],
)
def test_wrong_listeners_are_refused(texts: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        BrokerConfig.from_mapping(texts)


@pytest.mark.conformance("XA-03", "XA-04")
def test_what_may_be_shared_is_taken() -> None:
    texts = {
        "listeners": "SSL://0.0.0.0:9092,PLAINTEXT://[::]:9092",
        "advertised.listeners": "SSL://h:1,PLAINTEXT://h:1",
    }
    config = BrokerConfig.from_mapping(texts)
    assert len(config.listeners) == 2
    assert {each.port for each in config.advertised_listeners.values()} == {1}


@pytest.mark.conformance("XA-05")
def test_the_settings_of_a_listener_hold_over_those_of_all() -> None:
    texts = {
        **TWO,
        "num.io.threads": "3",
        "listener.name.external.num.io.threads": "4",
        "listener.name.external.scram-sha-256.num.io.threads": "5",
    }
    config = BrokerConfig.from_mapping(texts)
    external = config.for_listener("EXTERNAL")
    assert config.for_listener("INTERNAL").integer("num.io.threads") == 3
    assert external.integer("num.io.threads") == external.own("num.io.threads") == 4
    assert external.for_mechanism("SCRAM-SHA-256").integer("num.io.threads") == 5
    assert external.name_of("num.io.threads") == "listener.name.external.num.io.threads"
    assert config.for_listener("INTERNAL").own("num.io.threads") is None
