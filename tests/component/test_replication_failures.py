"""Failovers lose nothing acknowledged: leaders are killed, cut off, or betrayed by their disks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.broker.housekeeping import Housekeeper, Intervals, compact_in_process
from actors.client import Consumer, TopicPartition
from actors.client.errors import FencedInstanceIdError
from actors.log.errors import StorageError
from actors.log.replication import Ack, LeaderReplica, Outcome
from actors.wire.errors import ErrorCode
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC, changed
from placement.records import PartitionRecord
from tests.support.runtime_helpers import until
from tests.support.three_brokers import commit, committed, until_async, world


async def test_a_killed_leader_is_followed_by_one_that_has_all_that_was_acknowledged(tmp_path: Path) -> None:
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


@pytest.mark.conformance("N-A-08")
async def test_a_leader_that_dies_with_its_controller_is_followed_without_a_lease_to_wait_for(tmp_path: Path) -> None:
    """The machine of both is lost. The next controller has never heard of that broker, but the others have."""
    async with world(tmp_path) as w:
        await w.create("t", partitions=3)
        await until(lambda: all(len(w.partition("t", index).isr) == 3 for index in range(3)), what="all in sync")
        assert await w.produce("t", b"acknowledged") == 0
        first = w.partition("t").leader
        w.node.close()
        w.servers.pop(first).abandon()
        await w.start_controller(restarted=True)
        w.controller.expect([0, 1, 2])
        await until(lambda: w.partition("t").leader not in (first, -1), 20, "another leader, long before a lease's end")
        assert not w.metadata.brokers[first].alive
        assert all(w.metadata.brokers[each].alive for each in w.servers)
        assert await w.produce("t", b"after") == 0
        assert w.records(w.partition("t").leader, "t") == [b"acknowledged", b"after"]
        await w.start_broker(first)
        await until(lambda: len(w.partition("t").isr) == 3, what="all in sync again")
        assert all(server.replicas.unreachable() == () for server in w.servers.values())


async def test_a_leader_that_hears_of_another_one_with_each_of_its_batches_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that was cut off had pushed a hundred batches, and each of them came back."""
    async with world(tmp_path) as w:
        await w.create("t")
        assert await w.produce("t", b"v") == 0
        replicas = w.servers[w.partition("t").leader].replicas
        await until(lambda: len(replicas.links) == 2, what="its followers")
        link = next(iter(replicas.links.values()))
        fenced = Ack(w.partition("t").leader_epoch + 1, 0, Outcome.FENCED)
        replicas.acknowledged(link, [(w.metadata.topics["t"].id, 0, fenced)] * 100)
        assert [each.message for each in caplog.records if "another broker leads" in each.message] == [
            f"t-0: another broker leads at epoch {fenced.leader_epoch}"
        ]


@pytest.mark.conformance("D-04")
async def test_committed_offsets_outlive_the_coordinators_broker(tmp_path: Path) -> None:
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


