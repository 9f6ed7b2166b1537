"""A client's connection stops reading and writing at the limits that protect a broker, and goes on after."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.connections.connection import MAX_OPEN_SLOTS, Connection
from actors.log.errors import StorageError
from tests.support.client_connection import Server, Transport, bodies, connect, request


def answer_all(connection: Connection, server: Server) -> None:
    for number, slot in enumerate(server.slots):
        if slot.answer is None:
            slot.finish(b"<%d>" % number)
    connection.flush()


def test_reading_stops_while_too_many_slots_are_open_and_goes_on_after() -> None:
    connection, server, transport = connect()
    total = MAX_OPEN_SLOTS + 100
    connection.data_received(b"".join(request(str(i)) for i in range(total)))
    assert len(server.frames) == MAX_OPEN_SLOTS
    assert not transport.reading
    answer_all(connection, server)
    assert len(server.frames) == total
    assert transport.reading
    assert bodies(server) == [b"%d" % i for i in range(total)]
    answer_all(connection, server)
    assert b"".join(transport.written) == b"".join(b"<%d>" % i for i in range(total))


def test_a_free_slot_lets_exactly_one_more_request_in() -> None:
    connection, server, transport = connect()
    connection.data_received(b"".join(request(str(i)) for i in range(MAX_OPEN_SLOTS + 2)))
    server.slots[0].finish(b"<0>")
    connection.flush()
    assert len(server.frames) == MAX_OPEN_SLOTS + 1
    assert not transport.reading


def test_a_client_that_does_not_read_its_answers_is_not_read_either() -> None:
    connection, server, transport = connect()
    connection.pause_writing()
    assert not transport.reading
    connection.data_received(request("was on its way"))  # the kernel had it already
    assert server.frames == []
    connection.resume_writing()
    assert bodies(server) == [b"was on its way"]
    assert transport.reading


def test_a_write_that_fills_the_buffer_stops_the_frames_behind_it() -> None:
    connection, server, _ = connect()

    def answer_big(connection: Connection, frame: bytes) -> None:
        server.slots[-1].finish(b"big")
        connection.flush()
        connection.pause_writing()  # as the transport does from within write

    server.react = answer_big
    connection.data_received(request("1") + request("2") + request("3"))
    assert bodies(server) == [b"1"]
    server.react = None
    connection.resume_writing()
    assert bodies(server) == [b"1", b"2", b"3"]


def test_a_held_connection_goes_on_when_every_hold_is_released() -> None:
    connection, server, transport = connect()
    server.react = lambda connection, frame: connection.hold() if len(server.frames) == 1 else None
    connection.data_received(request("1") + request("2")[:7])
    connection.data_received(request("2")[7:] + request("3"))
    connection.hold()
    assert bodies(server) == [b"1"]
    assert not transport.reading
    connection.release()
    assert bodies(server) == [b"1"]
    connection.release()
    assert bodies(server) == [b"1", b"2", b"3"]
    assert transport.reading


def test_an_incomplete_frame_that_was_held_is_completed_later() -> None:
    connection, server, transport = connect()
    stream = request("whole") + request("cut in the middle")
    connection.hold()
    connection.data_received(stream[:-5])
    connection.release()
    assert bodies(server) == [b"whole"]
    assert transport.reading
    connection.data_received(stream[-5:])
    assert bodies(server) == [b"whole", b"cut in the middle"]


@given(st.lists(st.sampled_from(["hold", "release", "pause", "resume", "data", "answer"]), max_size=60))
def test_no_request_is_lost_or_repeated_whatever_stops_reading(steps: list[str]) -> None:
    connection, server, transport = connect()
    stream = b"".join(request(str(i)) for i in range(40))
    holds, paused, sent = 0, False, 0
    for step in steps:
        if step == "hold":
            connection.hold()
            holds += 1
        elif step == "release" and holds:
            connection.release()
            holds -= 1
        elif step in ("pause", "resume") and paused == (step == "resume"):
            (connection.pause_writing if step == "pause" else connection.resume_writing)()
            paused = step == "pause"
        elif step == "data":
            connection.data_received(stream[sent : sent + 13])
            sent += 13
        elif step == "answer":
            answer_all(connection, server)
        if holds or paused:
            assert not transport.reading
    for _ in range(holds):
        connection.release()
    if paused:
        connection.resume_writing()
    if sent < len(stream):
        connection.data_received(stream[sent:])
    assert transport.reading
    assert bodies(server) == [b"%d" % i for i in range(40)]


def test_answers_held_back_by_one_before_them_stop_reading_before_they_fill_the_memory() -> None:
    connection, server, transport = connect()

    def answer_large(connection: Connection, frame: bytes) -> None:
        if len(server.frames) > 1:  # the first is parked
            server.slots[-1].finish(b"x" * (1 << 19))

    server.react = answer_large
    connection.data_received(b"".join(request(str(i)) for i in range(20)))
    assert len(server.frames) <= 5
    assert not transport.reading
    server.slots[0].finish(b"at last")
    connection.flush()
    assert bodies(server) == [b"%d" % i for i in range(20)]
    assert b"".join(transport.written) == b"at last" + b"x" * (19 << 19)
    assert transport.reading


class FileOf:
    """A part of an answer that is read while it is written."""

    def __init__(self, data: bytes) -> None:
        self.left = data
        self.fails = False

    def __len__(self) -> int:
        return len(self.left)

    def read(self, most_bytes: int) -> bytes:
        if self.fails:
            raise StorageError("the disk is gone")
        data, self.left = self.left[:most_bytes], self.left[most_bytes:]
        return data


def answer_from_file(file: FileOf) -> tuple[Connection, Server, Transport]:
    """A connection whose client takes one piece of an answer at a time."""
    connection, server, transport = connect()
    take = transport.writelines

    def take_one_piece(parts: list[bytes]) -> None:
        take(parts)
        connection.pause_writing()

    transport.writelines = take_one_piece  # type: ignore[method-assign]
    connection.data_received(request("fetch"))
    server.slots[0].finish([b"head", file, b"tail"])
    connection.flush()
    return connection, server, transport


def test_an_answer_in_a_file_is_read_as_fast_as_the_client_takes_it() -> None:
    data = random.Random(1).randbytes(1_000_000)
    file = FileOf(data)
    connection, _, transport = answer_from_file(file)
    for _ in range(3):
        assert len(b"".join(transport.written)) + len(file) - 4 == 1_000_000
        assert connection.write_buffer_size <= len(b"tail")
        connection.resume_writing()
    assert b"".join(transport.written) == b"head" + data + b"tail"


def test_what_a_client_asks_while_an_answer_is_being_read_waits_and_answers_keep_their_order() -> None:
    file = FileOf(b"x" * 500_000)
    connection, server, transport = answer_from_file(file)
    connection.data_received(request("next"))
    assert (bodies(server), transport.reading) == ([b"fetch"], False)
    connection.resume_writing()
    assert len(file) == 0
    connection.resume_writing()
    assert (bodies(server), transport.reading) == ([b"fetch", b"next"], True)
    server.slots[1].finish(b"<1>")
    connection.flush()
    assert b"".join(transport.written) == b"head" + b"x" * 500_000 + b"tail<1>"


def test_answers_that_are_ready_wait_for_one_that_is_being_read() -> None:
    connection, server, transport = connect()
    connection.data_received(request("fetch") + request("heartbeat"))
    connection.pause_writing()
    server.slots[1].finish(b"<1>")
    server.slots[0].finish([b"head", FileOf(b"x" * 100_000)])
    connection.flush()
    assert transport.written == []
    connection.resume_writing()
    assert b"".join(transport.written) == b"head" + b"x" * 100_000 + b"<1>"


def test_an_answer_that_cannot_be_read_to_its_end_closes_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    file = FileOf(b"x" * 1_000_000)
    connection, _, transport = answer_from_file(file)
    file.fails = True
    connection.resume_writing()
    assert transport.aborted
    assert "the disk is gone" in caplog.text


async def test_a_client_that_takes_everything_lets_others_have_their_turn() -> None:
    connection, server, transport = connect()
    connection.data_received(request("fetch"))
    size = 10_000_000
    server.slots[0].finish([b"head", FileOf(b"x" * size)])
    connection.flush()
    turns = 1
    while len(b"".join(transport.written)) < size + 4:
        assert len(b"".join(transport.written)) <= turns * (2 << 20)
        turns += 1
        await asyncio.sleep(0)
    assert turns == 5
