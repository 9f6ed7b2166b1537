"""A Monitor put together of its settings: the history, the looks, the answers, the metrics. No Ray.

Whoever runs it (`server`) gives it the way to the controller, and has it look.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

import psutil

from actors.links.operations import Operation, Result
from actors.monitor.answers import Answers, Picture
from actors.monitor.exposition import MetricsServer, Row, Series
from actors.monitor.historian import Historian
from actors.monitor.metric_rows import one
from actors.monitor.observed import Observed
from actors.monitor.watching import NO_CONTROLLER, Controller, Watcher
from actors.runtime.environment import Environment
from actors.settings import BrokerConfig

log = logging.getLogger(__name__)

FOLDER: Final = "monitor"


class Bridge(Protocol):
    """Somebody else who is told after each look, in a thread."""

    def tell(self, picture: Picture) -> None: ...


class Work:
    """What a Monitor does, from `open` to `close`."""

    def __init__(
        self,
        config: BrokerConfig,
        watcher: Watcher,
        history: Historian | None,
        bridges: Sequence[Bridge],
    ) -> None:
        self._watcher = watcher
        self._history = history
        self._bridges = bridges
        self._answers = Answers(watcher.picture, history)
        self._process = psutil.Process(os.getpid())
        self._series = Series(self._families, lambda: config.integer("coterie.metrics.series.max"))
        self.metrics = self._serve_metrics(config)
        """None where no port is set, or the port cannot be had."""

    @classmethod
    async def open(
        cls,
        data_dir: Path,
        config: BrokerConfig,
        controller: Controller,
        environment: Environment,
        bridges: Sequence[Bridge] = (),
    ) -> Work:
        """Open the history, and the port of the metrics. What cannot be had is logged, and done without."""
        history = await _history(data_dir / FOLDER, config, environment)
        watcher = Watcher(controller, environment.clock, config.integer("coterie.monitor.interval.ms"), history)
        await watcher.begin()
        return cls(config, watcher, history, bridges)

    @property
    def picture(self) -> Picture:
        """What the Monitor knows."""
        return self._watcher.picture

    @property
    def observed(self) -> Observed:
        """What was told at the last look."""
        return self._watcher.observed

    async def answer(self, operation: Operation[Result]) -> Result:
        """The view that was asked for. Raises TypeError for what is none."""
        return await self._answers.answer(operation)

    @property
    def is_behind(self) -> bool:
        """Whether more has happened than one answer could hold, so that the next look should be at once."""
        return self._watcher.is_behind

    def without_controller(self) -> None:
        """The connection to the controller has ended: what is shown grows old."""
        picture = self._watcher.picture
        picture.seen = replace(picture.seen, problems=(NO_CONTROLLER,))

    async def look(self) -> None:
        """Take one look."""
        await self._watcher.look()
        picture = self._watcher.picture
        picture.seen = replace(picture.seen, series_left_out=self._series.left_out)
        for bridge in self._bridges:
            await asyncio.to_thread(bridge.tell, picture)

    async def close(self) -> None:
        """Close the port and the history."""
        if self.metrics is not None:
            await asyncio.to_thread(self.metrics.close)
        if self._history is not None:
            await self._history.close()

    def _families(self) -> Iterator[tuple[str, Iterable[Row]]]:
        yield from self._watcher.families()
        with self._process.oneshot():
            times = self._process.cpu_times()
            yield "coterie_monitor_cpu_seconds_total", one(times.user + times.system)
            yield "coterie_monitor_resident_bytes", one(self._process.memory_info().rss)

    def _serve_metrics(self, config: BrokerConfig) -> MetricsServer | None:
        port, host = config["coterie.metrics.port"], config.text("coterie.metrics.host") or "127.0.0.1"
        if port is None:
            return None
        try:
            server = MetricsServer(self._series, host, port)
        except OSError as error:
            log.error("coterie.metrics.port=%s at %s cannot be had: %s", port, host, error)
            return None
        log.info("metrics are at http://%s:%d/metrics", host, server.port)
        return server


async def _history(folder: Path, config: BrokerConfig, environment: Environment) -> Historian | None:
    try:
        return await Historian.open(
            folder,
            environment.clock.wall_ms(),
            config.integer("coterie.monitor.retention.hours"),
            config.integer("coterie.monitor.history.max.bytes"),
        )
    except OSError as error:
        log.error("there is no history: %s", error)
        return None