@pytest.mark.conformance("N-A-09")
async def test_a_controller_that_hangs_stops_no_leader_and_takes_nobody_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections do not end, as when its machine has lost power; then it goes on."""
    async with world(tmp_path, broker_session_timeout_ms="1000", broker_heartbeat_interval_ms="500") as w:
        await w.create("t", min_insync_replicas="2")
        before = w.partition("t")
        monkeypatch.setattr(w.controller, "look_after_brokers", lambda now: None)
        hanging = [each.protocol.transport for each in w.controller.sessions.connected]
        for transport in hanging:
            assert transport is not None
            transport.pause_reading()
        assert w.node.acceptor.listening is not None
        w.node.acceptor.listening.close()
        servers = list(w.servers.values())
        await until(lambda: not any(s.registration.link.connected for s in servers), what="given up")
        assert not any(transport.is_closing() for transport in hanging if transport)
        await until_async(lambda: w.produce("t", b"a"), ErrorCode.NONE)
        for transport in hanging:
            assert transport is not None
            transport.resume_reading()
        w.port = await w.node.acceptor.listen("127.0.0.1")
        await until(
            lambda: all(s.registration.link.connected and not s.registration.rejoining for s in servers),
            what="found again",
        )
        await until(lambda: len(w.controller.sessions.connected) == 3, what="one connection each")
        await until_async(lambda: w.produce("t", b"b"), ErrorCode.NONE)
        assert w.partition("t") == before, "nobody has been taken for dead"
        assert [info.epoch for info in w.metadata.alive()] == [0, 0, 0]


async def test_a_leader_whose_disk_lost_records_leads_no_more_and_gets_them_back(tmp_path: Path) -> None:
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


async def test_a_leader_whose_disk_takes_nothing_more_is_replaced_and_not_elected_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as w:
        await w.create("t", min_insync_replicas="2")
        assert await w.produce("t", b"a") == 0
        first = w.partition("t").leader
        server = w.servers[first]
        server.housekeeper.stop()
        parts = (server.context, server.replicas, server.coordinators, server.guests, compact_in_process)
        server.housekeeper = Housekeeper(*parts, Intervals(repair_s=0.02))
        server.housekeeper.start()
        log = server.context.data_dir.logs[("t", 0)]
        finish, repairs = log.repairs.finish, []

        def refuse(job: Any) -> int:
            repairs.append(job)
            job.give_up()
            job.error = StorageError("read-only file system")
            return finish(job)

        on_ack, refused = LeaderReplica.on_ack, []

        def noted(replica: LeaderReplica, broker: int, ack: Ack, now_ms: int) -> bool:
            if ack.outcome is Outcome.FAILED:
                refused.append((replica, broker))
            return on_ack(replica, broker, ack, now_ms)

        with monkeypatch.context() as patch:
            patch.setattr(LeaderReplica, "on_ack", noted)
            patch.setattr(log.repairs, "finish", refuse)
            job = log.flushing.begin()
            assert job is not None
            job.run()
            job.error, job.lost = OSError("read-only file system"), True
            with pytest.raises(StorageError):
                log.flushing.finish(job)
            await until(lambda: w.partition("t").leader != first, what="another leader")
            second = w.partition("t")
            assert first not in second.isr
            assert len(repairs) >= 3
            leaders = w.servers[second.leader].replicas.leaders.replicas
            replica = await until(lambda: leaders.get(("t", 0)))
            await until(lambda: (replica, first) in refused, what="a push that is refused")
            w.controller.elect_preferred()
            assert await w.produce("t", b"b") == 0
            seen = len(repairs)
            await until(lambda: len(repairs) > seen + 3)
            assert w.partition("t").leader_epoch == second.leader_epoch, "elected once"
            assert first not in w.partition("t").isr
        assert log.repairs.finish == finish
        await until(lambda: first in w.partition("t").isr, what="in sync again")
        assert w.records(first, "t") == [b"a", b"b"]


async def test_a_broker_that_cannot_open_a_log_does_not_lead_it(tmp_path: Path) -> None:
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
        w.controller.publisher.commit([PartitionRecord("t", 0, back)])
        await until(lambda: w.partition("t").leader not in (first, -1), what="a leader that can open it")
        assert first not in w.partition("t").isr
        await until_async(lambda: w.produce("t", b"b"), 0)
        segment.rmdir()
        kept.rename(segment)
        await until(lambda: first in w.partition("t").isr, what="in sync again")
        await until(lambda: w.records(first, "t") == [b"a", b"b"])


@pytest.mark.conformance("E-14")
async def test_of_two_consumers_with_one_instance_id_the_first_is_told_by_its_poll(tmp_path: Path) -> None:
    def poll(reader: Consumer, until: Callable[[], Any]) -> None:
        for _ in range(1000):
            reader.poll(50)
            if until():
                return

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
