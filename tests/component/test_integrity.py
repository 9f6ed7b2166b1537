"""A broker whose disk has changed records: what clients are answered, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from actors.broker.integrity.finds import EVENT, Finds
from actors.broker.integrity.mending import Mending
from actors.broker.integrity.scrubbing import Pauses, Scrubber
from actors.broker.server import BrokerServer
from actors.links.replication import WantBatches
from actors.log.damage import DamagedBatchError
from actors.log.segment import Segment
from actors.records.batch import iter_batches, stamp
from actors.wire import messages
from actors.wire.errors import ErrorCode
from tests.component.test_handlers_fetch import codes, produce, read, request
from tests.support.handler_helpers import Broker, led_by
from tests.support.log_helpers import append, values
from tests.support.read_records import read_records
from tests.support.runtime_helpers import until
from tests.support.three_brokers import World, until_async, world


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
    with pytest.raises(DamagedBatchError):  # it closes the connection: the answer has begun to leave
        broker.ask(request(broker, ("t", 0, 0)), 12)
    assert codes(broker.ask(request(broker, ("t", 0, 0)), 12)) == [ErrorCode.CORRUPT_MESSAGE]
    assert segment.size_bytes > 100_000


def test_a_find_is_a_line_a_count_and_an_event(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(tmp_path)
    broker.topic("t", led_by(0))
    produce(broker, "t", 0, b"a")
    segment = rotten(broker, "t", 0, 65)
    finds = Finds(broker.context, lambda key: None)
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


# --- with other replicas ---


async def made(w: World, records: int = 5, **configs: str) -> None:
    await w.create("t", **configs)
    for number in range(records):
        assert await w.produce("t", b"value %d" % number) == 0
    await until(lambda: all(len(w.records(each, "t")) == records for each in w.servers))


def damage(server: BrokerServer, number: int, *, byte: int = 70) -> Path:
    """Flip a bit of a batch, by default of its record, in a broker's copy, of which it knows nothing any more."""
    found = server.context.data_dir.get("t", 0)
    assert found is not None
    segment = found.segments.active
    data = bytearray(segment.path.read_bytes())
    start, _, _ = list(iter_batches(data))[number]
    data[start + byte] ^= 1
    with segment.path.open("r+b") as opened:
        opened.write(data)
    segment.known.forget()
    return segment.path


def copy(server: BrokerServer) -> bytes:
    """A broker's copy as it lies in its file."""
    found = server.context.data_dir.get("t", 0)
    assert found is not None
    return found.segments.active.path.read_bytes()


async def fetched(w: World, offset: int) -> tuple[int, list[bytes | None]]:
    """The leader's answer to a fetch from an offset on: the error and the values."""
    client = await w.client(w.partition("t").leader)
    part = messages.FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = messages.FetchRequest.FetchTopic(topic="t", partitions=[part])
    answer = await client.ask(messages.FetchRequest(max_wait_ms=0, max_bytes=1 << 24, topics=[topic]), 12)
    client.close()
    (found,) = answer.responses[0].partitions
    return found.error_code, [record.value for record in read_records(found.records or b"")]


