"""The source of the keys of tokens: an https server on loopback, honest and not. SECURITY.md, XB-29."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from actors.broker.entrance.token_keys import SECONDS, HttpsRead, KeySource, Pace
from actors.settings import BrokerConfig
from actors.settings.sasl import EXPECTED_AUDIENCE, EXPECTED_ISSUER, JWKS_URL
from tests.support.runtime_helpers import until
from tests.support.tls_world import CA, LEAF
from tests.support.tokens import Provider, jwk, jwks, provider

NEVER = Pace(3600, 3600, 3600)
KEYS = jwks(jwk("RSA", "one"))
LATER = jwks(jwk("RSA", "two", 1))


@pytest.fixture
def issuer() -> Iterator[Provider]:
    with provider(LEAF) as made:
        made.answer = lambda: (200, KEYS)
        yield made


@pytest.fixture
def ca_file(tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    path.write_bytes(CA.cert_pem.bytes())
    return str(path)


@asynccontextmanager
async def source(
    url: str, ca_file: str | None, pace: Pace = NEVER, loop: Any = None, patience_s: float = SECONDS
) -> AsyncIterator[KeySource]:
    loop = loop or asyncio.get_running_loop()
    made = KeySource("L", url, lambda: HttpsRead(url, ca_file, patience_s), pace, loop, patience_s)
    await made.open()
    await made.read()  # the first reading, which is under way
    try:
        yield made
    finally:
        made.close()


@pytest.mark.conformance("XB-29")
async def test_keys_are_read_in_a_thread(issuer: Provider, ca_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    read = HttpsRead.read

    def noted(self: HttpsRead) -> bytes:
        threads.append(threading.get_ident())
        return read(self)

    monkeypatch.setattr(HttpsRead, "read", noted)
    async with source(issuer.url + "?a=b", ca_file) as made:
        assert list(made.keys) == ["one"]
    assert threads
    assert threading.get_ident() not in threads
    assert issuer.asked == ["/keys?a=b"]


@pytest.mark.conformance("XB-29")
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((500, KEYS), "HTTP status 500"),
        ((404, b""), "HTTP status 404"),
        ((302, KEYS), "HTTP status 302"),
        ((200, b"<html>"), "no JSON object"),
        ((200, jwks()), "no RSA or EC key"),
        ((200, KEYS + b" " * (1 << 20)), "more than 1048576 bytes"),
    ],
)
async def test_what_has_no_keys_leaves_those_in_force_that_are_there(
    issuer: Provider, ca_file: str, answer: tuple[int, bytes], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with source(issuer.url, ca_file) as made:
        issuer.answer = lambda: answer
        await made.look_for_unknown()
        assert list(made.keys) == ["one"]
        assert len(issuer.asked) == 2
        (line,) = caplog.messages
        assert words in line
        assert line.endswith("those from before stay in force")


@pytest.mark.conformance("XB-29")
async def test_a_server_that_cannot_prove_who_it_is_is_not_believed(ca_file: str, tmp_path: Path) -> None:
    other = trustme.CA()
    for leaf in (other.issue_cert("localhost"), CA.issue_cert("elsewhere.example.com")):
        with provider(leaf) as liar:
            liar.answer = lambda: (200, KEYS)
            async with source(liar.url, ca_file) as made:
                assert made.keys == {}
                assert liar.asked == []
    with provider(LEAF) as unknown:
        async with source(unknown.url, None) as made:
            assert made.keys == {}, "the system does not know the authority"


@contextmanager
def silent() -> Iterator[str]:
    """A server that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"https://localhost:{server.getsockname()[1]}/"


@pytest.mark.conformance("XB-29")
async def test_who_does_not_answer_is_given_up(ca_file: str, caplog: pytest.LogCaptureFixture) -> None:
    with silent() as url:
        async with source(url, ca_file, patience_s=0.1) as made:
            assert made.keys == {}
    assert "nobody can log in by OAUTHBEARER until then" in caplog.text


@pytest.mark.conformance("XB-29")
async def test_who_answers_drop_by_drop_is_given_up_and_its_thread_ends(
    issuer: Provider, ca_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    read = HttpsRead.read

    def noted(self: HttpsRead) -> bytes:
        try:
            return read(self)
        finally:
            ended.set()

    # For each byte, too, of which one comes every 10 ms.
    async with source(issuer.url, ca_file, patience_s=2.0) as made:
        monkeypatch.setattr(HttpsRead, "read", noted)
        issuer.trickles = True
        await made.look_for_unknown()
        await until(ended.is_set)
        assert list(made.keys) == ["one"]


@pytest.mark.conformance("XB-29")
async def test_an_unknown_key_has_keys_read_once_a_minute_whoever_asks(issuer: Provider, ca_file: str) -> None:
    loop = asyncio.get_running_loop()
    now = loop.time()
    async with source(issuer.url, ca_file, loop=_Put(loop, lambda: now)) as made:
        await asyncio.gather(*(made.look_for_unknown() for _ in range(100)))
        await made.look_for_unknown()
        assert len(issuer.asked) == 2
        now += 59.9
        await made.look_for_unknown()
        assert len(issuer.asked) == 2
        now += 0.1
        issuer.answer = lambda: (200, LATER)
        await made.look_for_unknown()
        assert len(issuer.asked) == 3
        assert list(made.keys) == ["two"], "keys that are gone do not count any more"


@pytest.mark.conformance("XB-29")
async def test_keys_are_read_again_from_time_to_time(issuer: Provider, ca_file: str) -> None:
    async with source(issuer.url, ca_file, Pace(0.01, 3600, 3600)) as made:
        issuer.answer = lambda: (200, LATER)
        await until(lambda: list(made.keys) == ["two"])
        assert len(issuer.asked) >= 2


@pytest.mark.conformance("XB-29")
async def test_what_has_failed_is_tried_again_and_told_once(
    issuer: Provider, ca_file: str, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.answer = lambda: (503, b"")
    async with source(issuer.url, ca_file, Pace(3600, 0.001, 0.01)) as made:
        await until(lambda: len(issuer.asked) >= 5)
        assert made.keys == {}
        issuer.answer = lambda: (200, KEYS)
        await until(lambda: made.keys)
    assert len([line for line in caplog.messages if "cannot be read" in line]) == 1


@pytest.mark.conformance("XB-29")
def test_pauses_double_from_what_is_set_to_what_is_set() -> None:
    listener = {"listeners": "L://:0", "listener.security.protocol.map": "L:SASL_SSL"}
    token = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        JWKS_URL: "https://localhost/",
        EXPECTED_ISSUER: "https://localhost/",
        EXPECTED_AUDIENCE: "kafka",
    }
    own = BrokerConfig.from_mapping(listener | token).for_listener("L").for_mechanism("OAUTHBEARER")
    pace = Pace.of(own)
    assert [pace.pause(failures) for failures in (0, 1, 2, 3, 7, 8, 10_000)] == [3600, 0.1, 0.2, 0.4, 6.4, 10, 10]


class _Put:
    """A loop whose clock the test has."""

    def __init__(self, loop: asyncio.AbstractEventLoop, time: Callable[[], float]) -> None:
        self._loop = loop
        self.time = time

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)
