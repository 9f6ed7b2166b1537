"""Work as tasks of a handler's loop: each started task ends, even if it is cancelled."""

from __future__ import annotations

import queue
import threading
from typing import Any

from actors.members.pools.handling.delivery import Delivery, Outcome
from actors.members.pools.handling.handler import Handler
from actors.members.pools.handling.hands import Tasks
from actors.members.pools.handling.output import Writer
from actors.members.pools.handling.progress import Progress
from actors.members.pools.handling.running import Running
from actors.members.pools.handling.spec import MemberSpec
from actors.members.pools.handling.values import Values
from actors.members.pools.handling.work import Work
from tests.support.member import T0, record


def test_a_task_that_is_cancelled_before_it_has_begun_ends_too() -> None:
    """A partition once waited for ever for such a task."""
    handled: list[int] = []

    async def handle(each: Any) -> None:
        handled.append(each.offset)

    spec = MemberSpec(("t",), "g", "host:1", concurrency=2)
    delivery = Delivery(
        spec, Handler(handle), Values({}), Writer(spec, lambda **_: None), Running(lambda: 0.0), Progress(lambda: 0.0)
    )
    tasks, work, busy = Tasks(delivery), Work.of(T0, [record(1)]), threading.Event()
    ended: queue.Queue[tuple[Outcome, BaseException | None]] = queue.Queue()
    delivery.handler.loop.loop.call_soon_threadsafe(busy.wait, 60)  # start and cancel come in one turn of the loop
    tasks.start(work, threading.Event(), lambda _, outcome, error: ended.put((outcome, error)))
    tasks.cancel([work])
    busy.set()
    assert ended.get(timeout=60) == (Outcome.LEFT, None)
    assert handled == []
