"""Records that end the process which handles them: what a pool's members do with them, life by life.

A member loop with a fake consumer is a process here. When its handler dies, it commits nothing more, and nobody
hears of it again, as of a process that was killed. The notes of that death go to the next one.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from actors.client import ConsumerRecord
from actors.links.member_counts import Committing
from actors.links.member_deaths import Committed, InHand, Span
from actors.members.pools.deaths import Deaths
from actors.members.pools.handler_member import MemberSpec
from actors.members.pools.slots import Slot, Together, Version
from tests.support.member import T0, Member, arrow, record
from tests.support.pool_slots import Actors

COUNT = 40
IN_HAND = Span("t", 0, 5, 6)
LIVES = 60
IDLE_S = 0.001


class DiedError(BaseException):
    """The process has died."""


class Life:
    """One process of a pool: its member, what it has in hand, and whether it lives."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.alive = True
        self.in_hand = InHand()
        self.lock = threading.Lock()
        handler, settings = FORMS[pool.form]
        self.member = Member(handler(self.one), [], notes=pool.deaths.notes, **{**settings, **pool.settings})
        self.member.loop.report_to(self.hear)
        consumer: Any = self.member.consumer
        consumer.poll = consumer.poll_arrow = self.poll
        consumer.commit, consumer.commit_async = self.commit, self.commit_async
        self.position = pool.committed

    def one(self, value: ConsumerRecord) -> None:
        with self.lock:  # of several threads one dies first, and the others with it
            if not self.alive:
                raise DiedError
            self.pool.begun[value] += 1
            if self.pool.dies(value, self.in_hand.alone):
                self.alive = False
                raise DiedError
            self.pool.handled[value] += 1

    def hear(self, said: InHand | Committed | Committing) -> None:
        if not self.alive:
            return
        if isinstance(said, InHand):
            self.in_hand = said
        elif isinstance(said, Committing):
            self.pool.slot.commits(said.done)
        else:
            self.pool.deaths.passed(said)
            self.member.loop.doubts.learn(self.pool.deaths.notes)

    def poll(self, timeout_ms: int, headers: bool = False) -> Any:
        if not self.alive or self.pool.committed == COUNT:
            self.member.loop.stop()
        found = range(self.position, min(self.position + 16, COUNT))
        self.position = found.stop
        if not found:
            threading.Event().wait(IDLE_S)
        if self.pool.form == "pyarrow":
            return arrow([(0, offset, b"%d" % offset) for offset in found])
        return {T0: [record(offset)._replace(value=b"%d" % offset) for offset in found]} if found else {}

    def commit(self, offsets: Any, timeout_ms: int | None = None) -> None:
        if self.alive and T0 in offsets:
            self.pool.committed = offsets[T0].offset

    def commit_async(self, offsets: Any, callback: Any) -> None:
        self.commit(offsets)
        callback(offsets, None)


def each(one: Callable[[int], None]) -> Callable[[ConsumerRecord], None]:
    return lambda found: one(int(found.value or b""))


def each_async(one: Callable[[int], None]) -> Any:
    async def handle(found: ConsumerRecord) -> None:
        one(int(found.value or b""))

    return handle


def batches(one: Callable[[int], None]) -> Callable[[list[ConsumerRecord]], None]:
    return lambda found: [one(int(every.value or b"")) for every in found] and None


def columns(one: Callable[[int], None]) -> Callable[[Any], None]:
    return lambda found: [one(int(value)) for value in found.column("value").to_pylist()] and None


FORMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "record": (each, {}),
    "async": (each_async, {}),
    "threads": (each, {"concurrency": 4}),
    "tasks": (each_async, {"concurrency": 4}),
    "records": (batches, {"batch_format": "records"}),
    "records that wait": (batches, {"batch_format": "records", "batch_max_ms": 1}),
    "pyarrow": (columns, {"batch_format": "pyarrow"}),
}

IN_THREADS = ("threads", "tasks", "records that wait")


class Pool:
    """A pool of one whose processes die."""

    def __init__(self, form: str, deadly: Iterable[int], **settings: Any) -> None:
        self.form = form
        self.deadly = set(deadly)
        self.settings = {"dead_letter_topic": "dead", **settings}
        self.deaths = Deaths()
        self.committed = 0
        self.begun: Counter[int] = Counter()
        self.handled: Counter[int] = Counter()
        self.letters: list[int] = []
        self.chance_of_death: Callable[[bool], bool] = lambda _: False
        self.lives = 0
        self.slot = Slot(0, "g-0", Together(1), Version(MemberSpec(("t",), "g", "host:1"), Actors()))

    def dies(self, value: int, alone: bool) -> bool:
        return value in self.deadly or self.chance_of_death(alone)

    def live(self) -> Any:
        """One process, until it dies, stops or fails. Returns its last report."""
        life = Life(self)
        self.lives += 1
        report = life.member.run()
        self.letters += [int(sent["value"]) for sent in life.member.producer.sent]
        if not life.alive:
            self.deaths.count(life.in_hand, f"life {self.lives} was short")
        self.slot.report = report if life.alive else replace(report, state="Running")
        self.slot.ended()
        return report

    def live_on(self) -> None:
        """As many processes as it takes."""
        while self.committed < COUNT:
            assert self.lives < LIVES, (self.committed, self.deaths.notes, self.begun)
            self.live()


