"""A Monitor's work without its connections: a look after the other, and the picture that comes of them.

A look asks the controller what it and the brokers have counted and what has happened, then reads partitions and groups.
Whatever of it fails leaves the rest as it is; what could not be seen is said (`Seen.problems`). Happenings are told
once each: those that the history could not take are kept, up to a number, and offered to it again at the next look.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeVar, cast

from actors.links.observations import LookAround
from actors.links.operations import Operation, Result
from actors.links.reading import ForBroker
from actors.links.views import Seen
from actors.monitor.answers import Picture
from actors.monitor.broker_metrics import broker_families
from actors.monitor.group_views import state_of
from actors.monitor.historian import Historian
from actors.monitor.kinds import Kinds
from actors.monitor.looks import Looker
from actors.monitor.memory import Memory
from actors.monitor.metric_rows import cluster_families, group_families, one, topic_families
from actors.monitor.metric_table import Row
from actors.monitor.observed import News, Observed
from actors.monitor.pool_metrics import pool_families
from actors.monitor.trends import Trends
from actors.runtime.environment import Clock
from placement.metadata import NO_LEADER

log = logging.getLogger(__name__)
R = TypeVar("R", bound=Result)

LOOK_SECONDS: Final = 10.0
"""The time that the controller may take to answer for all brokers."""
READ_SECONDS: Final = 5.0
NO_CONTROLLER: Final = "the controller cannot be reached"
_EVENTS: Final = 1_000
_UNWRITTEN: Final = 1_000
"""The number of events, and of rebalances, that wait for a history that cannot be written."""


class Controller(Protocol):
    """The way to the controller."""

    async def ask(self, operation: Operation[R], timeout_s: float) -> R:
        """Ask it. Raises ConnectionError, TimeoutError."""


class Watcher:
    """Looks, and keeps the picture."""

    def __init__(self, controller: Controller, clock: Clock, interval_ms: int, history: Historian | None) -> None:
        self._controller = controller
        self._clock = clock
        self._interval_ms = interval_ms
        self._history = history
        self._history_bytes: int | None = None
        self.observed = Observed()
        self._memory = Memory(interval_ms)
        self._looker = Looker(self, self._memory)
        self._looks = 0
        self._unwritten = News()
        now = clock.wall_ms()
        self.picture = Picture(
            self._memory, self._looker.follower.log, Trends(), self.observed.reports, Seen(now, interval_ms, 0, 0, 0)
        )

    async def begin(self) -> None:
        """Take over what an earlier Monitor has left in the history."""
        if self._history is None:
            return
        seeds = await self._history.seeds(self._clock.wall_ms())
        self.observed = Observed(await self._history.events(_EVENTS), seeds.rebalances)
        self.picture.reports = self.observed.reports
        self.picture.trends = Trends(seeds.trends)
        self.picture.kinds = Kinds(seeds.kinds)

    @property
    def is_behind(self) -> bool:
        """True if more has happened than one answer could hold."""
        return self.observed.is_behind

    # --- looking ---

    async def look(self) -> None:
        """Take one look."""
        began = self._clock.monotonic()
        problems: list[str] = []
        self._unwritten = self._unwritten.and_then(await self._look_around(problems), _UNWRITTEN)
        now_ms = self._clock.wall_ms()
        await self._looker.look(now_ms)
        self.picture.reports = self.observed.reports  # it changes along with the records that were read, or not at all
        self._looks += 1
        self.picture.kinds.seen((group for _, group in self.picture.offsets), self.observed.pools)
        self.picture.trends.seen(now_ms, ((group, lag.records) for group, lag in self._memory.lags.items()))
        await self._remember(now_ms)
        problems += self._problems()
        took_ms = round((self._clock.monotonic() - began) * 1000)
        before = self.picture.seen
        self.picture.seen = Seen(
            before.since_ms, self._interval_ms, now_ms, took_ms, before.series_left_out, tuple(problems)
        )

    async def _look_around(self, problems: list[str]) -> News:
        version = self.observed.reports.metadata.version if self._looks else -1
        try:
            seen = await self._controller.ask(LookAround(self.observed.positions, version), LOOK_SECONDS)
        except (OSError, TimeoutError) as error:
            log.info("the controller does not answer: %s", error or "in time")
            problems.append(NO_CONTROLLER)
            return News()
        return self.observed.take(seen)

    async def _remember(self, now_ms: int) -> None:
        news = self._unwritten
        if self._history is None:
            self._unwritten = News()
            return
        kinds = self.picture.kinds.unsafe()
        if await self._history.write(now_ms, self._memory.points(now_ms), news.rebalances, news.events, kinds):
            self._unwritten = News()
            self.picture.kinds.written(kinds)
        self._history_bytes = await self._history.size_bytes()

    def _problems(self) -> Iterator[str]:
        for broker_id in sorted({*self.observed.silent, *self._looker.unanswered}):
            yield f"broker {broker_id} did not answer"
        if self._looker.follower.behind:
            yield f"{self._looker.follower.behind} offsets partitions could not be read to their ends"
        if self._history is not None and self._history.problem:
            yield f"the history cannot be written: {self._history.problem}"

    # --- the brokers, for the Looker ---

    @property
    def alive(self) -> tuple[int, ...]:
        """The ids of living brokers."""
        return tuple(broker.id for broker in self.observed.reports.metadata.alive())

    @property
    def topic_ids(self) -> Mapping[str, bytes]:
        """All topics there are."""
        return {name: topic.id for name, topic in self.observed.reports.metadata.topics.items()}

    def leader_of(self, topic: str, partition: int) -> int | None:
        """The leader of a partition, if it has one."""
        found = self.observed.reports.metadata.partition(topic, partition)
        return None if found is None or found.leader == NO_LEADER else found.leader

    async def ask(self, broker_id: int, operation: Operation[R]) -> R | None:
        """Ask a broker, by way of the controller. None if it does not answer."""
        try:
            return cast(R, await self._controller.ask(ForBroker(broker_id, operation), READ_SECONDS))
        except (OSError, TimeoutError) as error:
            log.debug("broker %d: %s", broker_id, error)
            return None

    # --- metrics, read by another thread ---

    def families(self) -> Iterator[tuple[str, Iterable[Row]]]:
        """All metrics but those of the process."""
        reports, offsets = self.observed.reports, self.picture.offsets
        groups = [
            (group, state_of(group, reports.phases), len(group.members))
            for partition in list(offsets.partitions.values())
            for group in list(partition.groups.values())
        ]
        yield from cluster_families(reports.metadata)
        yield from broker_families(self.observed)
        yield from topic_families(reports.metadata, self._memory)
        yield from group_families(groups, self._memory)
        yield from pool_families(self.observed.pools, {group.group_id: group.persisted for group, _, _ in groups})
        yield from self._own()

    def _own(self) -> Iterator[tuple[str, Iterable[Row]]]:
        seen = self.picture.seen
        answers = NO_CONTROLLER not in seen.problems
        yield "kafka_controller_kafkacontroller_activecontrollercount", one(float(answers and self._looks > 0))
        yield "coterie_monitor_look_seconds", one(seen.look_took_ms / 1000)
        yield "coterie_monitor_last_look_timestamp_seconds", one(seen.last_look_ms / 1000)
        yield "coterie_monitor_looks_total", one(self._looks)
        yield "coterie_monitor_problems", one(len(seen.problems))
        yield "coterie_monitor_history_bytes", one(self._history_bytes)
        yield "coterie_monitor_unknown_records", one(self.picture.offsets.unknown)
