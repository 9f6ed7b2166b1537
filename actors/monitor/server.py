"""The Monitor without Ray: it finds the controller, looks again and again, and answers questions from its memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from actors.links.operations import Operation, Result
from actors.links.secret import Secrets
from actors.monitor.cluster_link import ClusterLink
from actors.monitor.spec import MonitorSpec
from actors.monitor.work import Bridge, Work
from actors.runtime.environment import REAL, Environment
from actors.settings import BrokerConfig

log = logging.getLogger(__name__)
R = TypeVar("R", bound=Result)

ORPHAN_SECONDS: Final = 30.0
"""Without a controller for this long, its cluster is gone, and it ends."""
_AGAIN_SECONDS: Final = 0.5
_BEHIND_SECONDS: Final = 0.05  # more has happened than an answer holds


class Way:
    """The way to whichever controller there is now (`watching.Controller`)."""

    def __init__(self) -> None:
        self.link: ClusterLink | None = None

    async def ask(self, operation: Operation[R], timeout_s: float) -> R:
        if self.link is None:
            raise ConnectionError("there is no connection")
        return await self.link.ask(operation, timeout_s)


class MonitorServer:
    """The Monitor of a cluster, made by `open`."""

    def __init__(
        self,
        config: BrokerConfig,
        find_controller: Callable[[], tuple[str, int, Secrets]],
        environment: Environment,
        orphan_seconds: float,
        way: Way,
        work: Work,
    ) -> None:
        self.work = work
        self._config = config
        self._find_controller = find_controller
        self._environment = environment
        self._orphan_seconds = orphan_seconds
        self._way = way
        self._interval_s = config.integer("coterie.monitor.interval.ms") / 1000
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(
        cls,
        spec: MonitorSpec,
        find_controller: Callable[[], tuple[str, int, Secrets]],
        environment: Environment = REAL,
        orphan_seconds: float = ORPHAN_SECONDS,
        bridges: Sequence[Bridge] = (),
    ) -> MonitorServer:
        """Open what it needs. `find_controller` gives host, port and secrets, and may block or raise OSError."""
        config, way = BrokerConfig.from_mapping(spec.config), Way()
        work = await Work.open(Path(spec.data_dir), config, way, environment, bridges)
        return cls(config, find_controller, environment, orphan_seconds, way, work)

    async def run(self) -> None:
        """Look and answer until there has been no controller for `orphan_seconds`."""
        try:
            await self._stay(self.work, self._way)
        finally:
            await self.work.close()

    async def _stay(self, work: Work, way: Way) -> None:
        heard = self._loop.time()
        while self._loop.time() - heard < self._orphan_seconds:
            link = ClusterLink(work.answer)
            try:
                await self._connect(link)
                way.link = link
                await self._watch(work, link)
                heard = self._loop.time()
            except (OSError, TimeoutError, ValueError) as error:
                log.info("the controller cannot be reached yet: %s", error)
            finally:
                way.link = None
                link.close()
            work.without_controller()
            await asyncio.sleep(_AGAIN_SECONDS)
        log.info("there is no controller: this Monitor ends")

    async def _connect(self, link: ClusterLink) -> None:
        host, port, secrets = await self._loop.run_in_executor(None, self._find_controller)
        kernel, chance = self._environment.kernel, self._environment.chance
        told = await link.connect(host, port, secrets, chance, kernel.pid(), tls=self._config.link_tls)
        log.info("watching cluster %s (%s)", told.name, told.cluster_id)

    async def _watch(self, work: Work, link: ClusterLink) -> None:
        """Look every interval until the connection ends."""
        while not link.ended.is_set():
            due = self._loop.time() + self._interval_s
            try:
                await work.look()
            except Exception:  # the next look is another one
                log.exception("a look has failed")
            pause = 0.0 if work.is_behind else due - self._loop.time()
            try:
                async with asyncio.timeout(max(pause, _BEHIND_SECONDS)):
                    await link.ended.wait()
            except TimeoutError:
                continue
