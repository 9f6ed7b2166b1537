"""The processes of several controllers, with a Ray that the test plays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NoReturn

from actors.controller.process import ControllerProcess
from actors.controller.spec import VoterStart
from actors.controller.starting import start
from actors.links.not_controller import NotControllerError
from actors.links.versions import OWN
from actors.runtime.controllers import name_of
from tests.support.controller_process import ProcessEnded, spec_in
from tests.support.fake_ray import FakeRay
from tests.support.runtime_helpers import FakeBroker, until

IDS = (0, 1, 2)


class Processes:
    """Those that run, by their ids. All are on one node, and have its Ray."""

    def __init__(self, folder: Path) -> None:
        self._spec = spec_in(folder)
        self.folder = folder
        self.ray = FakeRay()
        self.running: dict[int, ControllerProcess] = {}

    def start(self, controller_id: int, *, founds: bool = False, restarted: bool = False) -> ControllerProcess:
        told = VoterStart(OWN, self._spec, controller_id, IDS, founds).encoded()
        made = start(told, lambda _: self.ray, lambda: restarted, lambda *_: None, self._give_up)
        self.running[controller_id] = self.ray.answering[name_of(controller_id)] = made
        return made

    @staticmethod
    def _give_up() -> NoReturn:
        raise ProcessEnded

    def kill(self, controller_id: int) -> None:
        del self.ray.answering[name_of(controller_id)]
        self.running.pop(controller_id).close()

    async def start_all(self) -> ControllerProcess:
        """Start a new cluster's, as a driver does; the one that leads, once all have a vote."""
        for each in IDS[1:]:
            await asyncio.to_thread(self.start, each)
        founds = not any(process.has_log() for process in self.running.values())
        await asyncio.to_thread(self.start, IDS[0], founds=founds)
        leader = await self.led()
        await until(lambda: len(self.voters()) == len(IDS), what="votes")
        return leader

    async def led(self) -> ControllerProcess:
        """The one that leads, once there is one alone."""
        await until(lambda: len(self.leading) == 1, what="one that leads")
        return self.running[self.leading[0]]

    @property
    def leading(self) -> list[int]:
        return [number for number, process in self.running.items() if process.leads()]

    def voters(self) -> list[int]:
        """Those that have a vote, as the one that leads knows."""
        (number,) = self.leading
        found: Any = self.running[number].loop.node.log
        return sorted(voter.id for voter in found.voters)

    async def brokers(self, ids: tuple[int, ...] = (0, 1)) -> list[FakeBroker]:
        """These brokers register with whoever leads, wherever any controller says that it is."""
        port = await until(self._known_port, what="a controller that knows who leads")
        return [await FakeBroker(each).register(port, listens_on=9092 + each) for each in ids]

    def _known_port(self) -> int | None:
        asked = next(iter(self.running.values()))
        try:
            return asked.join_info()[1]
        except NotControllerError:  # it has not heard yet
            return None

    def close(self) -> None:
        for each in list(self.running):
            self.kill(each)
