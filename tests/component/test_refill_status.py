"""The line in `coterie status` of a broker that has yet to catch up, asked of real brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.controller.reports import with_shards
from actors.controller.sessions import shards_of
from actors.links.status import Refill
from tests.support.runtime_helpers import until
from tests.support.three_brokers import World, world

VALUE = b"v" * 10_000


async def refills(w: World) -> list[Refill | None]:
    """Those of all brokers, by their ids."""
    server = w.controller
    told = await shards_of(server.brokers.values(), 60)
    found = with_shards(server.status(), server.metadata, told, server.absence)
    return [broker.refill for broker in found.brokers]


@pytest.mark.conformance("N-D-04")
async def test_a_broker_that_comes_back_shows_the_partitions_and_bytes_that_it_lacks(tmp_path: Path) -> None:
    async with world(tmp_path, 2, leader_replication_throttled_rate="1") as w:
        await w.create("t", factor=2, partitions=2)
        await w.create("whole", factor=2)
        assert await w.produce("whole", b"v") == await w.produce("t", VALUE) == 0
        assert await refills(w) == [None, None]
        leader = w.partition("t").leader
        other = 1 - leader
        await w.kill(other)
        for _ in range(30):
            assert await w.produce("t", VALUE) == 0
        assert await refills(w) == [None, None], "one that is away is not filled"
        await w.start_broker(other)
        kept = w.servers[leader].context.data_dir.logs["t", 0]
        each = kept.size_bytes // 31
        await until(lambda: len(w.records(other, "t")) == 2, what="the first push: a batch at once, and more is owed")
        found = (await refills(w))[other]
        assert found is not None
        behind = [p for topic in w.metadata.topics.values() for p in topic.partitions if other not in p.isr]
        assert (found.broker_id, found.partitions) == (other, len(behind))
        assert abs(found.size_bytes - 29 * each) <= each
        assert (await refills(w))[leader] is None