async def test_a_leader_takes_damaged_batches_from_a_replica_in_sync_and_clients_ask_again(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await made(w)
        leader = w.servers[w.partition("t").leader]
        before = copy(leader)
        damage(leader, 2)
        assert copy(leader) != before
        assert await fetched(w, 2) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
        await until_async(lambda: fetched(w, 2), (0, [b"value 2", b"value 3", b"value 4"]))
        assert copy(leader) == before
        assert leader.context.counts.integrity == {"damaged": 1, "mended": 1}
        assert leader.spec.broker_id == w.partition("t").leader


async def test_batches_that_one_replica_has_lost_too_are_taken_from_the_other(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await made(w)
        leader = w.partition("t").leader
        before = copy(w.servers[leader])
        other = next(each for each in w.partition("t").isr if each != leader)
        damage(w.servers[leader], 1)
        damage(w.servers[other], 1)
        await until_async(lambda: fetched(w, 1), (0, [b"value %d" % each for each in range(1, 5)]))
        await until(lambda: all(copy(each) == before for each in w.servers.values()))


async def test_what_is_damaged_everywhere_is_named_and_answered_as_corrupt(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await made(w)
        for server in w.servers.values():
            damage(server, 3)
        await until_async(lambda: fetched(w, 3), (ErrorCode.CORRUPT_MESSAGE, []))
        leader = w.servers[w.partition("t").leader]
        texts = [each.text for each in leader.context.chronicle.since(0, 0).events if each.kind == EVENT]
        assert any("No replica in sync" in each and "offsets 3 to 3" in each for each in texts)
        assert await fetched(w, 4) == (0, [b"value 4"])


async def test_a_follower_takes_damaged_batches_from_its_leader(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await made(w)
        follower = w.servers[next(each for each in w.partition("t").isr if each != w.partition("t").leader)]
        before = copy(follower)
        damage(follower, 2)
        with pytest.raises(DamagedBatchError):
            follower.context.data_dir.logs["t", 0].read_with_end(2, 1 << 20)
        await until(lambda: copy(follower) == before)


class Answers:
    """Brokers that are asked for batches, and give these."""

    def __init__(self, records: bytes) -> None:
        self.records = records
        self.asked: list[int] = []

    def ask(self, broker: int, want: WantBatches, done: Callable[[bytes], None]) -> bool:
        self.asked.append(broker)
        done(self.records)
        return True


def test_if_the_disk_does_not_take_what_another_has_that_one_is_to_lead(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(0, 1, isr=(0, 1)))
    append(broker.context.log("t", 0), values(b"a"))
    sound = broker.data_dir.logs["t", 0].read(0, 1000)
    segment = rotten(broker, "t", 0, 65)
    broker.ask(request(broker, ("t", 0, 0)), 12)
    failed: list[tuple[str, int]] = []
    answers = Answers(sound)
    mending = Mending(broker.context, answers, lambda *key: failed.append(key))
    Finds(broker.context, mending.note).tick()
    segment.path.unlink()
    mending.tick()
    assert (answers.asked, failed) == ([1], [("t", 0)])


def test_batches_of_another_epoch_are_not_put_in_the_place_of_damaged_ones(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(0, 1, isr=(0, 1)))
    append(broker.context.log("t", 0), values(b"a"))
    other = bytearray(broker.data_dir.logs["t", 0].read(0, 1000))
    stamp(other, 0, -1)  # leaders of ours have epochs from 0 on
    segment = rotten(broker, "t", 0, 65)
    before = segment.path.read_bytes()
    broker.ask(request(broker, ("t", 0, 0)), 12)
    answers = Answers(bytes(other))
    mending = Mending(broker.context, answers, lambda *key: None)
    Finds(broker.context, mending.note).tick()
    mending.tick()
    assert answers.asked == [1]
    assert segment.path.read_bytes() == before
    assert broker.context.counts.integrity == {"damaged": 1}


def test_damage_that_nobody_can_mend_keeps_no_other_from_being_mended(tmp_path: Path) -> None:
    broker = Broker(tmp_path, brokers=2)
    broker.topic("t", led_by(0, 1, isr=(0, 1)))
    for value in (b"a", b"b", b"c"):
        append(broker.context.log("t", 0), values(value))
    found = broker.data_dir.logs["t", 0]
    before = found.read_with_end(2, 1000)[0]
    for number in (0, 2):
        rotten(broker, "t", 0, found.size_bytes // 3 * number + 65)
        with pytest.raises(DamagedBatchError):
            found.read_with_end(number, 1)
    asked: list[tuple[WantBatches, Callable[[bytes], None]]] = []

    class Other:
        """The other broker, which answers later."""

        def ask(self, broker: int, want: WantBatches, done: Callable[[bytes], None]) -> bool:
            asked.append((want, done))
            return True

    mending = Mending(broker.context, Other(), lambda *key: None)
    Finds(broker.context, mending.note).tick()
    for _ in range(3):
        mending.tick()
        for want, done in asked:
            done(before if want.first == 2 else b"")
        asked.clear()
    assert broker.context.counts.integrity["mended"] == 1
    assert [damage.first_offset for _, damage in found.damages] == [0]
    assert found.read_with_end(2, 1000)[0] == before


async def test_damage_of_a_follower_is_found_and_mended_though_nobody_reads_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await made(w)
        follower = w.servers[next(each for each in w.partition("t").isr if each != w.partition("t").leader)]
        before = copy(follower)
        damage(follower, 3)
        scrubber = Scrubber(follower.context, Pauses(0.0, 0.0))
        scrubber.start()
        await until(lambda: follower.context.counts.integrity["mended"] == 1)
        scrubber.stop()
        assert copy(follower) == before


async def test_with_no_rate_nothing_is_looked_through(tmp_path: Path) -> None:
    async with world(tmp_path, coterie_scrub_bytes_per_second="0") as w:
        await made(w)
        follower = w.servers[next(each for each in w.partition("t").isr if each != w.partition("t").leader)]
        found = follower.context.data_dir.logs["t", 0]
        damage(follower, 3)
        await Scrubber(follower.context).look_through(("t", 0), found)
        assert not found.damages
        assert follower.context.counts.integrity == {}


async def test_a_pass_goes_on_after_what_is_damaged_and_counts_its_bytes(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await made(w)
        follower = w.servers[next(each for each in w.partition("t").isr if each != w.partition("t").leader)]
        found = follower.context.data_dir.logs["t", 0]
        damage(follower, 1)
        damage(follower, 3)
        await Scrubber(follower.context).look_through(("t", 0), found)
        assert follower.context.counts.integrity["scrubbed_bytes"] == found.size_bytes
        await until(lambda: follower.context.counts.integrity["mended"] == 2)


async def test_a_pass_goes_on_after_a_damaged_header(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await made(w)
        follower = w.servers[next(each for each in w.partition("t").isr if each != w.partition("t").leader)]
        found = follower.context.data_dir.logs["t", 0]
        damage(follower, 1, byte=2)
        await Scrubber(follower.context).look_through(("t", 0), found)
        assert follower.context.counts.integrity["scrubbed_bytes"] == found.size_bytes


async def test_a_bit_that_flipped_while_the_cluster_was_down_reaches_no_client(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await made(w)
        leader = w.partition("t").leader
        before = copy(w.servers[leader])
        server = w.servers.pop(leader)
        await server.stop()
        await until(lambda: w.partition("t").leader != leader)
        (file,) = (tmp_path / "data" / f"broker-{leader}" / "t-0").glob("*.log")
        data = bytearray(file.read_bytes())
        data[70] ^= 1
        file.write_bytes(data)
        await w.start_broker(leader)
        await until(lambda: leader in w.partition("t").isr)
        assert len(w.partition("t").isr) == 3
        found = w.servers[leader].context.data_dir.logs["t", 0]
        assert not found.damages  # nobody has read it yet
        with pytest.raises(DamagedBatchError):
            found.read_with_end(0, 1 << 20)
        await until(lambda: copy(w.servers[leader]) == before)
        assert w.records(leader, "t") == [b"value %d" % each for each in range(5)]
