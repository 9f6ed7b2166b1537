"""Control connections: nobody is heard before proving that they know the cluster's secret."""

from __future__ import annotations

import hmac
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.replication.pushes import FRAME_BYTES
from actors.links.control import CODEC, Applied, ControlMessage, Image, Join, WantSpares
from actors.links.proof import Role
from actors.settings.kinds import MAX_INT
from placement.metadata import ClusterMetadata
from tests.support.control_ends import CHALLENGE, PROOF, SECRET, End, framed, framed_message, met, talk


def test_two_ends_that_know_the_secret_hear_one_another() -> None:
    controller, broker = met()
    assert (controller.ready, broker.ready) == (1, 1)
    broker.protocol.send(WantSpares(1))
    controller.protocol.send(Applied(2))
    talk(controller, broker)
    assert controller.messages == [WantSpares(1)]
    assert broker.messages == [Applied(2)]


@pytest.mark.conformance("XG-13")
def test_an_end_with_another_secret_is_hung_up_on_and_never_heard() -> None:
    controller, stranger = End("controller"), End("broker", b"t" * 32)
    stranger.protocol.send(Join(3))
    talk(controller, stranger)
    assert controller.transport.aborted
    assert (controller.ready, controller.messages) == (0, [])


def test_the_secret_itself_never_travels() -> None:
    controller, broker = End("controller"), End("broker")
    seen = b""
    while controller.transport.out or broker.transport.out:
        data = controller.take()
        seen += data
        broker.protocol.data_received(data)
        data = broker.take()
        seen += data
        controller.protocol.data_received(data)
    assert controller.ready == 1
    assert SECRET not in seen


@pytest.mark.conformance("XG-13")
def test_an_end_cannot_be_made_to_answer_its_own_challenge() -> None:
    controller = End("controller")
    (challenge,) = controller.said()
    controller.protocol.data_received(framed(challenge))  # its own, sent back
    (proof,) = controller.said()
    controller.protocol.data_received(framed(proof))
    assert controller.transport.aborted
    assert controller.ready == 0


@pytest.mark.conformance("XG-13")
def test_nor_to_answer_it_on_another_connection() -> None:
    victim, helper = End("controller"), End("controller")
    (challenge,) = victim.said()
    helper.said()
    helper.protocol.data_received(framed(challenge))
    (proof,) = helper.said()
    helper_challenge = [CHALLENGE, b"anything"]
    victim.protocol.data_received(framed(helper_challenge) + framed(proof) + framed_message(Join(3)))
    assert victim.transport.aborted
    assert (victim.ready, victim.messages) == (0, [])


@pytest.mark.conformance("XG-13")
def test_what_proved_an_end_once_does_not_prove_it_again() -> None:
    controller, broker = End("controller"), End("broker")
    said = broker.take()
    broker.protocol.data_received(controller.take())
    said += broker.take()
    controller.protocol.data_received(said)
    assert controller.ready == 1
    another = End("controller")
    another.protocol.data_received(said)
    assert another.transport.aborted
    assert another.ready == 0


@pytest.mark.parametrize(
    "first",
    [
        [3, "hello"],
        [PROOF, b""],
        [PROOF, "text"],
        [PROOF, 5],
        [PROOF],
        [CHALLENGE, 5],
        [CHALLENGE, "text"],
        [CHALLENGE, b"c", b"more"],
        [[CHALLENGE], b"c"],
        ["challenge"],
        [],
        "challenge",
        5,
        None,
        {},
    ],
)
def test_anything_but_a_challenge_and_a_proof_ends_the_connection(first: Any) -> None:
    controller = End("controller")
    controller.protocol.data_received(framed(first))
    assert controller.transport.aborted
    assert (controller.ready, controller.messages) == (0, [])


@given(st.binary(min_size=1, max_size=400))
def test_garbage_is_never_heard_and_never_kept(data: bytes) -> None:
    controller = End("controller")
    controller.protocol.data_received(data)
    assert (controller.ready, controller.messages) == (0, [])
    assert controller.protocol.gathered_bytes <= len(data)


def test_before_the_proof_a_message_may_be_4096_bytes_and_no_more() -> None:
    controller = End("controller")
    controller.protocol.data_received((4097).to_bytes(4, "big"))
    assert controller.transport.aborted


def test_after_the_proof_an_image_may_be_large_but_not_endless() -> None:
    controller, broker = met()
    image = Image(ClusterMetadata("x" * 1_000_000))
    controller.protocol.send(image)
    talk(controller, broker)
    assert broker.messages == [image]
    broker.protocol.data_received(((128 << 20) + 1).to_bytes(4, "big"))
    assert broker.transport.aborted


@pytest.mark.parametrize(("role", "peer"), [("leader", "follower"), ("follower", "leader")])
def test_a_frame_between_replicas_has_room_for_a_batch_of_any_size(role: Role, peer: Role) -> None:
    for length, ends in ((MAX_INT + FRAME_BYTES + (8 << 20), False), ((1 << 32) - 1, True)):
        one, other = End(role), End(peer)
        talk(one, other)
        one.protocol.data_received(length.to_bytes(4, "big"))
        assert one.transport.aborted == ends


def test_a_second_challenge_ends_the_connection() -> None:
    controller = End("controller")
    controller.protocol.data_received(framed([CHALLENGE, b"a" * 16]) + framed([CHALLENGE, b"b" * 16]))
    assert controller.transport.aborted
    assert len(controller.said()) == 2  # its challenge and one proof


def test_messages_are_found_wherever_the_bytes_are_cut() -> None:
    sent: list[ControlMessage] = [WantSpares(1), Image(ClusterMetadata("x" * 50))]
    stream = b"".join(map(framed_message, sent))
    for cut in range(1, len(stream)):
        controller, _ = met()
        controller.protocol.data_received(stream[:cut])
        controller.protocol.data_received(stream[cut:])
        assert controller.messages == sent, f"cut at {cut}"


def test_a_malformed_message_ends_its_connection_and_the_log_names_the_field(caplog: pytest.LogCaptureFixture) -> None:
    controller, broker = met()
    wrong = [*msgpack.unpackb(CODEC.encode(WantSpares(1)))[:1], "many", 0, []]
    controller.protocol.data_received(framed_message(Join(3)) + framed(wrong) + framed_message(Join(3)))
    assert controller.transport.aborted
    assert controller.messages == [Join(3)], "what came before it was heard, what came after it was not"
    assert "WantSpares.count: 'many' is no int" in caplog.text
    assert not broker.transport.aborted


def test_what_was_read_before_a_close_is_not_heard_after_it() -> None:
    controller, broker = met()
    controller.on_message = lambda _: controller.protocol.close()
    broker.protocol.send(WantSpares(1))
    broker.protocol.send(WantSpares(2))
    talk(controller, broker)
    assert controller.messages == [WantSpares(1)]


def test_the_end_of_a_connection_is_told_and_sending_after_it_is_harmless() -> None:
    controller, _ = met()
    controller.protocol.connection_lost(None)
    controller.protocol.send(WantSpares(1))
    assert controller.lost == 1
    assert controller.take() == b""


def test_the_proof_is_bound_to_the_role_and_the_challenge() -> None:
    broker = End("broker")
    broker.said()
    broker.protocol.data_received(framed([CHALLENGE, b"c" * 16]))
    ((tag, proof),) = broker.said()
    assert tag == PROOF
    assert proof == hmac.digest(SECRET, b"broker:" + b"c" * 16, "sha256")
    assert proof != hmac.digest(SECRET, b"controller:" + b"c" * 16, "sha256")
