"""The controller's calls to its brokers over its link: about shards, about a group, to hand over, to stop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors.broker.contact import Contact
from actors.broker.controller_link import ControllerLink
from actors.broker.replication import LOST
from actors.controller.sessions import shards_of, stop_all
from actors.links.control import Answer, Call, Confirmed, Failed, Heartbeat, Join, Joined, Stop
from actors.links.operations import AllocateProducerIds, Done, HandOver, ListShards, LookAtGroup, Shards
from actors.links.status import Load, ShardStatus
from actors.runtime.environment import REAL
from tests.support.controller_world import controller
from tests.support.one_broker import world
from tests.support.runtime_helpers import SECRET, FakeBroker, until

ROW = ShardStatus(3, 77, "Active", 1)


async def test_each_answer_goes_to_who_asked(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        broker = await FakeBroker(0).register(c.port)
        calls = c.server.brokers[0].calls
        shards, handed_over = (
            asyncio.create_task(calls.ask(operation, 60)) for operation in (ListShards(), HandOver())
        )
        second, first = await broker.hear(Call, 2), await broker.hear(Call, 1)
        broker.send(Failed(second.number, "nobody else is in sync"))
        broker.send(Answer(first.number, Shards((ROW,))))
        assert await shards == Shards((ROW,))
        with pytest.raises(ConnectionError, match="nobody else is in sync"):
            await handed_over
        broker.send(Answer(first.number, Done()))  # once more, which nobody waits for
        await broker.register(c.port)


async def test_a_broker_that_hangs_up_owes_no_answer(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        broker = await FakeBroker(0).register(c.port)
        asked = asyncio.create_task(c.server.brokers[0].calls.ask(ListShards(), 60))
        await broker.hear(Call)
        broker.hang_up()
        with pytest.raises(ConnectionError, match="has hung up"):
            await asked


async def test_a_broker_that_does_not_answer_is_left_out(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        silent, brisk = [await FakeBroker(broker_id).register(c.port) for broker_id in range(2)]
        asked = asyncio.create_task(shards_of(c.server.brokers.values(), 0.2))
        brisk.send(Answer((await brisk.hear(Call)).number, Shards((ROW,))))
        assert await asked == {1: Shards((ROW,))}
        assert len(silent.of(Call)) == 1


async def test_a_stop_waits_until_each_broker_has_hung_up(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        brokers = [await FakeBroker(broker_id).register(c.port) for broker_id in range(2)]
        c.server.stopping = True
        stopped = asyncio.create_task(stop_all(c.server.brokers.values(), 60))
        for broker in brokers:
            await broker.hear(Stop)
            assert not stopped.done()
            broker.hang_up()
        await stopped
        assert c.launcher.started == []


async def test_a_stop_does_not_wait_for_ever(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        await FakeBroker(0).register(c.port)
        with pytest.raises(TimeoutError):
            await stop_all(c.server.brokers.values(), 0.01)


async def test_a_broker_that_recovers_is_heard_and_has_no_lease(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        broker = await FakeBroker(4).connect(c.port)
        broker.send(Join(4))
        broker.send(Heartbeat(1.0, Load()))
        await until(lambda: c.launcher.alive == [4, 4])
        await broker.hear(Joined)
        assert broker.of(Confirmed) == []
        assert c.launcher.ports == {}


async def test_the_next_controller_leaves_a_broker_to_its_recovery(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        c.server.expect([0])
        recovering = await FakeBroker(0).connect(c.port)
        recovering.send(Join(0))
        await recovering.hear(Joined)
        for tick in range(8):  # two leases
            c.clock.ahead += 15.1
            recovering.send(Heartbeat(tick, Load()))
            await until(lambda heard=tick + 2: len(c.launcher.alive) == heard)
            c.server.tick()
        assert c.launcher.killed == []
        recovering.hang_up()
        await recovering.lost.wait()
        for _ in range(8):
            c.clock.ahead += 15.1
            c.server.tick()
        await until(lambda: c.launcher.killed == [0])


async def test_a_broker_that_recovers_joins_the_next_controller(tmp_path: Path) -> None:
    port = 0
    contact = Contact(4, lambda: ("127.0.0.1", port, SECRET), asyncio.get_running_loop(), REAL.chance)
    async with controller(tmp_path) as first:
        port = first.port
        await contact.join_first()
        recovery = asyncio.create_task(contact.show_recovery(every_s=0.01))
        await until(lambda: len(first.launcher.alive) > 1)
    async with controller(tmp_path) as second:
        port = second.port
        await until(lambda: len(second.launcher.alive) > 1)
        assert set(second.launcher.alive) == {4}
        recovery.cancel()
        contact.link.close()


async def test_a_call_over_a_link_that_is_closed_is_answered(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        link = ControllerLink(asyncio.get_running_loop(), SECRET, REAL.chance)
        await link.connect("127.0.0.1", c.port)
        said: list[str | None] = []
        link.call(AllocateProducerIds(), lambda _, error: said.append(error))
        link.close()
        assert said == [LOST]


async def test_a_broker_answers_what_it_is_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with world(tmp_path) as w:
        assert w.controller is not None
        calls = w.controller.brokers[0].calls
        assert await calls.ask(ListShards(), 60) == Shards(())
        assert (await calls.ask(LookAtGroup("nobody's"), 60)).status is None
        assert await calls.ask(HandOver(), 60) == Done()
        with pytest.raises(ConnectionError, match="AllocateProducerIds is nothing that a broker does"):
            await calls.ask(AllocateProducerIds(), 60)
        assert "AllocateProducerIds failed" in caplog.text, "a bug is answered, and logged where it is"
        assert w.launcher.ports == {0: w.server.port}


async def test_a_broker_serves_until_it_is_told_to_stop_and_then_closes_its_logs(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        assert w.controller is not None
        w.controller.stopping = True
        served = asyncio.create_task(w.server.serve())
        await stop_all(w.controller.brokers.values(), 60)
        await served
        assert (tmp_path / "data" / "broker-0" / ".clean_shutdown").exists()
