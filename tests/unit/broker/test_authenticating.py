"""A SASL listener's connection proves, frame by frame, who its client is: SECURITY.md, A.3 and B.1."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from actors.security.scram import ScramClient, ScramMechanism
from actors.wire.messages import ApiVersionsRequest, HeartbeatRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from tests.support.login_world import (
    DELAY,
    HANDSHAKE,
    METADATA,
    PLAIN,
    REQUEST_BYTES,
    SALTED,
    SHA_256,
    TOKEN,
    TOKEN_BYTES,
    Users,
    World,
    framed,
    request,
)
from tests.support.own_log import logged

# --- the bytes ---


@pytest.mark.conformance("XB-01", "XA-17")
def test_the_bytes_are_kafkas() -> None:
    client = World(3_600_000, (PLAIN, SHA_256)).connect()
    client.send(bytes.fromhex("0000001b00110001000000070002636c000d534352414d2d5348412d323536"))
    assert client.transport.written.hex() == "00000020000000070000000000020005504c41494e000d534352414d2d5348412d323536"
    sent = {
        0: "0000001400240000000000080002636c0000000400750070",
        1: request(SaslAuthenticateRequest(auth_bytes=b"\0u\0p"), 1, 8).hex(),
        2: "0000001300240002000000080002636c00050075007000",
    }
    answers = {
        (0, 3_600_000): "0000000c000000080000ffff00000000",
        (1, 3_600_000): "00000014000000080000ffff00000000000000000036ee80",
        (2, 0): "00000012000000080000000001000000000000000000",
    }
    for (version, lifetime_ms), answer in answers.items():
        client = World(lifetime_ms).connect()
        client.ask(SaslHandshakeRequest(mechanism=PLAIN), 1)
        client.send(bytes.fromhex(sent[version]))
        client.world.passwords.say(True)
        assert client.world.passwords.asked == [("u", "p")]
        assert client.transport.written.hex() == answer


@pytest.mark.conformance("XB-02", "XA-29")
def test_after_the_first_version_of_the_handshake_tokens_have_a_length_and_nothing_else() -> None:
    client = World().connect()
    assert client.ask(SaslHandshakeRequest(mechanism=PLAIN), 0).error_code == 0
    client.send(bytes.fromhex("0000000400750070"))
    assert client.world.passwords.asked == [("u", "p")]
    client.world.passwords.say(True)
    assert client.transport.written == bytes(4)
    client.send(METADATA)
    assert client.world.server.principals == ["User:u"]


@pytest.mark.conformance("XB-02")
def test_scram_goes_by_itself_too() -> None:
    client = World().connect()
    client.ask(SaslHandshakeRequest(mechanism=SHA_256), 0)
    scram = ScramClient(ScramMechanism.SHA_256, "user", "ours")
    client.send(framed(scram.first()))
    asked = scram.read_first(client.transport.written[4:])
    assert int.from_bytes(client.transport.written[:4], "big") == len(client.transport.written) - 4
    assert asked.salt == b"salt"
    client.transport.written = b""
    client.send(framed(scram.final(SALTED)))
    scram.read_final(client.transport.written[4:])
    assert client.connection.gate is None


@pytest.mark.conformance("XB-02", "XA-29", "XA-30")
@pytest.mark.parametrize("token", [b"", b"\0u\0", b"x" * TOKEN_BYTES])
def test_a_failure_without_frames_is_told_by_the_end_alone(token: bytes) -> None:
    client = World().connect()
    client.ask(SaslHandshakeRequest(mechanism=PLAIN), 0)
    client.send(framed(token))
    client.expect_failure(answered=False)


@pytest.mark.conformance("XB-15")
def test_a_nonce_is_random_and_printable() -> None:
    listener = World().listener
    drawn: list[int] = []
    listener.chance = SimpleNamespace(randbytes=lambda size: drawn.append(size) or bytes(range(size)))  # type: ignore[assignment]
    nonce = listener.nonce()
    assert drawn[0] * 8 >= 128
    assert nonce.isascii()
    assert nonce.isprintable()
    assert not set(nonce) & set(", =")
    listener.chance = SimpleNamespace(randbytes=lambda size: b"\xff" * size)  # type: ignore[assignment]
    assert listener.nonce() != nonce


# --- what may come ---


@pytest.mark.conformance("XA-13", "XA-16")
def test_versions_are_told_once() -> None:
    client = World().connect()
    client.send(request(ApiVersionsRequest(client_software_name="a-b.c", client_software_version="1"), 3))
    assert len(client.world.server.frames) == 1
    client.send(request(ApiVersionsRequest(), 0))
    assert client.transport.aborted
    assert len(client.world.server.frames) == 1


@pytest.mark.conformance("XA-14", "XA-15")
@pytest.mark.parametrize(
    ("message", "version"),
    [
        (ApiVersionsRequest(client_software_name="a b", client_software_version="1"), 3),
        (ApiVersionsRequest(client_software_name="ab", client_software_version="-1"), 3),
        (ApiVersionsRequest(client_software_name="", client_software_version="1"), 4),
        (ApiVersionsRequest(), 99),
    ],
)
def test_who_asks_for_them_in_a_wrong_way_may_ask_again(message: ApiVersionsRequest, version: int) -> None:
    client = World().connect()
    asked = request(message, min(version, 4))
    asked = asked[:6] + version.to_bytes(2, "big") + asked[8:]
    for _ in range(3):
        client.send(asked)
    client.send(request(ApiVersionsRequest(), 0))
    client.send(HANDSHAKE)
    assert client.answer(SaslHandshakeRequest(), 1).error_code == 0
    assert len(client.world.server.frames) == 4


def _handshake_of(version: int) -> bytes:
    return HANDSHAKE[:6] + version.to_bytes(2, "big") + HANDSHAKE[8:]


_STRANGE = {
    "another request": METADATA,
    "a token before the handshake": TOKEN,
    "an unknown version of the handshake": _handshake_of(2),
    "no request": framed(b"GET / HTTP/1.1\r\n\r\n"),
    "a token of GSSAPI": framed(bytes.fromhex("6082014006092a864886f712010202")),
    "a handshake that is cut off": framed(HANDSHAKE[4:-3]),
    "a negative length": (-1).to_bytes(4, "big", signed=True),
    "a short frame": framed(HANDSHAKE[4:13]),
    "a long frame": (TOKEN_BYTES + 1).to_bytes(4, "big"),
    "an endless frame": b"\x7f\xff\xff\xff",
}


@pytest.mark.conformance("XA-19", "XA-23", "XA-30", "XB-04")
@pytest.mark.parametrize("first", [b"", request(ApiVersionsRequest(), 0)], ids=["INITIAL", "VERSIONS_TOLD"])
@pytest.mark.parametrize("what", _STRANGE)
def test_a_stranger_who_sends_anything_else_fails_without_an_answer(first: bytes, what: str) -> None:
    client = World().connect()
    if first:
        client.send(first)
        client.world.server.frames.clear()
    client.send(_STRANGE[what])
    client.expect_failure(answered=False)


@pytest.mark.conformance("XA-19")
def test_so_does_one_whose_question_for_versions_is_cut_off() -> None:
    client = World().connect()
    client.send(framed(request(ApiVersionsRequest(client_software_name="abc"), 3)[4:-4]))
    client.expect_failure(answered=False)


@pytest.mark.conformance("XA-18", "XA-30")
def test_a_mechanism_that_is_not_enabled_is_answered_after_the_delay() -> None:
    client = World(mechanisms=(SHA_256,)).connect()
    client.send(HANDSHAKE)
    client.expect_failure(answered=True)
    answer = client.answer(SaslHandshakeRequest(), 1)
    assert (answer.error_code, answer.mechanisms) == (33, [SHA_256])


@pytest.mark.conformance("XA-21", "XA-23")
@pytest.mark.parametrize(
    "frame",
    [
        METADATA,
        HANDSHAKE,
        request(ApiVersionsRequest(), 0),
        TOKEN[:6] + b"\0\x03" + TOKEN[8:],
        framed(TOKEN[4:-1]),
        (TOKEN_BYTES + 1).to_bytes(4, "big"),
    ],
)
def test_nothing_but_tokens_may_come_after_the_handshake(frame: bytes) -> None:
    client = World().connect()
    client.send(HANDSHAKE)
    client.transport.written = b""
    client.send(frame)
    client.expect_failure(answered=False)


@pytest.mark.conformance("XA-20", "XA-30")
def test_who_does_not_know_the_password_is_told_so_after_the_delay() -> None:
    client = World().connect()
    begun = client.world.loop.now
    answer = client.log_in("pen")
    assert answer.error_code == 58
    assert answer.auth_bytes == b""
    assert client.world.loop.now - begun == DELAY
    assert client.transport.closed
    assert client.world.listener.counts == {"failed": 1}


@pytest.mark.conformance("XA-20", "XA-26")
def test_who_knows_it_is_served_under_his_name_with_the_limits_of_clients() -> None:
    client = World().connect()
    answer = client.log_in()
    assert (answer.error_code, answer.auth_bytes[:2], answer.session_lifetime_ms) == (0, b"v=", 0)
    client.send(framed(METADATA[4:].ljust(REQUEST_BYTES, b"\0")))
    assert client.world.server.principals == ["User:user"]
    assert len(client.world.unauthenticated) == 0
    client.send((REQUEST_BYTES + 1).to_bytes(4, "big"))
    assert client.transport.aborted


# --- frames in one segment, and in many ---


@pytest.mark.conformance("XA-26", "XA-27", "XA-28")
@pytest.mark.parametrize("right", [True, False, None])
def test_what_follows_a_token_in_one_segment_waits_for_the_verdict(right: bool | None) -> None:
    client = World().connect()
    longer = framed(METADATA[4:].ljust(TOKEN_BYTES + 1, b"\0"))  # before the verdict it would be too long
    client.send(HANDSHAKE + TOKEN + METADATA + longer)
    assert client.world.server.frames == []
    assert not client.transport.reading
    client.transport.written = b""
    client.world.passwords.say(right)
    if right:
        assert client.world.server.principals == ["User:user", "User:user"]
        assert client.transport.reading
        assert client.answer(SaslAuthenticateRequest(), 1).error_code == 0
    else:
        client.expect_failure(answered=right is False)


@pytest.mark.conformance("XA-27")
def test_a_stranger_is_found_wherever_the_bytes_are_cut() -> None:
    stream = request(ApiVersionsRequest(), 0) + HANDSHAKE + TOKEN + METADATA
    for right in (True, False):
        for cut in range(len(stream) + 1):
            client = World().connect()
            client.send(stream[:cut])
            if client.world.passwords.asked:
                client.world.passwords.say(right)
            client.send(stream[cut:])
            if len(client.world.passwords.unanswered):
                client.world.passwords.say(right)
            expected = ["User:ANONYMOUS", "User:user"] if right else ["User:ANONYMOUS"]
            assert client.world.server.principals == expected, f"cut at {cut}"
            assert client.connection.principal == expected[-1]


@pytest.mark.conformance("XA-31")
def test_a_client_that_goes_while_its_password_is_verified_leaves_nothing() -> None:
    client = World().connect()
    client.send(HANDSHAKE + TOKEN + METADATA)
    client.connection.connection_lost(None)
    client.world.passwords.say(True)
    assert client.world.server.frames == []
    assert client.connection.principal == "User:ANONYMOUS"


@pytest.mark.conformance("XA-31")
def test_a_client_that_goes_before_its_answer_leaves_nothing() -> None:
    client = World(mechanisms=(SHA_256,)).connect()
    client.send(HANDSHAKE)
    client.connection.connection_lost(None)
    client.world.loop.advance(10.0)
    assert client.transport.written == b""


@pytest.mark.conformance("XA-31", "XG-10")
def test_no_timer_keeps_a_connection_that_has_failed_and_gone() -> None:
    """With all that its TLS has: a thousand failed logins a second kept a thousand connections."""
    client = World().connect()
    client.send(METADATA)
    client.world.loop.advance(DELAY)
    assert client.transport.closed
    client.connection.connection_lost(None)
    assert client.world.listener.failing == {}
    assert all(timer.cancelled for timer in client.world.loop.timers)


@pytest.mark.conformance("XB-06")
def test_a_fault_of_ours_is_logged_and_told_like_wrong_credentials(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = World().connect()

    def faulty(*_: object) -> None:
        raise KeyError("no such thing")

    monkeypatch.setattr(Users, "credential", faulty)
    client.ask(SaslHandshakeRequest(mechanism=SHA_256), 1)
    client.send(request(SaslAuthenticateRequest(auth_bytes=b"n,,n=user,r=ours"), 2))
    client.expect_failure(answered=True)
    answer = client.answer(SaslAuthenticateRequest(), 2)
    assert (answer.error_code, "invalid credentials" in answer.error_message) == (58, True)
    assert "KeyError: 'no such thing'" in caplog.text
    assert "n=user" not in caplog.text


# --- logs and limits ---


@pytest.mark.conformance("XA-34")
def test_a_failure_is_one_line_without_what_was_sent(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    for _ in range(3):
        client = world.connect()
        client.send(HANDSHAKE)
        token = b"\0" + b"ev\nil\x1b[31m" + b"x" * 100 + b"\0pencil"
        client.send(request(SaslAuthenticateRequest(auth_bytes=token), 1))
        world.passwords.say(False)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("10.0.0.7 at SASL: failed authentication of 'ev\\nil\\x1b[31mxxx")
    assert line.endswith("xxx' by PLAIN: wrong credentials")
    assert len(line) < 200
    assert "pencil" not in line
    world.loop.advance(1.0)
    world.loop.advance(1.0)
    client = world.connect()
    client.send(METADATA)
    assert logged(caplog)[-1].endswith("an unexpected request (and 2 more that were not logged)")
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


@pytest.mark.conformance("XA-32")
def test_who_has_not_proved_who_he_is_in_time_is_closed_on_whatever_he_sends() -> None:
    world = World()
    slow, good = world.connect(), world.connect()
    good.log_in()
    for byte in (HANDSHAKE + TOKEN)[:29]:
        slow.send(bytes([byte]))
        world.loop.advance(1.0)
        world.unauthenticated.close_overdue()
    assert not slow.transport.aborted
    world.loop.advance(1.0)
    world.unauthenticated.close_overdue()
    assert slow.transport.aborted
    assert not good.transport.aborted


@pytest.mark.conformance("XA-33")
def test_one_address_cannot_keep_others_out() -> None:
    world = World()
    first = world.connect("10.0.0.8")
    clients = [world.connect() for _ in range(5)]
    assert [client.transport.aborted for client in clients] == [True, True, True, False, False]
    other = world.connect("10.0.0.9")
    assert [client.transport.aborted for client in (*clients[3:], first, other)] == [True, False, False, False]
    assert len(world.unauthenticated) == 3
    assert first.log_in().error_code == 0, "those who are let in do not count"
    assert len(world.unauthenticated) == 2


def test_heartbeats_before_the_handshake_are_no_different() -> None:
    client = World().connect()
    client.send(request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3))
    client.expect_failure(answered=False)
