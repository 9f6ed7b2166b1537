"""Three brokers over real sockets and files: what is acknowledged, committed and deleted is so on all in sync."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from actors.links.operations import DeleteTopics, DoomedTopic
from actors.wire import messages
from actors.wire.errors import ErrorCode
from tests.support.calls import operation
from tests.support.runtime_helpers import until
from tests.support.three_brokers import World, until_async, world


async def delete_all(w: World, topic: str, timeout_ms: int = 10_000) -> tuple[int, int]:
    """DeleteRecords up to the high watermark at the partition's leader: the error code and the low watermark."""
    client = await w.client(w.partition(topic).leader)
    part = messages.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=-1)
    data = messages.DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[part])
    answer = await client.ask(messages.DeleteRecordsRequest(topics=[data], timeout_ms=timeout_ms), 2)
    client.close()
    (result,) = answer.topics[0].partitions
    return result.error_code, result.low_watermark


async def test_what_is_acknowledged_with_acks_all_is_on_every_broker_in_sync(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.create("t", min_insync_replicas="3")
        assert w.partition("t").isr == w.partition("t").replicas
        for i in range(10):
            assert await w.produce("t", b"%d" % i) == 0
            assert all(w.records(b, "t")[i:] == [b"%d" % i] for b in range(3))


async def test_readers_see_what_has_committed_and_no_more(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.create("t", min_insync_replicas="2")
        assert await w.produce("t", b"a") == 0
        leader = w.servers[w.partition("t").leader]
        log = leader.context.data_dir.get("t", 0)
        assert log is not None
        for broker_id in set(w.servers) - {leader.spec.broker_id}:
            w.servers[broker_id].replicas.followers.take = lambda *a: (_ for _ in ()).throw(OSError())  # type: ignore[method-assign]
        assert await w.produce("t", b"b", timeout_ms=200) == ErrorCode.REQUEST_TIMED_OUT
        assert (log.high_watermark, log.log_end_offset) == (1, 2)


def starts(w: World, topic: str) -> list[int]:
    """The start offset of each broker's copy of a partition."""
    logs = [server.context.data_dir.get(topic, 0) for server in w.servers.values()]
    return [log.log_start_offset for log in logs if log is not None]


async def test_deleted_records_are_gone_from_every_broker_in_sync_when_that_is_answered(tmp_path: Path) -> None:
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


async def test_a_deletion_waits_for_who_is_in_sync_and_for_nobody_else(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.create("t")
        assert await w.produce("t", b"a") == 0
        slow = next(b for b in w.servers if b != w.partition("t").leader)
        followers = w.servers[slow].replicas.followers
        take, followers.take = followers.take, lambda *a: (_ for _ in ()).throw(OSError())  # type: ignore[method-assign]
        assert await delete_all(w, "t", timeout_ms=200) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        waiting = asyncio.ensure_future(delete_all(w, "t"))
        leader = w.servers[w.partition("t").leader].replicas
        await until(lambda: len(leader.leaders.deleting.waiters[("t", 0)]) == 2)
        followers.take = take  # type: ignore[method-assign]
        assert await waiting == (0, 1)
        assert starts(w, "t") == [1, 1, 1]
        assert await w.produce("t", b"b") == 0
        await w.kill(slow)
        await until(lambda: slow not in w.partition("t").isr)
        assert await delete_all(w, "t") == (0, 2)
        assert starts(w, "t") == [2, 2]


async def test_followers_of_an_idle_partition_hear_what_retention_has_removed(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.create("t")
        for value in (b"a", b"b", b"c"):
            assert await w.produce("t", value) == 0
        logs = [server.context.data_dir.get("t", 0) for server in w.servers.values()]
        await until(lambda: all(log is not None and log.high_watermark == 3 for log in logs))
        w.servers[w.partition("t").leader].context.log("t", 0).retention.delete_before(2)
        await until(lambda: starts(w, "t") == [2, 2, 2])


async def test_a_leader_alone_refuses_what_two_have_to_hold(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.create("t", min_insync_replicas="2")
        leader = w.partition("t").leader
        for broker_id in set(w.servers) - {leader}:
            await w.kill(broker_id)
        await until(lambda: w.servers[leader].context.metadata.partition("t", 0).isr == (leader,))
        assert await w.produce("t", b"a") == ErrorCode.NOT_ENOUGH_REPLICAS
        assert await w.produce("t", b"a", acks=1) == 0


async def test_a_death_makes_no_logs_of_partitions_without_records(tmp_path: Path) -> None:
    """Making thousands in one turn outlasted the leases of those who lived."""
    async with world(tmp_path) as w:
        await w.create("t", partitions=20, min_insync_replicas="2")
        dead = w.partition("t").leader

        def in_sync(count: int) -> bool:
            images = [w.metadata, *(server.context.metadata for server in w.servers.values())]
            return all(len(each.isr) == count for image in images for each in image.topics["t"].partitions)

        def made() -> list[str]:
            return sorted(path.name for path in tmp_path.glob("data/broker-*/t-*"))

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


@pytest.mark.parametrize("written", [True, False])
async def test_a_topic_made_anew_unseen_is_another_one(tmp_path: Path, written: bool) -> None:
    async with world(tmp_path) as w:
        topic = {"name": "t", "partitions": -1, "factor": -1, "assignments": [[0, 1, 2]], "configs": {}}
        _, records = w.controller.decide(operation("create_topics", topics=[topic]))
        w.controller.publisher.commit(records)
        await until(lambda: all("t" in server.context.metadata.topics for server in w.servers.values()))
        if written:
            assert await w.produce("t", b"old") == 0
        else:
            await w.kill(2)
            await w.start_broker(2)
            await until(lambda: len(w.partition("t").isr) == 3, what="all in sync")
        assert ("t", 0) in w.servers[0].replicas.leaders.replicas

        _, records = w.controller.decide(DeleteTopics((DoomedTopic("t"),)))
        w.controller.publisher.commit(records, tell=False)
        _, records = w.controller.decide(operation("create_topics", topics=[topic]))
        w.controller.publisher.commit(records)
        new = w.metadata.topics["t"]
        await until(lambda: all(s.context.metadata.topics["t"].id == new.id for s in w.servers.values()))
        assert await w.produce("t", b"new") == 0
        assert all(w.records(broker, "t") == [b"new"] for broker in w.servers)
        await w.kill(2)
        assert w.partition("t").isr == (0, 1)
        await w.start_broker(2)
        await until(lambda: len(w.partition("t").isr) == 3, what="all in sync")


async def test_a_push_that_could_not_be_read_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
