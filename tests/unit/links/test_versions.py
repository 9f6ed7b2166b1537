"""Ends of different builds: they use the highest version that both speak, or say why they cannot speak."""

from __future__ import annotations

import hmac
from typing import Any

import msgpack
import pytest

from actors.links.calls import Calls
from actors.links.codec import Codec, NotSpokenError
from actors.links.control import CODEC, Answer, Call, Failed, Heartbeat, Join, WantSpares
from actors.links.known_topics import KnownTopics
from actors.links.operations import CLASSES, AllocateProducerIds, Done
from actors.links.proof import PEERS, Role, challenge_of, is_challenge, told_in
from actors.links.relay import HEAD, PAYLOADS, ForAll, Kind, RelayProtocol, packed_range
from actors.links.replication import CODEC as REPLICATION
from actors.links.replication import FoundBatches, Ping, WantBatches
from actors.links.status import Load
from actors.links.versions import FIRST, LAST, OWN, UNTOLD, Spoken, common, decoded, encoded, none_in_common
from tests.support.control_ends import CHALLENGE, PROOF, SECRET, End, framed, framed_message, met, talk
from tests.support.handler_helpers import Loop

OLD, NEW, NEWER = Spoken(0, 2, "0.1"), Spoken(1, 4, "0.2"), Spoken(3, 7, "0.3")


@pytest.mark.conformance("N-E-01")
@pytest.mark.parametrize(
    ("one", "other", "version"),
    [
        (UNTOLD, UNTOLD, 0),
        (UNTOLD, OLD, 0),
        (OLD, NEW, 2),
        (NEW, NEW, 4),
        (NEW, NEWER, 4),
        (OLD, NEWER, None),
        (UNTOLD, NEW, None),
        (Spoken(2, 2, "x"), OLD, 2),
    ],
)
def test_the_highest_version_that_both_speak_is_used(one: Spoken, other: Spoken, version: int | None) -> None:
    assert common(one, other) == common(other, one) == version


def test_this_build_speaks_with_those_from_before_versions_were_told() -> None:
    assert common(OWN, UNTOLD) == FIRST == 0
    assert common(OWN, OWN) == LAST


@pytest.mark.parametrize("spoken", [OWN, OLD, Spoken(0, 65535, "9" * 32), UNTOLD])
def test_what_an_end_speaks_fits_into_a_challenge_that_old_builds_take(spoken: Spoken) -> None:
    challenge = challenge_of(b"r" * 16, spoken)
    assert is_challenge(challenge)
    assert told_in(challenge) == spoken
    assert decoded(encoded(spoken)) == spoken


# --- control and replication ---


@pytest.mark.conformance("N-E-01")
@pytest.mark.parametrize("role", [role for role in PEERS if role not in ("pool", "member")])
def test_two_ends_of_any_link_know_what_the_other_speaks(role: Role) -> None:
    """A member's links have blocking sockets: tests/component/test_member_link_proof.py."""
    one, other = End(role, spoken=NEW), End(PEERS[role][0], spoken=NEWER)
    talk(one, other)
    assert (one.ready, other.ready) == (1, 1)
    assert (one.protocol.version, other.protocol.version) == (4, 4)
    assert (one.protocol.spoken, other.protocol.spoken) == (NEWER, NEW)


def answered(challenge: bytes) -> list[Any]:
    return [PROOF, hmac.digest(SECRET, b"broker:" + challenge, "sha256")]


def test_an_end_from_before_versions_were_told_is_spoken_with_in_version_0() -> None:
    controller = End("controller")
    ((tag, challenge),) = controller.said()
    assert tag == CHALLENGE
    assert 16 <= len(challenge) <= 64, "what such a build takes"
    controller.protocol.data_received(framed([CHALLENGE, b"c" * 16]) + framed(answered(challenge)))
    assert controller.said() == [[PROOF, hmac.digest(SECRET, b"controller:" + b"c" * 16, "sha256")]]
    assert (controller.ready, controller.protocol.version, controller.protocol.spoken) == (1, 0, UNTOLD)


@pytest.mark.conformance("N-E-01")
def test_two_ends_without_a_common_version_both_name_both_builds_and_ranges(caplog: pytest.LogCaptureFixture) -> None:
    controller, broker = End("controller", spoken=NEWER), End("broker", spoken=OLD)
    talk(controller, broker)
    assert (controller.ready, broker.ready, controller.messages) == (0, 0, [])
    assert controller.transport.closed
    assert broker.transport.closed
    own, other = "(build 0.3) speaks versions 3 to 7", "(build 0.1) speaks versions 0 to 2"
    assert controller.protocol.refused.endswith(f": this controller {own}, and the broker {other}")
    assert broker.protocol.refused.endswith(f": this broker {other}, and the controller {own}")
    assert controller.protocol.refused in caplog.text
    assert broker.protocol.refused in caplog.text


