"""Three brokers, their controller and their shards on one loop, over real sockets and files: what a failover keeps."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from actors.broker import housekeeping, registration
from actors.broker.server import BrokerServer
from actors.broker.spec import BrokerSpec
from actors.client import Consumer, TopicPartition
from actors.client.errors import FencedInstanceIdError
from actors.controller.metadata_log import MetadataLog
from actors.controller.server import ControllerServer
from actors.links.operations import DeleteTopics, DoomedTopic
from actors.log.batch import build_batch, read_records
from actors.log.errors import StorageError
from actors.offsets_partition.process import ShardProcess
from actors.settings import BrokerConfig
from actors.wire import messages
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import ApiMessage, response_class
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC, PartitionInfo, changed, partition_record
from tests.support.calls import operation
from tests.support.runtime_helpers import SECRET, run, until

FAST = {
    "broker.session.timeout.ms": "60000",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.commit.timeout.ms": "60000",
}


class Launcher:
    """Starts shard processes as tasks of this loop; brokers are the test's."""

    def __init__(self, world: World) -> None:
        self.world = world

    def start_broker(self, broker_id: int) -> None: ...

    def kill_broker(self, broker_id: int) -> None: ...

    def start_shards(self, broker_id: int, count: int) -> None:
        for _ in range(count - self.world.starting.get(broker_id, 0)):
            self.world.start_shard(broker_id)

    def look_at(self, broker_id: int, pid: int, started: int) -> None: ...


class World:
    """A controller and its brokers."""

    def __init__(self, path: Path, **settings: str) -> None:
        self.path = path
        self.settings = FAST | {name.replace("_", "."): value for name, value in settings.items()}
        self.servers: dict[int, BrokerServer] = {}
        self.shards: list[asyncio.Task[None]] = []
        self.starting: dict[int, int] = {}
        self.port = 0
        self.controller: ControllerServer

    async def start(self, brokers: int) -> None:
        await self.start_controller()
        for broker_id in range(brokers):
            await self.start_broker(broker_id)

    async def start_controller(self) -> None:
        loop = asyncio.get_running_loop()
        config = BrokerConfig.from_mapping(self.settings)
        self.controller = ControllerServer(
            MetadataLog(self.path / "metadata.log"), config, SECRET, Launcher(self), loop
        )
        self.port = await self.controller.listen("127.0.0.1")

    async def start_broker(self, broker_id: int) -> BrokerServer:
        spec = BrokerSpec(
            broker_id=broker_id,
            bind_host="127.0.0.1",
            advertised_host="127.0.0.1",
            port=0,
            advertised_port=0,
            data_dir=str(self.path / f"broker-{broker_id}"),
            socket_path=str(self.path / "s" / str(broker_id)),
            config=self.settings,
        )
        server = await BrokerServer.open(spec, lambda: ("127.0.0.1", self.port, SECRET))
        await server.start()
        self.servers[broker_id] = server
        return server

    def start_shard(self, broker_id: int) -> None:
        self.starting[broker_id] = self.starting.get(broker_id, 0) + 1

        async def serve() -> None:
            with suppress(asyncio.CancelledError):
                process = ShardProcess(str(self.path / "s" / str(broker_id)), "tests")
                asyncio.get_running_loop().call_later(0.3, self._started, broker_id)
                await process.run()

        self.shards.append(asyncio.get_running_loop().create_task(serve()))

    def _started(self, broker_id: int) -> None:
        self.starting[broker_id] -= 1

    async def kill(self, broker_id: int) -> None:
        """As SIGKILL: nothing is closed, flushed or said."""
        server = self.servers.pop(broker_id)
        server.stop_serving()
        server.registration.close()
        server.context.data_dir.abandon()
        await until(lambda: not self.metadata.brokers[broker_id].alive)

    async def stop(self) -> None:
        for server in list(self.servers.values()):
            await server.stop()
        self.controller.close()
        for task in self.shards:
            task.cancel()
        await asyncio.gather(*self.shards, return_exceptions=True)

    @property
    def metadata(self) -> Any:
        return self.controller.metadata

    def partition(self, topic: str, index: int = 0) -> PartitionInfo:
        found: PartitionInfo | None = self.metadata.partition(topic, index)
        assert found is not None
        return found

    async def create(self, name: str, factor: int = 3, partitions: int = 1, **configs: str) -> None:
        topic = {
            "name": name,
            "partitions": partitions,
            "factor": factor,
            "configs": {key.replace("_", "."): value for key, value in configs.items()},
        }
        _, records = self.controller._operate(operation("create_topics", topics=[topic]))
        assert records
        self.controller._commit(records)
        await until(lambda: all(name in s.context.metadata.topics for s in self.servers.values()))

    async def client(self, broker_id: int) -> Client:
        return await Client.to(self.servers[broker_id].port)

    async def produce(self, topic: str, value: bytes, acks: int = -1, timeout_ms: int = 10_000) -> int:
        """Produce one record to the partition's leader, as the cluster now knows it; the error code."""
        leader = self.partition(topic).leader
        if leader not in self.servers:
            return int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        client = await self.client(leader)
        answer = await client.ask(produce(topic, value, acks, timeout_ms), 9)
        client.close()
        return int(answer.responses[0].partition_responses[0].error_code)

    def records(self, broker_id: int, topic: str, index: int = 0) -> list[bytes | None]:
        """The values in a broker's copy of a partition, committed or not."""
        found = self.servers[broker_id].context.data_dir.get(topic, index)
        values: list[bytes | None] = []
        offset = found.log_start_offset if found is not None else 0
        while found is not None and offset < found.log_end_offset:
            data, offset = found.read_with_end(offset, 1 << 20)
            values += [record.value for record in read_records(data)]
        return values


