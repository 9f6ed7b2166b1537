"""Dead letters that are too large, by a real producer at a real broker: what they still say, and what the member says.

Such a letter stopped its member, and each successor at the same record, with an error that said nothing of dead
letters, nor of the record.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.client import Admin, Consumer, ConsumerRecord, Producer, TopicPartition
from actors.client.admin.types import NewTopic
from actors.client.errors import KafkaTimeoutError
from actors.members.pools.handler_member import MemberLoop, MemberSpec
from actors.members.pools.handling.letters import ERROR_BYTES, DeadLetterError
from actors.members.pools.handling.output import Writer
from actors.members.pools.handling.work import Work
from tests.support.member import T0, FakeConsumer, Member, record
from tests.support.one_broker import world

LIMIT = 2_000
DEAD = TopicPartition("dead", 0)
PLACE = ["coterie.topic", "coterie.partition", "coterie.offset"]
LONG = ValueError("é" * 50_000)
OWN: list[tuple[str | bytes, bytes | None]] = [("trace", b"abc"), (b"\xff", None)]

BY_THE_BROKER: dict[str, Any] = {"configs": {"max.message.bytes": str(LIMIT)}, "options": {}}
BY_THE_PRODUCER: dict[str, Any] = {"configs": {}, "options": {"max_request_size": LIMIT}}
BY_THE_BUFFER: dict[str, Any] = {"configs": {}, "options": {"buffer_memory": LIMIT}}
LIMITS = pytest.mark.parametrize(
    "limited", [BY_THE_BROKER, BY_THE_PRODUCER, BY_THE_BUFFER], ids=["broker", "producer", "buffer"]
)


def bad(size: int) -> ConsumerRecord:
    return record(5, headers=list(OWN))._replace(value=b"v" * size)  # type: ignore[arg-type]


async def at_a_broker(path: Path, configs: dict[str, str], walk: Callable[[str], Any]) -> Any:
    """Call `walk` with the address of a broker that has the dead-letter topic."""

    def filled(servers: str) -> Any:
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("dead", 1, topic_configs=configs)])
        return walk(servers)

    async with world(path) as broker:
        return await asyncio.to_thread(filled, f"127.0.0.1:{broker.server.socket_server.ports['PLAINTEXT']}")


def spec(servers: str, options: dict[str, Any]) -> MemberSpec:
    options = {"compression_type": "none", **options}
    return MemberSpec(("t",), "g", servers, dead_letter_topic="dead", producer_options=options, max_retries=0)


def letter(servers: str, options: dict[str, Any], size: int, error: Exception) -> ConsumerRecord:
    """The letter of a record of this size."""
    writer = Writer(spec(servers, options), Producer)
    try:
        writer.dead_letter(Work.of(T0, [bad(size)]), error)
    finally:
        writer.close()
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", enable_auto_commit=False) as reader:
        reader.assign([DEAD])
        (found,) = reader.poll(60_000)[DEAD]
        return found


@LIMITS
@pytest.mark.parametrize(
    ("size", "error", "said"),
    [
        (10, ValueError("short"), [*PLACE, "coterie.error"]),
        (10, LONG, [*PLACE, "coterie.error"]),
        (1_200, LONG, PLACE),
        (1_880, LONG, []),
    ],
    ids=["whole", "its error is cut", "its error is left out", "the record alone"],
)
async def test_a_letter_that_is_too_large_is_written_shorter(
    tmp_path: Path, limited: dict[str, Any], size: int, error: Exception, said: list[str]
) -> None:
    found = await at_a_broker(
        tmp_path, limited["configs"], lambda servers: letter(servers, limited["options"], size, error)
    )
    assert (found.key, found.value) == (b"k5", b"v" * size)
    assert found.headers[: len(OWN)] == OWN, "the record's own headers stay, whatever is left out"
    assert [name for name, _ in found.headers[len(OWN) :]] == said
    text = dict(found.headers).get("coterie.error", b"")
    assert isinstance(text, bytes)
    assert f"ValueError: {error}".startswith(text.decode().removesuffix("…"))
    assert len(text) <= ERROR_BYTES + 3


async def test_a_long_error_that_fits_is_whole(tmp_path: Path) -> None:
    found = await at_a_broker(tmp_path, {}, lambda servers: letter(servers, {}, 10, LONG))
    assert dict(found.headers)["coterie.error"] == f"ValueError: {LONG}".encode()


@LIMITS
async def test_a_record_that_has_no_room_even_alone_is_named_by_its_member(
    tmp_path: Path, limited: dict[str, Any]
) -> None:
    def walk(servers: str) -> Any:
        consumer = FakeConsumer([{T0: [bad(3 * LIMIT)]}], [])

        def fail(each: ConsumerRecord) -> None:
            raise ValueError("no such customer")

        loop = MemberLoop(spec(servers, limited["options"]), fail, make_consumer=lambda **_: consumer)
        consumer.loop = loop
        loop.run()
        assert not [entry for entry in consumer.log if entry[0].startswith("commit")]
        return loop.report()

    report = await at_a_broker(tmp_path, limited["configs"], walk)
    assert report.state == "Failed"
    for part in ("dead letter of t-0 offset 5", "to dead:", "MessageTooLargeError", "max.message.bytes of dead"):
        assert part in report.error
    assert report.error.endswith("the handler had failed with ValueError: no such customer")


def test_whatever_keeps_a_letter_from_being_written_the_member_names_its_record() -> None:
    def fail(each: ConsumerRecord) -> None:
        raise ValueError("no such customer")

    member = Member(fail, [{T0: [record(1)]}], dead_letter_topic="dlq", max_retries=0)
    member.producer.error = KafkaTimeoutError("dlq is gone")
    report = member.run()
    assert report.error == (
        "the dead letter of t-0 offset 1 cannot be written to dlq: KafkaTimeoutError: dlq is gone; "
        "the handler had failed with ValueError: no such customer"
    )
    assert len(member.producer.sent) == 1, "a shorter one would be no better"
    error = pickle.loads(pickle.dumps(DeadLetterError("text", T0, 7)))
    assert (str(error), error.topic, error.partition, error.offset) == ("text", "t", 0, 7)