@pytest.mark.parametrize("form", FORMS)
def test_a_record_that_ends_its_process_was_begun_again_for_ever(form: str) -> None:
    pool = Pool(form, {20})
    pool.live_on()
    assert pool.begun[20] == 3, "twice with others, and once alone"
    assert pool.letters == [20]
    assert set(pool.handled) == set(range(COUNT)) - {20}
    assert max(pool.handled.values()) <= 3
    assert pool.deaths.notes.notes == (), "nothing is doubted any more"


@pytest.mark.parametrize("form", FORMS)
def test_records_that_came_again_after_a_death_were_counted_twice(form: str) -> None:
    """Of a hundred records a pool said that it had handled a hundred and twenty, before it had seen the last forty."""
    for seed in range(6):
        chance = random.Random(seed)
        pool = Pool(form, chance.sample(range(COUNT), 2))
        pool.chance_of_death = lambda alone, chance=chance: not alone and chance.random() < 0.02  # type: ignore[misc]
        while pool.committed < COUNT:
            pool.live()
            done = pool.slot.done
            assert done.records >= pool.committed, "none is ever missing"
            if pool.form not in IN_THREADS:  # of several threads one may die between the word and the commit
                assert done.records == pool.committed, seed
        assert pool.slot.handlings.handled >= pool.slot.done.handled
    assert pool.lives > 3


@pytest.mark.parametrize("form", FORMS)
def test_without_a_dead_letter_topic_the_member_fails_and_says_where_and_how(form: str) -> None:
    pool = Pool(form, {20}, dead_letter_topic=None)
    for _ in range(3):
        pool.live()
    report = pool.live()
    assert report.state == "Failed"
    assert "t-0 offset 20" in report.error
    assert "life 3 was short" in report.error
    assert (pool.begun[20], pool.committed, pool.lives) == (3, 20, 4)


@pytest.mark.parametrize("form", FORMS)
def test_two_deaths_that_no_record_is_guilty_of_set_none_aside(form: str) -> None:
    pool = Pool(form, ())
    left = iter([True, True])
    pool.chance_of_death = lambda _: pool.begun.total() % 7 == 6 and next(left, False)
    pool.live_on()
    assert pool.lives == 3
    assert pool.letters == []
    assert set(pool.handled) == set(range(COUNT))


@pytest.mark.parametrize("form", FORMS)
def test_any_deadly_records_are_found_among_any_deaths_and_nothing_else_is_set_aside(form: str) -> None:
    for seed in range(6):
        chance = random.Random(seed)
        pool = Pool(form, chance.sample(range(COUNT), 4))
        pool.chance_of_death = lambda alone, chance=chance: not alone and chance.random() < 0.02  # type: ignore[misc]
        pool.live_on()
        assert sorted(set(pool.letters)) == sorted(pool.deadly), seed
        assert set(pool.handled) == set(range(COUNT)) - pool.deadly, seed
        assert max(pool.begun[deadly] for deadly in pool.deadly) <= 3, seed


def test_a_handler_that_raises_for_a_doubted_record_is_tried_as_for_any() -> None:
    """It has survived, which is not to be taken for having been handled."""
    pool = Pool("record", (), max_retries=1, retry_backoff_ms=1)
    pool.deaths.count(InHand((IN_HAND,)), "once")
    pool.deaths.count(InHand((IN_HAND,)), "twice")

    def raises(value: int, alone: bool) -> bool:
        if value == IN_HAND.first:
            raise ValueError("not this one")
        return False

    pool.dies = raises  # type: ignore[method-assign]
    pool.live_on()
    assert (pool.letters, pool.lives) == ([IN_HAND.first], 1)
    assert pool.begun[IN_HAND.first] == 2


@pytest.mark.parametrize("form", FORMS)
def test_what_a_member_has_in_hand_names_its_topic_by_id(form: str) -> None:
    """By name alone, the records could be those of a later topic of the same name."""
    life = Life(Pool(form, ()))
    life.member.consumer.topic_ids = {"t": b"t" * 16}
    said: list[Any] = []
    life.member.loop.report_to(said.append)
    life.member.run()
    spans = [span for each in said if isinstance(each, InHand) for span in each.spans]
    assert spans
    assert {span.topic_id for span in spans} == {b"t" * 16}