class Client:
    """A connection that asks one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, port: int) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, message: ApiMessage, version: int) -> Any:
        self.writer.write(encode_request(message, version, 1, "tests"))
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        frame = await self.reader.readexactly(length)
        return decode_response(response_class(message.api_key), version, frame)[1]

    def close(self) -> None:
        self.writer.close()


def produce(topic: str, value: bytes, acks: int, timeout_ms: int) -> messages.ProduceRequest:
    part = messages.ProduceRequest.PartitionProduceData(index=0, records=build_batch([(None, value, (), 1000)]))
    data = messages.ProduceRequest.TopicProduceData(name=topic, partition_data=[part])
    return messages.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[data])


async def delete_all(w: World, topic: str, timeout_ms: int = 10_000) -> tuple[int, int]:
    """DeleteRecords up to the high watermark at the partition's leader: the error code and the low watermark."""
    client = await w.client(w.partition(topic).leader)
    part = messages.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=-1)
    data = messages.DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[part])
    answer = await client.ask(messages.DeleteRecordsRequest(topics=[data], timeout_ms=timeout_ms), 2)
    client.close()
    (result,) = answer.topics[0].partitions
    return result.error_code, result.low_watermark


@asynccontextmanager
async def world(path: Path, brokers: int = 3, **settings: str) -> AsyncIterator[World]:
    made = World(path, **settings)
    await made.start(brokers)
    try:
        yield made
    finally:
        await made.stop()


