"""A Monitor's server beside a real controller and broker: over the link, with another controller, and to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actors.links.operations import CreateOffsetsTopic
from actors.links.views import GetGroup, GetOverview, GetSeen, ListTopicRows, Seen
from actors.monitor.server import MonitorServer
from actors.monitor.spec import MonitorSpec
from tests.component.test_monitor_reads import NOW_MS, append, commit, with_offsets_topic, with_topic
from tests.support.one_broker import World, world
from tests.support.runtime_helpers import until

SETTINGS = {"offsets_topic_replication_factor": "1", "offsets_topic_num_partitions": "2", "coterie_shard_wait_ms": "0"}


@asynccontextmanager
async def monitored(w: World, path: Path, orphan_seconds: float = 30.0) -> AsyncIterator[asyncio.Task[None]]:
    config = {name.replace("_", "."): value for name, value in w.settings.items()}
    spec = MonitorSpec("default", "namespace", str(path), "", {**config, "coterie.monitor.interval.ms": "100"})
    server = await MonitorServer.open(spec, w.find_controller, orphan_seconds=orphan_seconds)
    running = asyncio.ensure_future(server.run())
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def seen(w: World) -> Seen | None:
    """The Monitor's word on itself, by way of the controller; None if there is none, or it has not looked."""
    if w.controller is None:
        return None
    try:
        found = await w.controller.monitoring.view(GetSeen())
    except (OSError, TimeoutError):
        return None
    return found if found.last_look_ms else None


async def until_seen(w: World, after_ms: int = 0) -> Seen:
    while True:
        found = await seen(w)
        if found is not None and found.last_look_ms > after_ms:
            return found
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("security", [{}, {"coterie_internal_security": "tls"}], ids=["plain", "encrypted"])
async def test_it_sees_a_group_over_its_one_link(tmp_path: Path, security: dict[str, str]) -> None:
    async with world(tmp_path, **SETTINGS, **security) as w, monitored(w, tmp_path):
        assert w.controller is not None
        await with_topic(w, "orders", 2)
        await with_offsets_topic(w)
        append(w, "orders", 0, *[b"x"] * 10, at_ms=NOW_MS)
        commit(w, 1, "billing", 4)
        found = await until_seen(w)
        await until_seen(w, found.last_look_ms)
        view = await w.controller.monitoring.view(GetGroup("billing"))
        assert view.row is not None
        assert (view.row.lag, view.row.kind) == (6, "simple")
        assert view.row.lag_seconds is not None
        assert (await w.controller.monitoring.view(GetOverview())).brokers[0].alive
        assert [row.name for row in (await w.controller.monitoring.view(ListTopicRows())).topics][-1] == "orders"
        with pytest.raises(ConnectionError, match="TypeError"):
            await w.controller.monitoring.view(CreateOffsetsTopic())


async def test_it_finds_the_next_controller_and_shows_what_it_knew_meanwhile(tmp_path: Path) -> None:
    async with world(tmp_path, **SETTINGS) as w, monitored(w, tmp_path):
        await with_topic(w, "orders", 1)
        before = await until_seen(w)
        w.stop_controller()
        await until(lambda: not w.server.registration.link.connected)
        controller = await w.start_controller()
        await until(controller.ready, what="registered again")
        after = await until_seen(w, before.last_look_ms)
        assert after.since_ms == before.since_ms, "it is the same Monitor"


async def test_without_a_controller_for_long_it_ends(tmp_path: Path) -> None:
    async with world(tmp_path, **SETTINGS) as w, monitored(w, tmp_path, orphan_seconds=0.0) as running:
        await asyncio.wait_for(running, 60)
    async with world(tmp_path / "other", **SETTINGS) as w, monitored(w, tmp_path, orphan_seconds=0.6) as running:
        await until_seen(w)
        w.stop_controller()
        await asyncio.wait_for(running, 60)
