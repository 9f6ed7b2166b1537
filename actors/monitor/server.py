"""The Monitor without Ray: it finds the controller, looks again and again, and answers questions from its picture."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from actors.monitor.cluster_link import Brokers, ClusterLink
from actors.monitor.picture import Picture
from actors.monitor.spec import MonitorSpec
from actors.runtime.environment import REAL, Environment
from actors.runtime.private import private_folder
from actors.settings import BrokerConfig

log = logging.getLogger(__name__)

ORPHAN_SECONDS: Final = 30.0
"""Without a controller for this long, its cluster is gone, and it ends."""
_AGAIN_SECONDS: Final = 0.5
_BEHIND_SECONDS: Final = 0.05  # more has happened than an answer holds


class MonitorServer:
    """The Monitor of a cluster. `find_controller` gives host, port and secret, and may block or raise OSError."""

    def __init__(
        self,
        spec: MonitorSpec,
        find_controller: Callable[[], tuple[str, int, bytes]],
        environment: Environment = REAL,
        orphan_seconds: float = ORPHAN_SECONDS,
    ) -> None:
        config = BrokerConfig.from_mapping(spec.config)
        self._spec = spec
        self._find_controller = find_controller
        self._environment = environment
        self._orphan_seconds = orphan_seconds
        self._encrypted = config.encrypts_links
        self._interval_s = config.integer("coterie.monitor.interval.ms") / 1000
        now_ms = environment.clock.wall_ms()
        self.picture = Picture(now_ms, config.integer("coterie.monitor.interval.ms"))
        self.brokers = Brokers()
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Look and answer until there has been no controller for `orphan_seconds`."""
        private_folder(self._spec.folder)
        heard = self._loop.time()
        while self._loop.time() - heard < self._orphan_seconds:
            link = ClusterLink(self.picture.answer)
            try:
                await self._connect(link)
                await self._watch(link)
                heard = self._loop.time()
            except (OSError, TimeoutError, ValueError) as error:
                log.info("the controller cannot be reached yet: %s", error)
            finally:
                link.close()
                self.brokers.link = None
            await asyncio.sleep(_AGAIN_SECONDS)
        log.info("there is no controller: this Monitor ends")

    async def _connect(self, link: ClusterLink) -> None:
        host, port, secret = await self._loop.run_in_executor(None, self._find_controller)
        kernel, chance = self._environment.kernel, self._environment.chance
        told = await link.connect(host, port, secret, chance, kernel.pid(), encrypted=self._encrypted)
        log.info("watching cluster %s (%s)", told.name, told.cluster_id)

    async def _watch(self, link: ClusterLink) -> None:
        """Look every interval until the connection ends."""
        self.brokers.link = link
        while not link.ended.is_set():
            begun = self._loop.time()
            try:
                await self._look(link)
            except (OSError, TimeoutError) as error:
                log.warning("a look has failed: %s", error)
                self.picture.problems = (f"the last look has failed: {error or 'no answer in time'}",)
            pause = _BEHIND_SECONDS if self.picture.is_behind else begun + self._interval_s - self._loop.time()
            try:
                async with asyncio.timeout(max(pause, _BEHIND_SECONDS)):
                    await link.ended.wait()
            except TimeoutError:
                continue

    async def _look(self, link: ClusterLink) -> None:
        begun = self._loop.time()
        observed = await link.ask(self.picture.question)
        self.picture.take(observed, round((self._loop.time() - begun) * 1000))
        self.brokers.metadata = self.picture.metadata
