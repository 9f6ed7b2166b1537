"""The controller without Ray: brokers that register, its restarts, what it says of itself."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import msgpack
import pytest

from actors.controller.metadata.log import MetadataLog
from actors.links.connection import ControlProtocol, dial
from actors.links.control import (
    CODEC,
    Applied,
    Hello,
    Image,
    Join,
    Joined,
    WantSpares,
)
from actors.links.unproved import UNPROVED_MAX
from actors.runtime.environment import REAL
from actors.runtime.liveness import Doing, Sight
from placement.metadata import (
    NO_LEADER,
)
from placement.records import ClusterRecord
from tests.support.controller_world import controller, create
from tests.support.runtime_helpers import SECRET, FakeBroker, until

# --- registering ---


async def test_a_new_cluster_gets_an_id_that_it_keeps(tmp_path: Path) -> None:
    async with controller(tmp_path) as first:
        cluster_id = first.metadata.cluster_id
    assert len(cluster_id) == 22
    async with controller(tmp_path) as second:
        assert second.metadata.cluster_id == cluster_id
        assert second.metadata.controller_epoch == 2


@pytest.mark.conformance("N-C-03")
async def test_a_voter_is_hung_up_on_where_there_is_no_quorum(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        lost = asyncio.Event()
        voter = ControlProtocol("voter", SECRET, REAL.chance, lambda _: None, lambda *_: None, lambda _: lost.set())
        await dial(lambda: voter, "127.0.0.1", c.port, SECRET, tls=None)
        await asyncio.wait_for(lost.wait(), 60)
        assert c.server.brokers == {}


async def test_only_a_cluster_of_an_earlier_release_may_have_pools_that_are_sealed_anew(tmp_path: Path) -> None:
    async with controller(tmp_path / "new") as made:
        assert made.metadata.pools.anew
    old = MetadataLog(tmp_path / "old" / "metadata.log")
    old.append([ClusterRecord("of an earlier release")], epoch=0)
    old.close()
    async with controller(tmp_path / "old") as taken_over:
        assert not taken_over.metadata.pools.anew


async def test_a_joining_broker_is_given_the_cluster_and_its_image(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        broker = await FakeBroker(0).connect(c.port)
        broker.send(Join(0))
        joined = await broker.hear(Joined)
        assert joined.cluster_id == c.metadata.cluster_id
        assert joined.metadata.controller_epoch == 1
        assert c.metadata.brokers == {}, "joining is not registering"


async def test_a_registered_broker_is_in_every_brokers_image(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        one = await FakeBroker(0).register(c.port, listens_on=9092)
        two = await FakeBroker(1).register(c.port, listens_on=9093)
        assert (one.epoch, two.epoch) == (0, 0)
        await until(lambda: len(one.of(Image)) >= 2 and two.of(Image))
        images = [b.of(Image)[-1].metadata for b in (one, two)]
        for image in images:
            assert [(b.id, b.port, b.alive) for b in image.alive()] == [(0, 9092, True), (1, 9093, True)]


async def test_each_new_process_of_a_broker_has_a_higher_epoch(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        epochs = []
        for _ in range(3):
            broker = await FakeBroker(0).register(c.port)
            epochs.append(broker.epoch)
            broker.hang_up()
            await until(lambda: not c.metadata.brokers[0].alive)
        assert epochs == [0, 1, 2]


async def test_a_process_that_registers_twice_replaces_its_older_connection(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        c.server.expect([0])
        older = await FakeBroker(0).register(c.port)
        newer = await FakeBroker(0, older.epoch).register(c.port)
        await older.lost.wait()
        assert newer.epoch == older.epoch
        assert c.metadata.brokers[0].alive
        assert c.launcher.killed == []
        assert c.server.status().brokers[0].pid == 1000


async def test_a_stranger_is_hung_up_on(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        stranger = await FakeBroker(0).connect(c.port, b"wrong" * 8)
        await stranger.lost.wait()
        assert not stranger.ready.is_set()
        assert stranger.heard == []
        good = await FakeBroker(1).register(c.port)  # nobody else was disturbed
        assert good.epoch == 0


async def test_a_message_that_makes_no_sense_ends_its_connection_alone(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        good = await FakeBroker(0).register(c.port)
        bad = await FakeBroker(1).connect(c.port)
        bad.protocol.send_encoded(
            msgpack.packb([next(tag for tag, cls in CODEC.classes.items() if cls is Hello)])
        )  # says nothing of itself
        await bad.lost.wait()
        assert (await create(good, "t"))["error_code"] == 0


# --- restarts of the controller ---


async def test_brokers_that_outlive_the_controller_register_again_without_an_election(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        broker = await FakeBroker(0).register(c.port)
        await create(broker, "t", partitions=3)
        before = [c.leader("t", i) for i in range(3)]
    await broker.lost.wait()
    async with controller(tmp_path) as c:
        c.server.expect([0])
        again = await FakeBroker(0, broker.epoch).register(c.port)
        assert again.epoch == broker.epoch
        assert [c.leader("t", i) for i in range(3)] == before
        image = (await again.hear(Image)).metadata
        assert image.controller_epoch == 2
        assert (await create(again, "u"))["error_code"] == 0
        assert c.launcher.started == []


async def test_a_restarted_controller_waits_a_lease_before_it_gives_a_broker_up(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        broker = await FakeBroker(0).register(c.port)
        await create(broker, "t")
    started = asyncio.get_running_loop().time()
    async with controller(tmp_path, lease_ms=1000) as c:
        c.server.expect([0])
        assert c.leader("t").leader == 0
        await until(lambda: c.launcher.started == [0])
        assert c.launcher.times[0] - started >= 0.95
        assert c.leader("t").leader == NO_LEADER


async def test_a_restarted_controller_waits_for_a_broker_that_gets_no_cpu_to_register(tmp_path: Path) -> None:
    """It knew no pids of its predecessor's brokers, and killed those of a starved machine."""
    async with controller(tmp_path) as c:
        await create(await FakeBroker(0).register(c.port), "t")
    async with controller(tmp_path) as c:
        c.server.expect([0])
        before = c.leader("t")
        c.launcher.sights[0] = Sight(Doing.RUNNABLE, 0.2)
        for _ in range(12):  # three leases
            c.clock.ahead += 15.1
            c.server.tick()
        assert (c.launcher.killed, c.leader("t")) == ([], before)
        c.launcher.sights[0] = Sight(Doing.NOTHING, 0.2)  # now it is stopped
        for _ in range(4):
            c.clock.ahead += 15.1
            c.server.tick()
        assert c.launcher.killed == [0]
        assert c.leader("t").leader == NO_LEADER