def test_what_is_acknowledged_with_acks_all_is_on_every_broker_in_sync(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t", min_insync_replicas="3")
            assert w.partition("t").isr == w.partition("t").replicas
            for i in range(10):
                assert await w.produce("t", b"%d" % i) == 0
                assert all(w.records(b, "t")[i:] == [b"%d" % i] for b in range(3))

    run(test())


def test_readers_see_what_has_committed_and_no_more(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t", min_insync_replicas="2")
            assert await w.produce("t", b"a") == 0
            leader = w.servers[w.partition("t").leader]
            log = leader.context.data_dir.get("t", 0)
            assert log is not None
            for broker_id in set(w.servers) - {leader.spec.broker_id}:
                w.servers[broker_id].replicas._followers.take = lambda *a: (_ for _ in ()).throw(OSError())  # type: ignore[method-assign]
            assert await w.produce("t", b"b", timeout_ms=200) == ErrorCode.REQUEST_TIMED_OUT
            assert (log.high_watermark, log.log_end_offset) == (1, 2)

    run(test())


def test_a_killed_leader_is_followed_by_one_that_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t", min_insync_replicas="2")
            acknowledged = []
            for i in range(5):
                assert await w.produce("t", b"before %d" % i) == 0
                acknowledged.append(b"before %d" % i)
            first = w.partition("t").leader
            await w.kill(first)
            assert w.partition("t").leader not in (first, -1)
            for i in range(5):
                value = b"after %d" % i
                await until_async(lambda value=value: w.produce("t", value), 0)
                acknowledged.append(value)
            leader = w.partition("t").leader
            assert [v for v in w.records(leader, "t") if v in acknowledged] == acknowledged
            # The one that was killed comes back, catches up, and is in sync again.
            await w.start_broker(first)
            await until(lambda: set(w.partition("t").isr) == {0, 1, 2}, what="all in sync")
            assert w.records(first, "t") == w.records(leader, "t")

    run(test())


def starts(w: World, topic: str) -> list[int]:
    """Where each broker's copy of a partition begins."""
    logs = [server.context.data_dir.get(topic, 0) for server in w.servers.values()]
    return [log.log_start_offset for log in logs if log is not None]


def test_deleted_records_are_gone_from_every_broker_in_sync_when_that_is_answered(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t")
            for value in (b"a", b"b", b"c"):
                assert await w.produce("t", value) == 0
            assert await delete_all(w, "t") == (0, 3)
            assert starts(w, "t") == [3, 3, 3]
            first = w.partition("t").leader
            await w.kill(first)
            found = w.servers[w.partition("t").leader].context.log("t", 0)
            assert found.log_start_offset == 3

    run(test())


def test_a_deletion_waits_for_who_is_in_sync_and_for_nobody_else(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t")
            assert await w.produce("t", b"a") == 0
            slow = next(b for b in w.servers if b != w.partition("t").leader)
            followers = w.servers[slow].replicas._followers
            take, followers.take = followers.take, lambda *a: (_ for _ in ()).throw(OSError())  # type: ignore[method-assign]
            assert await delete_all(w, "t", timeout_ms=200) == (ErrorCode.REQUEST_TIMED_OUT, -1)
            waiting = asyncio.ensure_future(delete_all(w, "t"))
            leader = w.servers[w.partition("t").leader].replicas
            await until(lambda: len(leader._leaders.deleting._waiters[("t", 0)]) == 2)
            followers.take = take  # type: ignore[method-assign]
            assert await waiting == (0, 1)
            assert starts(w, "t") == [1, 1, 1]
            assert await w.produce("t", b"b") == 0
            await w.kill(slow)
            await until(lambda: slow not in w.partition("t").isr)
            assert await delete_all(w, "t") == (0, 2)
            assert starts(w, "t") == [2, 2]

    run(test())


def test_followers_of_an_idle_partition_hear_what_retention_has_removed(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t")
            for value in (b"a", b"b", b"c"):
                assert await w.produce("t", value) == 0
            logs = [server.context.data_dir.get("t", 0) for server in w.servers.values()]
            await until(lambda: all(log is not None and log.high_watermark == 3 for log in logs))
            w.servers[w.partition("t").leader].context.log("t", 0).delete_records_before(2)
            await until(lambda: starts(w, "t") == [2, 2, 2])

    run(test())


async def until_async(call: Any, wanted: Any, timeout_s: float = 60.0) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while (got := await call()) != wanted:
        assert loop.time() < deadline, got
        await asyncio.sleep(0.01)


def test_a_leader_alone_refuses_what_two_have_to_hold(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t", min_insync_replicas="2")
            leader = w.partition("t").leader
            for broker_id in set(w.servers) - {leader}:
                await w.kill(broker_id)
            await until(lambda: w.servers[leader].context.metadata.partition("t", 0).isr == (leader,))
            assert await w.produce("t", b"a") == ErrorCode.NOT_ENOUGH_REPLICAS
            assert await w.produce("t", b"a", acks=1) == 0

    run(test())


async def commit(w: World, group: str, offset: int) -> int:
    """Commit for a group without members at its coordinator; the error code."""
    index = partition_for_group(group, 4)
    partition = w.metadata.partition(OFFSETS_TOPIC, index)
    client = await w.client(next(iter(w.servers)))
    if partition is None:
        await client.ask(messages.FindCoordinatorRequest(coordinator_keys=[group]), 4)
        client.close()
        return int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    client.close()
    if partition.leader not in w.servers:
        return int(ErrorCode.NOT_COORDINATOR)
    client = await w.client(partition.leader)
    part = messages.OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topic = messages.OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])
    answer = await client.ask(messages.OffsetCommitRequest(group_id=group, topics=[topic]), 8)
    client.close()
    return int(answer.topics[0].partitions[0].error_code)


async def committed(w: World, group: str) -> int:
    """What a group's coordinator says it has committed."""
    partition = w.partition(OFFSETS_TOPIC, partition_for_group(group, 4))
    client = await w.client(partition.leader)
    topic = messages.OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    answer = await client.ask(messages.OffsetFetchRequest(group_id=group, topics=[topic]), 7)
    client.close()
    assert answer.error_code == 0
    return int(answer.topics[0].partitions[0].committed_offset)


@pytest.mark.conformance("D-04")
def test_committed_offsets_outlive_the_coordinators_broker(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t")
            await until_async(lambda: commit(w, "g", 1), 0)
            index = partition_for_group("g", 4)
            assert w.metadata.topics[OFFSETS_TOPIC].configs["min.insync.replicas"] == "2"
            for offset in range(2, 8):
                assert await commit(w, "g", offset) == 0
            first = w.partition(OFFSETS_TOPIC, index).leader
            await w.kill(first)
            await until_async(  # long before anybody's lease, or the time to be in sync, has run out
                lambda: commit(w, "other", 1) if partition_for_group("other", 4) == index else commit(w, "g", 8), 0, 20
            )
            second = w.partition(OFFSETS_TOPIC, index).leader
            assert second != first
            assert await committed(w, "g") == 8
            await w.start_broker(first)
            await until(lambda: len(w.partition(OFFSETS_TOPIC, index).isr) == 3, what="all in sync")
            await w.kill(second)
            await until_async(lambda: commit(w, "g", 9), 0)
            assert await committed(w, "g") == 9

    run(test())


def test_a_death_makes_no_logs_of_partitions_without_records(tmp_path: Path) -> None:
    """Making thousands in one turn outlasted the leases of those who lived."""

    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t", partitions=20, min_insync_replicas="2")
            dead = w.partition("t").leader

            def in_sync(count: int) -> bool:
                images = [w.metadata, *(server.context.metadata for server in w.servers.values())]
                return all(len(each.isr) == count for image in images for each in image.topics["t"].partitions)

            def made() -> list[str]:
                return sorted(path.name for path in tmp_path.glob("broker-*/t-*"))

            await w.kill(dead)
            await until(lambda: in_sync(2))
            assert made() == []
            assert await w.produce("t", b"a") == 0
            assert made() == ["t-0", "t-0"]
            leader = w.servers[w.partition("t").leader]
            assert leader.replicas.watermark_is_known("t", 0)

            await w.start_broker(dead)
            await until(lambda: in_sync(3), what="all in sync")
            assert made() == ["t-0", "t-0", "t-0"]
            for value in (b"b", b"c"):
                await until_async(lambda value=value: w.produce("t", value), 0)
            await until(lambda: all(w.records(broker, "t") == [b"a", b"b", b"c"] for broker in w.servers))

            led = next(index for index in range(1, 20) if w.partition("t", index).leader == leader.spec.broker_id)
            log = leader.context.log("t", led)  # as a reader has it made
            assert log.epoch_entries() == [(w.partition("t", led).leader_epoch, 0)]

    run(test())


@pytest.mark.parametrize("written", [True, False])
def test_a_topic_made_anew_unseen_is_another_one(tmp_path: Path, written: bool) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            topic = {"name": "t", "partitions": -1, "factor": -1, "assignments": [[0, 1, 2]], "configs": {}}
            _, records = w.controller._operate(operation("create_topics", topics=[topic]))
            w.controller._commit(records)
            await until(lambda: all("t" in server.context.metadata.topics for server in w.servers.values()))
            if written:
                assert await w.produce("t", b"old") == 0
            else:
                await w.kill(2)
                await w.start_broker(2)
                await until(lambda: len(w.partition("t").isr) == 3, what="all in sync")
            assert ("t", 0) in w.servers[0].replicas._leaders.replicas

            _, records = w.controller._operate(DeleteTopics((DoomedTopic("t"),)))
            w.controller._commit(records, tell=False)
            _, records = w.controller._operate(operation("create_topics", topics=[topic]))
            w.controller._commit(records)
            new = w.metadata.topics["t"]
            await until(lambda: all(s.context.metadata.topics["t"].id == new.id for s in w.servers.values()))
            assert await w.produce("t", b"new") == 0
            assert all(w.records(broker, "t") == [b"new"] for broker in w.servers)
            await w.kill(2)
            assert w.partition("t").isr == (0, 1)
            await w.start_broker(2)
            await until(lambda: len(w.partition("t").isr) == 3, what="all in sync")

    run(test())


def test_a_partition_moves_to_other_brokers_with_all_its_records(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, brokers=4) as w:
            await w.create("t", factor=1)
            values = [b"%d" % i for i in range(20)]
            for value in values[:10]:
                assert await w.produce("t", value) == 0
            first = w.partition("t").leader
            others = sorted(set(w.servers) - {first})[:2]
            client = await w.client(first)
            part = messages.AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=others)
            topic = messages.AlterPartitionReassignmentsRequest.ReassignableTopic(name="t", partitions=[part])
            answer = await client.ask(messages.AlterPartitionReassignmentsRequest(topics=[topic]), 0)
            assert answer.responses[0].partitions[0].error_code == 0
            await until(lambda: w.partition("t").replicas == tuple(others), what="the move")
            image = w.servers[first].context
            await until(lambda: image.metadata.partition("t", 0) == w.partition("t"), what="the news of it")
            listed = await client.ask(messages.ListPartitionReassignmentsRequest(topics=None), 0)
            assert listed.topics == []
            for value in values[10:]:
                await until_async(lambda value=value: w.produce("t", value), 0)
            assert all(w.records(broker, "t") == values for broker in others)
            await until(lambda: w.servers[first].context.data_dir.get("t", 0) is None, what="the old copy is gone")
            client.close()

    run(test())


def test_a_push_that_could_not_be_read_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t")
            assert await w.produce("t", b"a") == 0
            logs = {broker: server.context.data_dir.get("t", 0) for broker, server in w.servers.items()}
            await until(lambda: all(each is not None and each.high_watermark == 1 for each in logs.values()))
            log = logs[w.partition("t").leader]  # idle: its followers have been told all there is to tell
            assert log is not None
            read, failed = log.read_with_end, []

            def fails_once(offset: int, max_bytes: int) -> tuple[bytes, int]:
                if not failed:
                    failed.append(offset)
                    raise OSError(errno.EMFILE, "too many open files")
                return read(offset, max_bytes)

            monkeypatch.setattr(log, "read_with_end", fails_once)
            assert await w.produce("t", b"b") == 0
            assert failed

    run(test())


async def reassign(w: World, topic: str, index: int, replicas: list[int]) -> None:
    client = await w.client(replicas[0])
    part = messages.AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=index, replicas=replicas)
    moved = messages.AlterPartitionReassignmentsRequest.ReassignableTopic(name=topic, partitions=[part])
    answer = await client.ask(messages.AlterPartitionReassignmentsRequest(topics=[moved]), 0)
    client.close()
    assert answer.responses[0].partitions[0].error_code == 0
    await until(lambda: w.partition(topic, index).replicas == tuple(replicas), what="the move")


def uncommitted(w: World, topic: str, index: int) -> bool:
    log = w.servers[w.partition(topic, index).leader].context.data_dir.get(topic, index)
    return log is not None and log.log_end_offset > log.high_watermark


def test_who_waits_for_replicas_that_are_taken_away_is_answered(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t")
            assert await w.produce("t", b"a") == 0
            await until_async(lambda: commit(w, "g", 1), 0)
            offsets = (OFFSETS_TOPIC, partition_for_group("g", 4))
            for server in w.servers.values():
                server.replicas.stop_following()
            waiting = [
                asyncio.create_task(w.produce("t", b"b", timeout_ms=60_000)),
                asyncio.create_task(commit(w, "g", 2)),
            ]
            await until(lambda: uncommitted(w, "t", 0) and uncommitted(w, *offsets))
            for topic, index in (("t", 0), offsets):
                before = w.partition(topic, index)
                await reassign(w, topic, index, [before.leader])
                assert w.partition(topic, index).leader_epoch == before.leader_epoch
            assert await asyncio.gather(*waiting) == [0, 0]

    run(test())


def test_a_shard_that_waits_for_replicas_that_are_taken_away_serves(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t")
            await until_async(lambda: commit(w, "g", 1), 0)
            index = partition_for_group("g", 4)
            server = w.servers[w.partition(OFFSETS_TOPIC, index).leader]
            for each in w.servers.values():
                each.replicas.stop_following()
            waiting = asyncio.create_task(commit(w, "g", 2))
            await until(lambda: uncommitted(w, OFFSETS_TOPIC, index))
            server.shards.reload(index)
            assert await waiting == ErrorCode.NOT_COORDINATOR
            links = server.shards.partitions.links
            await until(
                lambda: index in links and not server.shards.loading.is_sending(links[index]), what="all is read"
            )
            assert not links[index].active
            await reassign(w, OFFSETS_TOPIC, index, [server.spec.broker_id])
            await until(lambda: links[index].active, what="the shard serves")
            assert await committed(w, "g") == 2

    run(test())


def test_a_broker_that_leaves_hands_over_what_it_leads(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t", min_insync_replicas="2")
            assert await w.produce("t", b"a") == 0
            first = w.partition("t").leader
            await w.servers[first].hand_over()
            p = w.partition("t")
            assert p.leader != first
            assert first not in p.isr
            await until_async(lambda: w.produce("t", b"b"), 0)
            server = w.servers.pop(first)
            await server.stop()
            await until(lambda: not w.metadata.brokers[first].alive)
            await w.start_broker(first)
            await until(lambda: len(w.partition("t").isr) == 3, what="all in sync")
            assert w.records(first, "t") == [b"a", b"b"]

    run(test())


@pytest.mark.parametrize("fault", ["full disk", "no connection", "no answer"])
def test_a_broker_that_cannot_hand_over_stays_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def full(records: list[Any]) -> None:
        raise OSError(28, "no space left")

    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t", min_insync_replicas="3")
            assert await w.produce("t", b"a") == 0
            follower = next(broker for broker in w.servers if broker != w.partition("t").leader)
            server = w.servers[follower]
            with monkeypatch.context() as patch:
                if fault == "full disk":
                    patch.setattr(w.controller.log, "append", full)
                elif fault == "no connection":
                    patch.setattr(server.registration.link, "_protocol", None)
                else:
                    patch.setattr(registration, "_HAND_OVER_SECONDS", 0.01)
                    patch.setattr(server.registration.link, "send", lambda message: None)
                with pytest.raises(TimeoutError if fault == "no answer" else ConnectionError):
                    await server.hand_over()
            assert await w.produce("t", b"b") == 0, "it follows: all three are needed"
            assert w.records(follower, "t") == [b"a", b"b"]
            await server.hand_over()
            assert follower not in w.partition("t").isr

    run(test())


def test_nobody_counts_on_a_broker_that_has_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t")
            assert await w.produce("t", b"a") == 0
            leader = w.partition("t").leader
            follower = next(broker for broker in w.servers if broker != leader)
            came: list[Any] = []
            listener = w.servers[follower].replicas._listener
            introduce = listener._introduce
            monkeypatch.setattr(listener, "_introduce", lambda protocol: (came.append(protocol), introduce(protocol)))
            await w.servers[follower].hand_over()
            await until(lambda: len(came) > 3, what="the leader tries to reach it")
            assert await w.produce("t", b"b") == 0
            assert follower not in w.partition("t").isr
            assert w.records(follower, "t") == [b"a"]

    run(test())


@pytest.mark.parametrize("fault", ["the controller dies", "nobody comes"])
def test_a_broker_that_has_handed_over_and_is_not_stopped_follows_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t")
            if fault == "nobody comes":
                monkeypatch.setattr(registration, "_LEFT_SECONDS", 0.1)
            follower = next(broker for broker in w.servers if broker != w.partition("t").leader)
            await w.servers[follower].hand_over()
            if fault == "the controller dies":
                assert follower not in w.partition("t").isr
                w.controller.close()
                await w.start_controller()
            await until(lambda: follower in w.partition("t").isr, what="in sync again")

    run(test())


def test_a_controller_that_hangs_stops_no_leader_and_takes_nobody_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections do not end, as when its machine has lost power; then it goes on."""

    async def test() -> None:
        async with world(tmp_path, broker_session_timeout_ms="1000", broker_heartbeat_interval_ms="500") as w:
            await w.create("t", min_insync_replicas="2")
            before = w.partition("t")
            monkeypatch.setattr(w.controller, "_look_after_brokers", lambda now: None)
            hanging = [protocol.transport for protocol in w.controller._sessions]
            for transport in hanging:
                assert transport is not None
                transport.pause_reading()
            assert w.controller._server is not None
            w.controller._server.close()
            servers = list(w.servers.values())
            await until(lambda: not any(s.registration.link.connected for s in servers), what="given up")
            assert not any(transport.is_closing() for transport in hanging if transport)
            await until_async(lambda: w.produce("t", b"a"), ErrorCode.NONE)
            for transport in hanging:
                assert transport is not None
                transport.resume_reading()
            w.port = await w.controller.listen("127.0.0.1")
            await until(
                lambda: all(s.registration.link.connected and not s.registration.rejoining for s in servers),
                what="found again",
            )
            await until(lambda: len(w.controller._sessions) == 3, what="one connection each")
            await until_async(lambda: w.produce("t", b"b"), ErrorCode.NONE)
            assert w.partition("t") == before, "nobody has been taken for dead"
            assert [info.epoch for info in w.metadata.alive()] == [0, 0, 0]

    run(test())


def test_a_leader_whose_disk_lost_records_leads_no_more_and_gets_them_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t", min_insync_replicas="2")
            for value in (b"a", b"b", b"c"):
                assert await w.produce("t", value) == 0
            first = w.partition("t").leader
            server = w.servers[first]
            log = server.context.data_dir.get("t", 0)
            assert log is not None
            log.truncate_to(1)
            server.replicas.lost("t", 0)
            assert await w.produce("t", b"x") == ErrorCode.NOT_LEADER_OR_FOLLOWER
            await until(lambda: w.partition("t").leader != first, what="another leader")
            await until(lambda: first in w.partition("t").isr, what="in sync again")
            assert w.records(first, "t") == [b"a", b"b", b"c"]

    run(test())


def test_a_leader_whose_disk_takes_nothing_more_is_replaced_and_not_elected_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "_REPAIR_SECONDS", 0.02)

    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t", min_insync_replicas="2")
            assert await w.produce("t", b"a") == 0
            first = w.partition("t").leader
            log = w.servers[first].context.data_dir.logs[("t", 0)]
            finish, repairs = log.finish_repair, []

            def refuse(job: Any) -> int:
                repairs.append(job)
                job.give_up()
                job.error = StorageError("read-only file system")
                return finish(job)

            with monkeypatch.context() as patch:
                patch.setattr(log, "finish_repair", refuse)
                log._state.fail("read-only file system")
                await until(lambda: w.partition("t").leader != first, what="another leader")
                second = w.partition("t")
                assert first not in second.isr
                assert len(repairs) >= 3
                leaders = w.servers[second.leader].replicas._leaders.replicas
                replica = await until(lambda: leaders.get(("t", 0)))
                await until(lambda: replica._followers[first].refused, what="a push that is refused")
                w.controller.elect_preferred()
                assert await w.produce("t", b"b") == 0
                seen = len(repairs)
                await until(lambda: len(repairs) > seen + 3)
                assert w.partition("t").leader_epoch == second.leader_epoch, "elected once"
                assert first not in w.partition("t").isr
            assert log.finish_repair == finish
            await until(lambda: first in w.partition("t").isr, what="in sync again")
            assert w.records(first, "t") == [b"a", b"b"]

    run(test())


def test_a_broker_that_cannot_open_a_log_does_not_lead_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as w:
            await w.create("t", min_insync_replicas="2")
            assert await w.produce("t", b"a") == 0
            first = w.partition("t").leader
            folder = w.servers[first].context.data_dir.folder("t", 0)
            await w.servers.pop(first).stop()
            await until(lambda: w.partition("t").leader not in (first, -1), what="another leader")
            segment, kept = folder / f"{0:020}.log", tmp_path / "kept"
            segment.rename(kept)
            segment.mkdir()  # nothing the broker does makes it a file again
            await w.start_broker(first)
            back = w.partition("t")
            back = changed(back, leader=first, leader_epoch=back.leader_epoch + 1, isr=(first, *back.isr))
            w.controller._commit([partition_record("t", 0, back)])
            await until(lambda: w.partition("t").leader not in (first, -1), what="a leader that can open it")
            assert first not in w.partition("t").isr
            await until_async(lambda: w.produce("t", b"b"), 0)
            segment.rmdir()
            kept.rename(segment)
            await until(lambda: first in w.partition("t").isr, what="in sync again")
            await until(lambda: w.records(first, "t") == [b"a", b"b"])

    run(test())


@pytest.mark.conformance("E-14")
def test_of_two_consumers_with_one_instance_id_the_first_is_told_by_its_poll(tmp_path: Path) -> None:
    def poll(reader: Consumer, until: Callable[[], Any]) -> None:
        for _ in range(1000):
            reader.poll(50)
            if until():
                return

    async def test() -> None:
        async with world(tmp_path, brokers=1, offsets_topic_replication_factor="1") as w:
            await w.create("t", factor=1)
            readers = [
                Consumer(
                    "t",
                    bootstrap_servers=f"127.0.0.1:{w.servers[0].port}",
                    group_id="g",
                    group_instance_id="i1",
                    heartbeat_interval_ms=50,
                )
                for _ in range(2)
            ]
            first, second = readers
            try:
                await asyncio.to_thread(poll, first, first.assignment)
                await asyncio.to_thread(poll, second, second.assignment)
                with pytest.raises(FencedInstanceIdError, match="i1"):
                    await asyncio.to_thread(poll, first, lambda: False)
                assert await asyncio.to_thread(second.poll, 0) == {}
                assert second.assignment() == {TopicPartition("t", 0)}, "the second one stays"
            finally:
                for reader in readers:
                    await asyncio.to_thread(reader.close)

    run(test())
