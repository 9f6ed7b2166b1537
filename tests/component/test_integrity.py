"""A broker whose disk has changed records: what clients are answered, and who is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.broker.integrity.finds import EVENT, Finds
from actors.log.damage import DamagedBatchError
from actors.log.segment import Segment
from actors.wire.errors import ErrorCode
from tests.component.test_handlers_fetch import codes, produce, read, request
from tests.support.handler_helpers import Broker, led_by


def rotten(broker: Broker, topic: str, index: int, position: int) -> Segment:
    """Flip a bit in a partition's file, of which nothing is known any more, as after a start."""
    segment = broker.data_dir.logs[topic, index].segments.active
    data = bytearray(segment.path.read_bytes())
    data[position] ^= 4
    with segment.path.open("r+b") as file:
        file.write(data)
    segment.known.forget()
    return segment


def test_a_fetch_of_a_damaged_batch_is_answered_with_an_error_and_others_are_not(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0), led_by(0))
    produce(broker, "t", 0, b"a")
    produce(broker, "t", 1, b"b")
    rotten(broker, "t", 0, 65)
    response = broker.ask(request(broker, ("t", 0, 0), ("t", 1, 0)), 12)
    assert codes(response) == [ErrorCode.CORRUPT_MESSAGE, 0]
    assert read(response) == [[], [b"b"]]


def test_what_stands_before_a_damaged_batch_is_answered(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0))
    produce(broker, "t", 0, b"a")
    size = broker.data_dir.logs["t", 0].size_bytes
    produce(broker, "t", 0, b"b")
    produce(broker, "t", 0, b"c")
    rotten(broker, "t", 0, size + 65)
    assert read(broker.ask(request(broker, ("t", 0, 0)), 12)) == [[b"a"]]
    assert codes(broker.ask(request(broker, ("t", 0, 1)), 12)) == [ErrorCode.CORRUPT_MESSAGE]
    assert read(broker.ask(request(broker, ("t", 0, 2)), 12)) == [[b"c"]]


def test_a_large_answer_ends_its_connection_before_a_damaged_batch_and_the_next_is_an_error(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0))
    produce(broker, "t", 0, b"a" * 100_000)
    segment = rotten(broker, "t", 0, 500)
    with pytest.raises(DamagedBatchError):  # which closes the connection: the answer has begun to leave
        broker.ask(request(broker, ("t", 0, 0)), 12)
    assert codes(broker.ask(request(broker, ("t", 0, 0)), 12)) == [ErrorCode.CORRUPT_MESSAGE]
    assert segment.size_bytes > 100_000


def test_a_find_is_a_line_a_count_and_an_event(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0))
    produce(broker, "t", 0, b"a")
    segment = rotten(broker, "t", 0, 65)
    finds = Finds(broker.context)
    finds.tick()
    assert not caplog.records
    for _ in range(3):
        broker.ask(request(broker, ("t", 0, 0)), 12)
        finds.tick()
    (line,) = [each.getMessage() for each in caplog.records]
    assert "t-0: offsets 0 to 0 are damaged" in line
    assert f"{segment.path}, {segment.size_bytes} bytes at byte 0" in line
    assert broker.context.counts.integrity == {"damaged": 1}
    (event,) = broker.context.chronicle.since(0, 0).events
    assert (event.kind, event.subject) == (EVENT, "t-0")