def test_an_old_build_without_a_common_version_is_named_by_the_new_one() -> None:
    controller = End("controller", spoken=NEW)
    ((_, challenge),) = controller.said()
    controller.protocol.data_received(framed([CHALLENGE, b"c" * 16]) + framed(answered(challenge)) + framed([1, 3]))
    assert controller.transport.closed
    assert (controller.ready, controller.messages) == (0, [])
    assert "the broker (an old build, which does not say so) speaks version 0" in controller.protocol.refused


def test_what_an_end_speaks_cannot_be_changed_on_the_way() -> None:
    controller, broker = End("controller"), End("broker")
    ((tag, challenge),) = controller.said()
    broker.take()
    broker.protocol.data_received(framed([tag, challenge_of(challenge[:16], UNTOLD)]))
    proofs = broker.take()
    controller.protocol.data_received(framed([CHALLENGE, b"c" * 16]) + proofs)
    assert controller.transport.aborted
    assert controller.ready == 0


@pytest.mark.parametrize("rest", [b"x", b"\x91\x02", b"\x94\x01\x00", encoded(OWN) + b"x"])
def test_what_is_no_range_of_versions_ends_the_connection(rest: bytes) -> None:
    controller = End("controller")
    controller.protocol.data_received(framed([CHALLENGE, b"c" * 16 + rest]))
    assert controller.transport.aborted


# --- kinds that are not known ---


@pytest.mark.conformance("N-E-03")
def test_a_kind_that_is_not_known_is_refused_by_name_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    controller, broker = End("controller"), End("broker", spoken=Spoken(0, 9, "9.9"))
    talk(controller, broker)
    unknown = framed([77, "of a newer build"])
    controller.protocol.data_received(unknown + unknown + framed_message(WantSpares(1)))
    assert controller.messages == [WantSpares(1)]
    assert not controller.transport.aborted
    (line,) = [record.getMessage() for record in caplog.records]
    its = "the broker (build 9.9) speaks versions 0 to 9"
    assert line == f"refused a message: control link: unknown tag 77: {its}, this controller {OWN}"


@pytest.mark.conformance("N-E-03")
def test_a_call_of_an_operation_that_is_not_known_fails_with_both_builds_and_ends_nothing() -> None:
    controller, broker = met()
    controller.protocol.data_received(framed([10, 5, [199, "x"], ""]))
    ((tag, number, text),) = controller.said()
    assert (tag, number) == (12, 5)
    assert text.startswith("control link: Call.operation: unknown tag 199: the broker (build ")
    broker.protocol.send(WantSpares(2))
    talk(controller, broker)
    assert controller.messages == [WantSpares(2)]


def test_a_call_within_another_that_is_not_known_fails() -> None:
    controller, _ = met()
    controller.protocol.data_received(framed([10, 6, [162, 1, [199]], ""]))
    assert [row[:2] for row in controller.said()] == [[12, 6]]


def test_who_waits_for_a_result_that_is_not_known_hears_so() -> None:
    controller, broker = met()
    heard: list[tuple[Any, Any]] = []
    calls = Calls(broker.protocol.send)
    calls.call(AllocateProducerIds(), lambda result, error: heard.append((result, error)))
    broker.protocol.data_received(framed([11, 1, [299, "x"]]))
    (failed,) = broker.messages
    assert isinstance(failed, Failed)
    calls.answered(failed)
    assert heard == [(None, failed.error)]
    assert "unknown tag 299: the controller (build " in failed.error
    assert not broker.transport.aborted
    assert controller.messages == []


def test_a_follower_refuses_a_kind_that_is_not_known_and_goes_on() -> None:
    leader, follower = End("leader"), End("follower")
    talk(leader, follower)
    follower.protocol.data_received(framed([60, 1]))
    leader.protocol.send(Ping(1.0))
    talk(leader, follower)
    assert follower.messages == [Ping(1.0)]


def test_before_the_proof_a_kind_that_is_not_known_ends_the_connection() -> None:
    controller = End("controller")
    controller.protocol.data_received(framed([77]))
    assert controller.transport.aborted


def test_an_operation_that_the_other_end_does_not_know_fails_here_and_ends_nothing() -> None:
    codec: Codec[Any] = Codec("later", {10: Call, **CLASSES}, since={AllocateProducerIds: 2})
    sent: list[bytes] = []
    calls = Calls(lambda call: sent.append(codec.encode(call, 1)))
    heard: list[tuple[Any, Any]] = []
    calls.call(AllocateProducerIds(), lambda result, error: heard.append((result, error)))
    assert sent == []
    assert heard == [
        (None, "the other end is of an older build: AllocateProducerIds is not in version 1 of the later link")
    ]
    calls.lose("lost")
    calls.answered(Answer(1, Done()))
    assert len(heard) == 1


