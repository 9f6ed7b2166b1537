"""Real clients show tokens, right and wrong ones. Tests of their renewal are in test_sessions.py."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider as AiokafkaProvider

from actors.client import Admin, Producer
from actors.client.errors import SaslAuthenticationError
from tests.compat.drivers import Aiokafka, Confluent, KafkaPython
from tests.compat.driving import Client, all_closed
from tests.compat.raw import create_topics
from tests.compat.secure import SECURE_KINDS, SecurePeer
from tests.compat.support import numbered_records, wait_until
from tests.compat.test_secure_interop import HASTY, PLAINLY, REFUSED_LOGIN
from tests.support.tokens import Tokens, fresh

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonProvider

RECORDS = numbered_records(100)


def librdkafka_bearer(servers: str, tokens: Tokens) -> dict[str, Any]:
    login = {"bootstrap.servers": servers, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    return {**login, "oauth_cb": lambda _: tokens(), "log_level": 0}


def _confluent(servers: str, tokens: Tokens) -> Client:
    return Confluent(librdkafka_bearer(servers, tokens))


def bearer(servers: str, provider: object) -> dict[str, Any]:
    """As kafka-python has it, and aiokafka, and our own clients."""
    return {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
    }


def _kafka_python(servers: str, tokens: Tokens) -> Client:
    class Provider(KafkaPythonProvider):  # type: ignore[misc]
        def token(self) -> str:
            return tokens()[0]

        def extensions(self) -> dict[str, str]:
            return {"pool": "a b"}

    return KafkaPython(bearer(servers, Provider()) | HASTY)


def _aiokafka(servers: str, tokens: Tokens) -> Client:
    class Provider(AiokafkaProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return tokens()[0]

    return Aiokafka(bearer(servers, Provider()))


CLIENTS = {"confluent-kafka": _confluent, "kafka-python": _kafka_python, "aiokafka": _aiokafka}
clients = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
Make = Callable[[str, Tokens], Client]


@pytest.mark.conformance("XB-26")
@clients
def test_a_client_with_a_token_does_all_that_clients_do(secure: SecurePeer, client: Make, name: str) -> None:
    create_topics(secure.plain, {name: 2})
    made = client(secure.servers["TOKENS"], fresh)
    made.produce(secure.plain, name, RECORDS, **PLAINLY)
    member = made.join(secure.plain, name, name)
    with all_closed([member]):
        wait_until(lambda: len(member.seen()) >= len(RECORDS), what="all records")
        assert sorted(member.seen()) == RECORDS
        member.commit()


@pytest.mark.conformance("XB-27")
@clients
def test_a_client_with_a_wrong_token_is_told_so(secure: SecurePeer, client: Make, name: str) -> None:
    made = client(secure.servers["TOKENS"], lambda: fresh(aud="somebody else"))
    with pytest.raises(Exception, match=REFUSED_LOGIN):
        made.produce(secure.plain, name, RECORDS[:1], **PLAINLY)


class Provided:
    """A provider of tokens for our clients."""

    def __init__(self, **more: Any) -> None:
        self._more = more

    def token(self) -> str:
        return fresh(**self._more)[0]


@pytest.mark.conformance("XF-01", "XB-27")
@pytest.mark.parametrize("secure", SECURE_KINDS, indirect=True)
def test_our_clients_show_tokens(secure: SecurePeer, name: str) -> None:
    create_topics(secure.plain, {name: 1})
    servers = secure.servers["TOKENS"]
    with Producer(**bearer(servers, Provided())) as producer:
        producer.send(name, b"value").get(30)
    with Admin(**bearer(servers, Provided())) as admin:
        assert name in admin.list_topics()
    with (
        Admin(**bearer(servers, Provided(aud="somebody else"))) as stranger,
        pytest.raises(SaslAuthenticationError, match="invalid_token"),
    ):
        stranger.list_topics()
