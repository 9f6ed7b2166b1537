"""A controller's process with a Ray that the test plays; its brokers are the test's, too."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from actors.controller.process import ControllerProcess
from actors.controller.spec import ControllerSpec, ControllerStart
from actors.controller.starting import start
from actors.links.control import Answer, Call, Stop
from actors.links.operations import Done
from actors.links.versions import OWN, Spoken
from actors.runtime.process import code_version
from placement.records import Record
from tests.support.fake_ray import FakeRay
from tests.support.runtime_helpers import SECRET, FakeBroker


class ProcessEnded(BaseException):
    pass


def spec_in(folder: Path, brokers: int = 2) -> ControllerSpec:
    (folder / "controller").mkdir(exist_ok=True)
    (folder / "secret").write_text(SECRET.current.hex())
    return ControllerSpec("c", str(folder), None, brokers, 0, "", str(folder / "secret"), {}, code_version())


def told(spec: ControllerSpec, starter: Spoken = OWN) -> bytes:
    return ControllerStart(starter, spec).encoded()


class Controllers:
    """Starts controllers of the cluster in a folder, one after the other. `restarted`: Ray says so of the next."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ray = FakeRay()
        self.restarted = False
        self.running: list[ControllerProcess] = []

    def begin(self, starter: Spoken = OWN, **changed: Any) -> ControllerProcess:
        """Start the next one. `changed` are fields of its arguments."""
        spec = replace(spec_in(self.folder), **changed)
        made = start(told(spec, starter), lambda _: self.ray, lambda: self.restarted, lambda *_: None, self._give_up)
        self.running.append(made)
        return made

    def _give_up(self) -> NoReturn:
        raise ProcessEnded

    def end(self) -> None:
        """End the one that runs, as its process's death does."""
        self.running.pop().close()


def commit(process: ControllerProcess, *records: Record) -> None:
    """Have records commit as the controller's own."""
    process.loop.commit(list(records))


async def registered(process: ControllerProcess, broker_ids: Sequence[int]) -> list[FakeBroker]:
    """These brokers come, one after the other."""
    port = process.join_info()[1]
    return [await FakeBroker(broker_id).register(port, listens_on=9092 + broker_id) for broker_id in broker_ids]


async def stopped(broker: FakeBroker) -> None:
    """A broker hands over what it leads, and stops, as it is asked to."""
    asked = await broker.hear(Call)
    broker.send(Answer(asked.number, Done()))
    await broker.hear(Stop)
    broker.hang_up()


async def in_thread(call: Any, *arguments: Any) -> Any:
    """The result of a method that waits, called as Ray calls it: in a thread of its own."""
    return await asyncio.to_thread(call, *arguments)