def test_messages_are_those_of_the_version_that_both_use() -> None:
    """A build from before versions sends and takes the arrays of the first version, at exactly these lengths."""
    assert msgpack.unpackb(CODEC.encode(Join(3), 0)) == [1, 3]
    assert msgpack.unpackb(CODEC.encode(Heartbeat(1.5, Load()), 0)) == [5, 1.5, [0, 0, 0.0, 0, [], [], []], False]
    assert msgpack.unpackb(CODEC.encode(WantSpares(1), 0)) == [9, 1, 0, []]
    assert msgpack.unpackb(REPLICATION.encode(Ping(1.0), 0)) == [5, 1.0]


# --- the relay ---


class Transport:
    def __init__(self) -> None:
        self.written = b""
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.aborted = True

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        pass


def relay(*, accepts: bool, spoken: Spoken) -> tuple[RelayProtocol, Transport, Loop]:
    loop: Any = Loop()
    made: Any = Transport()
    protocol = RelayProtocol(
        loop, lambda *_: None, lambda _: None, lambda _: None, lambda _: True, accepts=accepts, spoken=spoken
    )
    protocol.connection_made(made)
    loop.turn()
    return protocol, made, loop


@pytest.mark.conformance("N-E-01")
def test_a_broker_says_what_it_speaks_before_anything_else_and_a_shard_in_its_hello() -> None:
    broker, transport, loop = relay(accepts=True, spoken=NEWER)
    broker.send(Kind.PING)
    loop.turn()
    _, kind, _, _ = HEAD.unpack_from(transport.written)
    assert kind == Kind.VERSIONS
    shard, its_transport, _ = relay(accepts=False, spoken=NEW)
    assert its_transport.written == b""
    assert shard.told(encoded(NEWER))
    assert broker.greeted(packed_range(NEW), NEW.build)
    assert (broker.version, shard.version) == (4, 4)
    assert (broker.spoken, shard.spoken) == (NEW, NEWER)


def test_a_shard_from_before_versions_were_told_is_spoken_with_in_version_0() -> None:
    broker, transport, _ = relay(accepts=True, spoken=OWN)
    assert broker.greeted(0, "0.1.0")
    assert (broker.version, broker.spoken) == (0, Spoken(0, 0, "0.1.0"))
    assert not transport.aborted


@pytest.mark.conformance("N-E-01")
def test_a_broker_and_a_shard_without_a_common_version_both_say_so(caplog: pytest.LogCaptureFixture) -> None:
    broker, transport, _ = relay(accepts=True, spoken=NEWER)
    shard, its_transport, _ = relay(accepts=False, spoken=OLD)
    assert not broker.greeted(packed_range(OLD), OLD.build)
    assert not shard.told(encoded(NEWER))
    assert transport.aborted
    assert its_transport.aborted
    assert none_in_common("broker", NEWER, "shard", OLD) in caplog.text
    assert none_in_common("shard", OLD, "broker", NEWER) in caplog.text


@pytest.mark.conformance("N-E-03")
def test_a_kind_of_the_relay_that_is_not_known_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    shard, transport, _ = relay(accepts=False, spoken=OLD)
    shard.told(encoded(NEW))
    shard.refuse(99)
    shard.refuse(99)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        "refused a message of kind 99 of the relay: the broker (build 0.2) speaks versions 1 to 4, this shard (build "
        "0.1) speaks versions 0 to 2"
    )
    assert not transport.aborted


def test_a_payload_is_encoded_in_the_version_that_both_ends_use() -> None:
    for spoken, version in ((OWN, LAST), (Spoken(0, 0, "0.1.0"), 0)):
        broker, transport, loop = relay(accepts=True, spoken=OWN)
        broker.greeted(packed_range(spoken), spoken.build)
        transport.written = b""
        known = ForAll(KnownTopics((("t", b"i", 1),)))
        for payload in (known, known, known.message):
            broker.say(Kind.TOPICS, payload)
        loop.turn()
        body = PAYLOADS.encode(known.message, version)
        assert transport.written == 3 * (HEAD.pack(13 + len(body), Kind.TOPICS, 0, 0) + body)


def test_a_broker_of_an_older_build_is_not_asked_for_batches() -> None:
    for message in (WantBatches(b"", 0, 0, 1), FoundBatches(b"", 0, 0, 1, b"")):
        with pytest.raises(NotSpokenError):
            REPLICATION.encode(message, 1)
        assert REPLICATION.decode(REPLICATION.encode(message, 2)) == message
