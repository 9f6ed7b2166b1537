"""The relay between a broker and a shard process: messages however the bytes arrive, written once a turn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.links.relay import HEAD, RELAY_QUEUE_MAX_BYTES, Kind, RelayProtocol
from tests.support.handler_helpers import Loop

Message = tuple[int, int, int, bytes]


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.aborted = False
        self.limits = (0, 0)

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.aborted = True

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self.limits = (high, low)


class End:
    """One end of the link, and what it was told."""

    def __init__(self, *, ours: bool = True) -> None:
        self.ours = ours
        self.loop = Loop()
        self.messages: list[Message] = []
        self.turns = 0
        self.lost = 0
        self.backlog: list[bool] = []
        loop: Any = self.loop
        self.protocol = RelayProtocol(
            loop,
            lambda protocol, *message: self.messages.append(message),
            self._on_turn,
            self._on_lost,
            lambda _: self.ours,
            lambda protocol, full: self.backlog.append(full),
        )
        self.transport = Transport()
        made: Any = self.transport
        self.protocol.connection_made(made)

    def _on_turn(self, protocol: RelayProtocol) -> None:
        self.turns += 1

    def _on_lost(self, protocol: RelayProtocol) -> None:
        self.lost += 1


def bytes_of(messages: list[Message]) -> bytes:
    end = End()
    for message in messages:
        end.protocol.send(*message)
    end.loop.turn()
    return b"".join(end.transport.written)


MESSAGES: list[Message] = [
    (Kind.OPEN, 7, 0, b"10.0.0.1"),
    (Kind.REQUEST, 7, (1 << 63) + 5, b"x" * 300),
    (Kind.PING, 0, 0, b""),
    (Kind.HIGH_WATERMARK, 0, 1 << 40, b""),
]

messages = st.lists(
    st.tuples(
        st.sampled_from(Kind), st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1), st.binary(max_size=99)
    ),
    max_size=10,
)


def test_messages_are_found_wherever_the_bytes_are_cut() -> None:
    stream = bytes_of(MESSAGES)
    for cut in range(1, len(stream)):
        end = End()
        end.protocol.data_received(stream[:cut])
        end.protocol.data_received(stream[cut:])
        assert end.messages == MESSAGES, f"cut at {cut}"


@given(messages, st.data())
def test_messages_arrive_as_sent_in_any_division_into_reads(sent: list[Message], data: st.DataObject) -> None:
    stream = bytes_of(sent)
    end = End()
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        end.protocol.data_received(stream[:size])
        stream = stream[size:]
    assert end.messages == sent


@pytest.mark.conformance("XE-22")
def test_a_process_of_another_user_is_hung_up_on() -> None:
    assert End(ours=False).transport.aborted
    assert not End().transport.aborted


def test_everything_sent_in_one_turn_leaves_in_one_write() -> None:
    end = End()
    for message in MESSAGES:
        end.protocol.send(*message)
    assert end.transport.written == []
    end.loop.turn()
    assert len(end.transport.written) == 1
    end.protocol.send(Kind.PING)
    end.loop.turn()
    assert len(end.transport.written) == 2


def test_a_turn_is_told_once_after_all_the_messages_of_a_read() -> None:
    end = End()
    end.protocol.data_received(bytes_of(MESSAGES))
    assert (len(end.messages), end.turns) == (4, 1)


def test_a_long_message_is_announced_only_when_it_is_whole() -> None:
    end = End()
    long: Message = (Kind.LOAD, 3, 0, b"z" * 1_000_000)
    stream = bytes_of([long])
    for at in range(0, len(stream), 65_536):
        assert end.messages == []
        end.protocol.data_received(stream[at : at + 65_536])
    assert end.messages == [long]


def test_the_queue_that_pauses_clients_is_8_mib() -> None:
    end = End()
    assert end.transport.limits[0] == RELAY_QUEUE_MAX_BYTES == 8 << 20
    assert 0 < end.transport.limits[1] < RELAY_QUEUE_MAX_BYTES
    end.protocol.pause_writing()
    end.protocol.resume_writing()
    assert end.backlog == [True, False]


def test_what_is_sent_after_the_end_goes_nowhere() -> None:
    end = End()
    end.protocol.send(Kind.PING)
    end.protocol.connection_lost(None)
    end.loop.turn()
    end.protocol.send(Kind.PING)
    end.loop.turn()
    assert end.transport.written == []
    assert end.lost == 1
    end.protocol.close()  # harmless
    assert not end.transport.aborted


def test_an_end_that_was_closed_before_it_was_connected_lived_on() -> None:
    end = End()
    end.protocol.connection_lost(None)
    end.protocol.close()
    again: Any = Transport()
    end.protocol.connection_made(again)
    assert again.aborted
    assert end.transport.written == again.written == []


NUMBERS = (
    *("HELLO", "BECOME", "LOAD", "LOADED", "ACTIVE", "OPEN", "CLOSE", "REQUEST", "RESPONSE", "APPEND", "APPENDED"),
    *("REFUSED", "HIGH_WATERMARK", "TOPICS", "PING", "PONG", "RESIGN", "LOAD_MORE", "END"),
    *("DESCRIBE", "DESCRIBED", "MAY_SLEEP", "RESTS", "TOPICS_DELETED", "REBALANCES", "LOG_LEVELS", "HOST", "VERSIONS"),
    *("SETTINGS", "MATCHED", "VISIBLE"),
)


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_keeps_its_number_on_the_wire(kind: Kind) -> None:
    # A broker may be newer than a shard process that waits to be adopted: numbers are never reused, only added.
    length, number, _, _ = HEAD.unpack_from(bytes_of([(kind, 0, 0, b"")]))
    assert (length, number) == (13, kind.value)
    assert NUMBERS[number - 1] == kind.name
