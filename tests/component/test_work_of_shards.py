"""Work that a shard has done in a thread, so that its process serves meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from actors.coordinator_kinds.groups import GROUPS
from actors.coordinator_kinds.kind import Hosted, Surroundings
from actors.links.relay import Kind
from actors.offsets_partition.process import ShardProcess
from tests.support.runtime_helpers import until
from tests.support.shard_broker import FakeBroker

IsLate = Callable[[], bool]


async def test_work_of_shards_was_done_by_many_threads_at_once_which_held_up_the_loop(tmp_path: Path) -> None:
    """One thread does it, and ends work that is not needed any more."""
    surroundings: list[Surroundings] = []

    def host(assignment: bytes, around: Surroundings) -> Hosted:
        surroundings.append(around)
        return GROUPS.host(assignment, around)

    broker = await FakeBroker(str(tmp_path / "s")).listen()
    running = asyncio.ensure_future(ShardProcess(broker.path, "", "tests", kinds=(replace(GROUPS, host=host),)).run())
    try:
        await broker.serving()
        threads: set[int] = set()
        done: list[Any] = []

        def work(is_late: IsLate) -> bool:
            threads.add(threading.get_ident())
            return is_late()

        for _ in range(8):
            surroundings[0].elsewhere(work, lambda result, _: done.append(result))
        await until(lambda: len(done) == 8)
        assert (done, len(threads)) == ([False] * 8, 1)

        began, ended = threading.Event(), threading.Event()

        def endless(is_late: IsLate) -> None:
            began.set()
            while not is_late():
                ended.wait(0.001)
            ended.set()

        surroundings[0].elsewhere(endless, lambda *_: done.append("not for this one"))
        await until(began.is_set)
        broker.link.send(Kind.RESIGN)
        await until(ended.is_set)
        broker.log, broker.end = [], 0
        await broker.serving()
        surroundings[1].elsewhere(work, lambda result, _: done.append(result))
        await until(lambda: len(done) > 8)
        assert done[8:] == [False]
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        broker.server.close()
        for link in list(broker.links):
            link.close()
