"""A whole Monitor without its connection: beside a real broker and controller, with its file and its port."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import urllib.request
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from actors.links.control import CODEC, Answer
from actors.links.observations import CONTROLLER, BrokerObserved, ClusterObserved, Happenings, LookAround
from actors.links.operations import Operation, Result
from actors.links.reading import ForBroker
from actors.links.status import Load
from actors.links.views import (
    ClassicRebalanceView,
    Event,
    GetGroup,
    GetGroupHistory,
    GetOverview,
    GetSeen,
    GroupHistory,
    GroupView,
    ListGroupRows,
    Overview,
    Seen,
)
from actors.monitor.historian import Historian
from actors.monitor.history import FILE, History
from actors.monitor.history_file import connected
from actors.monitor.watching import Watcher
from actors.monitor.work import FOLDER, Work
from actors.runtime.environment import Clock, Environment
from actors.settings import BrokerConfig
from placement.metadata import OFFSETS_TOPIC
from tests.component.test_monitor_reads import NOW_MS, append, commit, with_offsets_topic, with_topic
from tests.support.one_broker import World, world

R = TypeVar("R", bound=Result)
REBALANCE = ClassicRebalanceView("billing", NOW_MS, 3, "member left", "m")


class OfWorld:
    """A way to the controller of a world, for what a broker and its logs say; what they count is made up."""

    def __init__(self, w: World) -> None:
        self._world = w
        self.events: list[Event] = []
        self.answers = True

    async def ask(self, operation: Operation[R], timeout_s: float) -> R:
        if not self.answers or self._world.controller is None:
            raise ConnectionError("it has gone")
        if isinstance(operation, ForBroker):
            session = self._world.controller.brokers[operation.broker_id]
            return cast(R, await session.calls.ask(operation.operation, timeout_s))
        assert isinstance(operation, LookAround)
        known = next((each.number for each in operation.positions if each.source == CONTROLLER), 0)
        told = Happenings(1, len(self.events), len(self.events), 0, tuple(self.events[known:]))
        broker = BrokerObserved(0, NOW_MS, Load(), Happenings(1, 0, 0))
        metadata = self._world.controller.metadata
        changed = None if metadata.version == operation.metadata_version else metadata
        status = self._world.controller.status()
        return cast(R, ClusterObserved(NOW_MS, status, told, (broker,), (), changed))


class Time:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.ms = NOW_MS

    def environment(self) -> Environment:
        return Environment(Clock(lambda: self.ms / 1000, lambda: self.ms, lambda: self.ms))


@asynccontextmanager
async def working(w: World, path: Path, time: Time, **settings: str) -> AsyncIterator[tuple[Work, OfWorld]]:
    controller = OfWorld(w)
    given = {name.replace("_", "."): value for name, value in settings.items()}
    config = BrokerConfig.from_mapping({"coterie.metrics.port": "0", **given})
    work = await Work.open(path, config, controller, time.environment())
    try:
        yield work, controller
    finally:
        await work.close()


async def asked(work: Work, operation: Operation[R]) -> Any:
    return await work.answer(cast("Operation[Result]", operation))


async def scraped(work: Work) -> str:
    assert work.metrics is not None

    def scrape() -> str:
        assert work.metrics is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{work.metrics.port}/metrics", timeout=30) as answer:
            return str(answer.read().decode())

    return await asyncio.to_thread(scrape)


async def test_a_group_is_seen_scraped_and_remembered_by_the_next_monitor(tmp_path: Path) -> None:
    time = Time()
    settings = {"offsets_topic_replication_factor": "1", "offsets_topic_num_partitions": "2"}
    async with world(tmp_path, coterie_shard_wait_ms="0", **settings) as w:
        await with_topic(w, "orders", 2)
        await with_offsets_topic(w)
        append(w, "orders", 0, *[b"x"] * 10, at_ms=NOW_MS - 90_000)
        commit(w, 1, "billing", 4)
        async with working(w, tmp_path, time) as (work, controller):
            controller.events.append(Event(1, NOW_MS, "election", "orders-0", "broker 0 leads"))
            await work.look()
            view = await asked(work, GetGroup("billing"))
            assert isinstance(view, GroupView)
            assert view.row is not None
            assert (view.row.lag, view.row.lag_seconds, view.row.kind) == (6, 90.0, "simple")
            time.ms += 5_000
            await work.look()
            text = await scraped(work)
            assert 'kafka_consumergroup_lag{consumergroup="billing",partition="0",topic="orders"} 6.0' in text
            assert 'kafka_consumergroup_lag_seconds{consumergroup="billing",partition="0",topic="orders"} 95.0' in text
            assert "coterie_monitor_looks_total 2.0" in text
            assert (await asked(work, GetSeen())).problems == ()
        async with working(w, tmp_path, time) as (work, controller):
            controller.events.append(Event(1, NOW_MS, "election", "orders-0", "broker 0 leads"))
            time.ms += 5_000
            await work.look()
            past = await asked(work, GetGroupHistory("billing", NOW_MS, time.ms))
            assert isinstance(past, GroupHistory)
            assert [(each.wall_ms - NOW_MS, each.lag, each.lag_seconds) for each in past.points] == [
                (0, 6, 90.0),
                (5_000, 6, 95.0),
                (10_000, 6, 100.0),
            ]
            seen = await asked(work, GetOverview())
            assert isinstance(seen, Overview)
            assert [each.text for each in seen.events] == ["broker 0 leads"], "it is not told of twice"
            assert (seen.topics, seen.lag) == (2, 6)


async def test_without_a_controller_what_was_seen_is_shown_and_said_to_be_old(tmp_path: Path) -> None:
    time = Time()
    async with world(tmp_path, offsets_topic_replication_factor="1", offsets_topic_num_partitions="1") as w:
        await with_topic(w, "orders", 2)
        async with working(w, tmp_path, time) as (work, controller):
            await work.look()
            controller.answers = False
            time.ms += 5_000
            await work.look()
            seen = await asked(work, GetSeen())
            assert isinstance(seen, Seen)
            assert any("controller" in each for each in seen.problems)
            assert "broker 0 did not answer" in seen.problems
            assert (await asked(work, GetOverview())).topics == 1
            text = await scraped(work)
            assert "kafka_controller_kafkacontroller_activecontrollercount 0.0" in text
            controller.answers = True
            await work.look()
            assert (await asked(work, GetSeen())).problems == ()


async def test_what_cannot_be_had_is_said_and_done_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / FOLDER).write_text("a file where the folder should be")
    async with world(tmp_path / "w") as w:
        async with working(w, tmp_path, time) as (first, _):
            assert first.metrics is not None
            with caplog.at_level(logging.ERROR):
                taken = {"coterie_metrics_port": str(first.metrics.port)}
                async with working(w, tmp_path / "other", time, **taken) as (second, _):
                    assert second.metrics is None
                    await second.look()
                    assert (await asked(second, ListGroupRows())).groups == ()
                    assert (await asked(second, GetGroupHistory("g", 0, NOW_MS))).points == ()
    assert "cannot be had" in caplog.text
    assert "there is no history" in caplog.text


async def test_the_offsets_topic_counts_as_internal(tmp_path: Path) -> None:
    settings = {"offsets_topic_replication_factor": "1", "offsets_topic_num_partitions": "1"}
    time = Time()
    async with world(tmp_path, coterie_shard_wait_ms="0", **settings) as w:
        await with_offsets_topic(w)
        async with working(w, tmp_path, time) as (work, _):
            await work.look()
            commit(w, 0, "billing", 1)
            time.ms += 5_000
            await work.look()
            seen = await asked(work, GetOverview())
            assert (seen.messages_per_s, seen.topics) == (0.0, 1)
            assert OFFSETS_TOPIC in await scraped(work)


async def curve(work: Work, group: str, until_ms: int) -> list[int | None]:
    past = await asked(work, GetGroupHistory(group, NOW_MS, until_ms))
    assert isinstance(past, GroupHistory)
    return [each.lag for each in past.points]


async def test_a_group_that_commits_more_than_64_bits_in_all_costs_no_other_group_its_curve(tmp_path: Path) -> None:
    """Each look ended with an OverflowError, and groups that came later shared an id in the file."""
    time = Time()
    settings = {"offsets_topic_replication_factor": "1", "offsets_topic_num_partitions": "1"}
    async with world(tmp_path, coterie_shard_wait_ms="0", **settings) as w:
        await with_topic(w, "orders", 2)
        await with_offsets_topic(w)
        append(w, "orders", 0, *[b"x"] * 10, at_ms=NOW_MS - 90_000)
        commit(w, 0, "billing", 4)
        async with working(w, tmp_path, time) as (work, _):
            await work.look()
            commit(w, 0, "hostile", 2**63 - 1, partitions=2)
            for number in range(3):
                commit(w, 0, f"late-{number}", number)
                time.ms += 5_000
                await work.look()
            assert await curve(work, "billing", time.ms) == [6, 6, 6, 6]
            assert [await curve(work, f"late-{each}", time.ms) for each in range(3)] == [[10] * 3, [9] * 2, [8]]
            past = await asked(work, GetGroupHistory("hostile", NOW_MS, time.ms))
            assert {(each.lag, each.committed) for each in past.points} == {(0, None)}, "it has a curve itself"
            assert (await asked(work, GetSeen())).problems == ()
            assert (await asked(work, GetSeen())).last_look_ms == time.ms
            for operation in (GetGroup("hostile"), ListGroupRows(), GetOverview(), past):
                answer = await asked(work, operation) if operation is not past else past
                assert CODEC.decode(CODEC.encode(Answer(1, answer))) == Answer(1, answer), "it can be sent"
            text = await scraped(work)
            assert 'kafka_consumergroup_current_offset_sum{consumergroup="hostile",topic="orders"} 1.8' in text
        async with working(w, tmp_path, time) as (work, _):
            assert stored_ids(tmp_path) == 5
            await work.look()
            assert len(await curve(work, "billing", time.ms)) == 4


def stored_ids(path: Path) -> int:
    """The number of groups in the history, each with an id of its own."""
    with closing(sqlite3.connect(path / FOLDER / FILE)) as db:
        (names,), (ids,) = (
            db.execute(f"SELECT count(*) FROM ({each})").fetchone()
            for each in ("SELECT name FROM groups", "SELECT DISTINCT group_id FROM lag")
        )
    assert names == ids
    return int(names)


async def test_what_happened_while_the_disk_was_full_is_written_later(tmp_path: Path) -> None:
    """Happenings are told of once, and were lost with the look that could not be written."""
    time = Time()
    async with world(tmp_path, offsets_topic_replication_factor="1", offsets_topic_num_partitions="1") as w:
        db = connected(tmp_path / FILE)
        controller = OfWorld(w)
        historian = Historian(ThreadPoolExecutor(1), History(tmp_path / FILE, db, 168, 1 << 28))
        watcher = Watcher(controller, time.environment().clock, 5_000, historian)
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
        controller.events.append(Event(1, NOW_MS, "election", "orders-0", "broker 0 leads " * 10_000))
        await watcher.look()
        assert watcher.picture.seen.problems == ("the history cannot be written: database or disk is full",)
        assert await historian.events(10) == ()
        db.execute("PRAGMA max_page_count = 1000000")
        time.ms += 5_000
        await watcher.look()
        assert watcher.picture.seen.problems == ()
        assert [each.kind for each in await historian.events(10)] == ["election"]
        await historian.close()


class Failing(OfWorld):
    """It fails in the middle of a look, in a way that nobody expects, while `fails`."""

    fails = True

    async def ask(self, operation: Operation[R], timeout_s: float) -> R:
        if self.fails and isinstance(operation, ForBroker):
            raise RuntimeError("a bug")
        return await super().ask(operation, timeout_s)


async def test_what_a_look_that_failed_was_told_is_in_the_history_after_the_next_one(tmp_path: Path) -> None:
    async with world(tmp_path, offsets_topic_replication_factor="1", offsets_topic_num_partitions="1") as w:
        history = await Historian.open(tmp_path, NOW_MS, 168, 1 << 28)
        controller = Failing(w)
        watcher = Watcher(controller, Time().environment().clock, 5_000, history)
        controller.events.append(Event(1, NOW_MS, "election", "orders-0", "broker 0 leads"))
        with pytest.raises(RuntimeError, match="a bug"):
            await watcher.look()
        assert watcher.picture.seen.last_look_ms == 0
        assert watcher.picture.reports.metadata.version == 0, "it is shown whole or not at all"
        assert await history.events(10) == ()
        controller.fails = False
        await watcher.look()
        assert [each.text for each in watcher.picture.reports.events] == ["broker 0 leads"]
        assert [each.text for each in await history.events(10)] == ["broker 0 leads"]
        await history.close()
