"""The controller starts a Monitor, and replaces it: never before the brokers, and never two at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.links.observations import LookAround
from actors.links.operations import Operation, Result
from actors.links.pools import MemberFigures, PoolFigures
from actors.links.secret import Secrets
from actors.links.views import GetSeen, Seen
from actors.monitor.cluster_link import ClusterLink
from actors.runtime.environment import REAL
from tests.support.controller_world import Controller, controller
from tests.support.runtime_helpers import SECRET, Clock, FakeBroker, until

SEEN = Seen(1, 2, 3, 4, 5)
NEWER = b"n" * 32


def tick(c: Controller) -> None:
    c.server.monitoring.tick(c.clock.time(), serving=c.server.ready())


def state(c: Controller) -> str:
    """The state of the Monitor, as users see it."""
    found = c.server.status().monitor
    assert found is not None
    return found.state


async def seen(asked: Operation[Any]) -> Result:
    return SEEN


async def come(c: Controller, pid: int, secrets: Secrets = SECRET) -> ClusterLink:
    """A Monitor's process has come."""
    link = ClusterLink(seen)
    told = await link.connect("127.0.0.1", c.port, secrets, REAL.chance, pid, tls=None)
    assert told.cluster_id == c.metadata.cluster_id
    return link


async def test_a_monitor_is_started_once_all_brokers_serve_and_not_before(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        c.server.expect([0, 1])
        await FakeBroker(0).register(c.port)
        tick(c)
        assert c.launcher.monitors == 0
        await FakeBroker(1).register(c.port)
        await until(c.server.ready)
        tick(c)
        tick(c)
        assert c.launcher.monitors == 1
        link = await come(c, 77)
        status = c.server.status().monitor
        assert status is not None
        assert (status.pid, status.state) == (77, "Active")
        assert await c.server.monitoring.view(GetSeen()) == SEEN
        link.close()


async def test_one_that_dies_is_replaced_after_a_pause_that_grows(tmp_path: Path) -> None:
    clock = Clock(asyncio.get_running_loop())
    async with controller(tmp_path, clock=clock) as c:
        c.server.expect([0])
        await FakeBroker(0).register(c.port)
        await until(c.server.ready)
        tick(c)
        pauses = []
        for started in range(1, 4):
            assert c.launcher.monitors == started
            (await come(c, started)).close()
            await until(lambda: state(c) == "Starting")
            pauses.append(0)
            tick(c)
            while c.launcher.monitors == started:
                clock.ahead += 1
                pauses[-1] += 1
                tick(c)
        assert pauses == [2, 4, 8]


async def test_one_that_was_started_and_does_not_come_or_falls_silent_is_replaced(tmp_path: Path) -> None:
    clock = Clock(asyncio.get_running_loop())
    async with controller(tmp_path, clock=clock) as c:
        c.server.expect([0])
        await FakeBroker(0).register(c.port)
        await until(c.server.ready)
        tick(c)
        clock.ahead += 59
        tick(c)
        assert c.launcher.monitors == 1
        clock.ahead += 2
        tick(c)
        assert c.launcher.monitors == 2, "it has not come"
        link = await come(c, 77)
        clock.ahead += 61
        tick(c)
        await link.ended.wait()
        await until(lambda: state(c) == "Starting")


async def test_a_second_monitor_takes_the_place_of_the_first(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        first = await come(c, 1)
        second = await come(c, 2)
        await first.ended.wait()
        status = c.server.status().monitor
        assert status is not None
        assert status.pid == 2
        second.close()


async def deaths(link: ClusterLink) -> list[str]:
    seen = await link.ask(LookAround())
    return [event.subject for event in seen.controller.events if event.kind == "death"]


async def test_one_that_is_hung_up_on_because_of_its_secret_does_not_count_as_dead(tmp_path: Path) -> None:
    clock = Clock(asyncio.get_running_loop())
    async with controller(tmp_path, clock=clock) as c:

        async def forget_former(link: ClusterLink, valid: Secrets) -> None:
            c.server.in_force.secrets = valid
            c.node.close_unauthenticated()
            await link.ended.wait()

        await forget_former(await come(c, 77), Secrets(NEWER))
        status = c.server.status().monitor
        assert status is not None
        assert (status.pid, status.state) == (77, "Active")
        with pytest.raises(ConnectionError, match="no Monitor now: it connects again"):
            await c.server.monitoring.view(GetSeen())
        clock.ahead += 19
        tick(c)
        link = await come(c, 77, Secrets(NEWER))
        assert await deaths(link) == []

        await forget_former(link, SECRET)
        clock.ahead += 21
        tick(c)
        assert await deaths(await come(c, 78)) == ["monitor"], "it has not come back"


async def test_without_coterie_monitor_none_is_started(tmp_path: Path) -> None:
    async with controller(tmp_path, coterie_monitor="false") as c:
        c.server.expect([0])
        await FakeBroker(0).register(c.port)
        await until(c.server.ready)
        tick(c)
        assert c.launcher.monitors == 0
        assert c.server.status().monitor is None


async def test_what_pools_have_told_is_in_the_next_look(tmp_path: Path) -> None:
    pool = PoolFigures("billing-1", "billing", (MemberFigures("billing-1-0", 7, 1, 2, 3_000, 40),))
    async with controller(tmp_path) as c:
        link = await come(c, 77)
        assert (await link.ask(LookAround())).pools == ()
        c.server.monitoring.tell_of_pool(pool)
        assert (await link.ask(LookAround())).pools == (pool,)
        link.close()
