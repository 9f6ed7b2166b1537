"""Sessions that last a few seconds: clients log in again under load; the broker disconnects one that does not."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import confluent_kafka
import pytest

from actors.client import Consumer, Producer
from actors.client.net.login import Login
from actors.wire.messages import MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from tests.compat.drivers import Confluent
from tests.compat.driving import all_closed
from tests.compat.raw import Raw, create_topics
from tests.compat.remote import Remote, RemoteClient
from tests.compat.secure import ADMIN, ALICE, BOB, PASSWORDS, SECURE_KINDS, SESSION_MS, SecurePeer
from tests.compat.support import numbered_records, wait_until
from tests.compat.test_oauth import Provided, bearer, librdkafka_bearer
from tests.support.tokens import fresh

both = pytest.mark.parametrize("secure", SECURE_KINDS, indirect=True)


def _goes_on(settings: dict[str, Any], topic: str, seconds: float) -> list[Any]:
    """Have librdkafka send records for so long, and return its errors."""
    said: list[Any] = []
    producer = confluent_kafka.Producer({**settings, "log_level": 0, "error_cb": said.append})
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        producer.produce(topic, b"value", b"key", on_delivery=lambda error, _: said.append(error) if error else None)
        assert producer.flush(10) == 0
    return said


@pytest.mark.conformance("XA-55", "XB-30", "XG-12")
def test_other_clients_log_in_again_while_they_send_and_fetch(secure: SecurePeer, java: Remote, name: str) -> None:
    topic = f"alices-{name}"
    create_topics(secure.plain, {topic: 1, name: 1})
    login = secure.login(ALICE, protocol=secure.expiring)
    javas = RemoteClient("java", java, login.java())
    members = [
        each.join(secure.plain, f"{topic}-{n}", topic) for n, each in enumerate((javas, Confluent(login.librdkafka())))
    ]
    with all_closed(members), ThreadPoolExecutor() as beside:
        by_librdkafka = beside.submit(_goes_on, login.librdkafka(), topic, 2.8 * SESSION_MS / 1000)
        # It counts in whole seconds: of tokens of 3 s it shows an old one again, twice in a second.
        tokens = librdkafka_bearer(secure.servers["TOKENS"], lambda: fresh(6.0))
        by_token = beside.submit(_goes_on, tokens, name, 13.0)
        records = numbered_records(28 * SESSION_MS // 1000)
        sent = java.ask("produce", login=login.java(), topic=topic, records=_texts(records), pause=100)
        assert by_librdkafka.result() == []
        assert sent["again"] >= 2
        for member in members:
            wait_until(lambda member=member: set(records) <= set(member.seen()), what="all records")
            member.commit()
        assert by_token.result() == []


def _texts(records: list[tuple[bytes, bytes]]) -> list[list[str]]:
    return [[key.decode(), value.decode()] for key, value in records]


# --- our clients ---


@both
@pytest.mark.conformance("XF-07", "XG-12")
def test_ours_log_in_again_while_they_send_and_fetch(
    secure: SecurePeer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins: Counter[tuple[str, int]] = Counter()
    really = Login.log_in

    async def counted(self: Login, broker: Any) -> int:
        logins[repr(self), id(broker)] += 1
        return await really(self, broker)

    monkeypatch.setattr(Login, "log_in", counted)
    ways = {mechanism: secure.settings(ADMIN, mechanism, secure.expiring) for mechanism in ("PLAIN", "SCRAM-SHA-256")}
    ways["OAUTHBEARER"] = bearer(secure.servers["TOKENS"], Provided(lifetime=3.0))

    def renewed(mechanism: str) -> int:
        return sum(count - 1 for (login, _), count in logins.copy().items() if mechanism in login)

    def goes_on(mechanism: str) -> None:
        _send_and_fetch(ways[mechanism], f"{name}-{mechanism}", lambda: renewed(mechanism) >= 5)

    create_topics(secure.plain, {f"{name}-{mechanism}": 1 for mechanism in ways})
    with ThreadPoolExecutor() as beside:
        for each in [beside.submit(goes_on, mechanism) for mechanism in ways]:
            assert each.result(100) is None


def _send_and_fetch(settings: dict[str, Any], topic: str, enough: Callable[[], bool]) -> None:
    """Send and fetch one record after another. No new connection is made: the pause before a reconnect never ends."""
    settings = settings | {"reconnect_backoff_max_ms": 60_000}
    sent, got = 0, 0
    deadline = time.monotonic() + 90
    with Producer(**settings) as producer, Consumer(topic, group_id=topic, **settings) as consumer:
        wait_until(lambda: consumer.poll(100) or consumer.assignment(), what="an assignment")
        while not enough():
            assert time.monotonic() < deadline, f"{sent} records"
            producer.send(topic, b"x").get(30)
            sent += 1
            got += sum(map(len, consumer.poll(10).values()))
        while got < sent:
            assert time.monotonic() < deadline, f"{got} of {sent} records"
            got += sum(map(len, consumer.poll(100).values()))
    assert got == sent


# --- missing and wrong logins ---


@contextmanager
def _logged_in(secure: SecurePeer) -> Iterator[tuple[Raw, float]]:
    """Alice's connection by PLAIN, and when she logged in."""
    with Raw(secure.servers[secure.expiring]) as raw:
        begun = time.monotonic()
        assert raw.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        answer = raw.call(SaslAuthenticateRequest(auth_bytes=_plain(ALICE)), 2)
        assert (answer.error_code, answer.session_lifetime_ms) == (0, SESSION_MS)
        yield raw, begun


def _plain(user: str) -> bytes:
    return f"\0{user}\0{PASSWORDS[user]}".encode()


@both
@pytest.mark.conformance("XG-12")
def test_who_does_not_log_in_again_is_cut_off_at_the_next_request(secure: SecurePeer) -> None:
    with _logged_in(secure) as (raw, begun):

        def cut() -> bool:
            try:
                raw.call(MetadataRequest(topics=[]), 8)
            except (EOFError, ConnectionError):
                return True
            return False

        wait_until(cut, what="the end of the connection")
        assert time.monotonic() - begun > 0.95 * SESSION_MS / 1000


@both
@pytest.mark.conformance("XA-56", "XG-12")
def test_whoever_logs_in_again_is_the_same_by_the_same_mechanism(secure: SecurePeer) -> None:
    others = (("PLAIN", _plain(BOB)), ("SCRAM-SHA-256", b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL"))
    with ExitStack() as stack:
        found = [stack.enter_context(_logged_in(secure)) for _ in others]
        wait_until(lambda: time.monotonic() - found[-1][1] > 1.1, what="the time before which nobody may")
        for (raw, _), (mechanism, token) in zip(found, others, strict=True):
            assert raw.call(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
            assert _ended(raw, token)


def _ended(raw: Raw, token: bytes) -> bool:
    """True if the token is refused and the connection then closed.

    Kafka closes without an answer where the mechanism is another one.
    """
    try:
        assert raw.call(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 58
        raw.call(MetadataRequest(topics=[]), 8)
    except (EOFError, ConnectionError):
        return True
    return False
