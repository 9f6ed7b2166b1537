"""A Monitor put together of its settings: the history, the looks, the answers, the metrics, the console. No Ray.

Whoever runs it (`server`) gives it the way to the controller, and has it look.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

import psutil

from actors.links.operations import Operation, Result
from actors.monitor.answers import Answers, Picture
from actors.monitor.historian import Historian
from actors.monitor.metric_rows import one
from actors.monitor.metric_table import Row
from actors.monitor.observed import Observed
from actors.monitor.watching import NO_CONTROLLER, Controller, Watcher
from actors.runtime.environment import Environment
from actors.settings import BrokerConfig

if TYPE_CHECKING:
    from actors.monitor.exposition import MetricsServer, Series

log = logging.getLogger(__name__)

FOLDER: Final = "monitor"
R = TypeVar("R", bound=Result)


class Bridge(Protocol):
    """Somebody else who is told after each look, in a thread."""

    def tell(self, picture: Picture) -> None: ...


class Views:
    """The Source of a console in this process."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def view(self, operation: Operation[R]) -> R:
        """The view that is asked for. Raises SourceError before the first look."""
        from actors.console.source import SourceError  # not imported where nobody asked for a console

        try:
            return cast(R, await self._answers.answer(operation))
        except LookupError as error:
            raise SourceError(str(error)) from error


Console = Callable[[Views], Coroutine[object, object, None]]
"""Serves a console over views until cancelled, or does nothing."""


class Work:
    """The work of a Monitor, from `open` to `close`."""

    def __init__(
        self,
        config: BrokerConfig,
        watcher: Watcher,
        history: Historian | None,
        bridges: Sequence[Bridge],
        console: Console,
    ) -> None:
        self._watcher = watcher
        self._history = history
        self._bridges = bridges
        self._answers = Answers(watcher.picture, history)
        self._console = asyncio.ensure_future(console(Views(self._answers)))
        self._process = psutil.Process(os.getpid())
        self._series: Series | None = None
        self.metrics = self._serve_metrics(config)
        """None where no port is set, or the port cannot be had."""
        self._serving = None if self.metrics is None else asyncio.ensure_future(self.metrics.run())

    @classmethod
    async def open(
        cls,
        data_dir: Path,
        config: BrokerConfig,
        controller: Controller,
        environment: Environment,
        bridges: Sequence[Bridge] = (),
    ) -> Work:
        """Open the history, and the port of the metrics. A part that cannot be had is logged, and done without."""
        history = await _history(data_dir / FOLDER, config, environment)
        watcher = Watcher(controller, environment.clock, config.integer("coterie.monitor.interval.ms"), history)
        await watcher.begin()
        return cls(config, watcher, history, bridges, partial(_serve_console, config, data_dir, environment))

    @property
    def picture(self) -> Picture:
        """The Monitor's picture of the cluster."""
        return self._watcher.picture

    @property
    def observed(self) -> Observed:
        """The reports at the last look."""
        return self._watcher.observed

    async def answer(self, operation: Operation[Result]) -> Result:
        """The view that was asked for. Raises TypeError for what is none."""
        return await self._answers.answer(operation)

    @property
    def is_behind(self) -> bool:
        """True if more has happened than one answer could hold, so that the next look should be at once."""
        return self._watcher.is_behind

    def without_controller(self) -> None:
        """The connection to the controller has ended: what is shown grows old."""
        picture = self._watcher.picture
        picture.seen = replace(picture.seen, problems=(NO_CONTROLLER,))

    async def look(self) -> None:
        """Take one look."""
        await self._watcher.look()
        picture = self._watcher.picture
        if self._series is not None:
            picture.seen = replace(picture.seen, series_left_out=self._series.left_out)
        for bridge in self._bridges:
            await asyncio.to_thread(bridge.tell, picture)

    async def close(self) -> None:
        """Close the console, the port and the history."""
        tasks = [self._console] if self._serving is None else [self._console, self._serving]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if self.metrics is not None:
            self.metrics.close()
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
        from actors.monitor.exposition import MetricsServer, Series  # prometheus-client, for those who want it

        self._series = Series(self._families, lambda: config.integer("coterie.metrics.series.max"))
        try:
            names = (*(config["coterie.metrics.names"] or ()), socket.gethostname())
            server = MetricsServer(self._series, host, port, names)
        except OSError as error:
            log.error("coterie.metrics.port=%s at %s cannot be had: %s", port, host, error)
            return None
        log.info("metrics are at http://%s:%d/metrics", host, server.port)
        return server


async def _serve_console(config: BrokerConfig, data_dir: Path, environment: Environment, views: Views) -> None:
    if config["coterie.console.port"] is None:
        return
    from actors.console.beside import serve_beside  # not imported where nobody asked for it

    await serve_beside(views, config, data_dir, environment)


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