async def test_a_broker_that_was_dead_already_when_the_controller_restarted_is_started(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        broker = await FakeBroker(0).register(c.port)
        broker.hang_up()
        await until(lambda: not c.metadata.brokers[0].alive)
    async with controller(tmp_path, lease_ms=1000) as c:
        c.server.expect([0])
        await until(lambda: c.launcher.started == [0])


async def test_strangers_that_prove_nothing_keep_no_broker_out(tmp_path: Path) -> None:
    """XE-04: of those that have not proved the secret there are 64, and the oldest goes."""
    async with controller(tmp_path) as c:
        known = await FakeBroker(4).register(c.port)
        idle = [await asyncio.open_connection("127.0.0.1", c.port) for _ in range(UNPROVED_MAX + 1)]
        oldest, _ = idle[0]
        with suppress(ConnectionResetError):
            assert await oldest.read() == b"", "nothing is said to who says nothing"
        newest, writer = idle[-1]
        writer.write((1 << 20).to_bytes(4, "big"))  # no proof is as long as that
        with suppress(ConnectionResetError):
            assert len(await newest.read()) < 100, "a challenge at most, and then the end"
        await FakeBroker(5).register(c.port)
        assert not known.lost.is_set()
        for _, writer in idle:
            writer.close()


# --- shards, status, the end ---


async def test_spares_are_asked_of_the_launcher_for_the_broker_that_asks(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        nobody = await FakeBroker(9).connect(c.port)
        nobody.send(WantSpares(3))  # it has not said who it is
        broker = await FakeBroker(4).register(c.port)
        broker.send(WantSpares(2))
        await until(lambda: c.launcher.shards)
        assert c.launcher.shards == [(4, 2)]


async def test_ready_means_that_all_expected_brokers_know_of_one_another(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        assert not c.server.ready(), "nobody is expected yet"
        c.server.start([0, 1])
        await FakeBroker(0).register(c.port)
        slow = await FakeBroker(1, acks=False).register(c.port)
        assert not c.server.ready()
        slow.send(Applied(c.metadata.version))
        await until(c.server.ready)


async def test_a_stopping_controller_starts_nobody_again(tmp_path: Path) -> None:
    async with controller(tmp_path, lease_ms=1000) as c:
        broker = await FakeBroker(0).register(c.port)
        c.server.expect([0])
        c.server.stopping = True
        broker.hang_up()
        c.server.start_failed(0, "it ended")
        await until(lambda: c.server.status().brokers[0].pid is None)
        assert c.launcher.started == []
