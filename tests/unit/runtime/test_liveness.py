"""Processes that are given up for their silence, with a clock and processes that the test makes."""

from __future__ import annotations

from itertools import pairwise

from actors.runtime.liveness import Doing, Pings, Sight, Silence

TICK = 0.25
RUNNABLE, ASLEEP, DISK = (Sight(doing, 0.0) for doing in (Doing.RUNNABLE, Doing.NOTHING, Doing.WAITING_FOR_DISK))


class Broker:
    """A broker's ticks. Processes in `silent` do not answer; `seen` has the kernel's view of each process."""

    def __init__(self, *pids: int, limit_s: float = 1.0) -> None:
        self.now = 100.0
        self.pids = list(pids)
        self.silent: set[int] = set()
        self.loading: set[int] = set()
        self.every: dict[int, int] = {}
        self.pinged: list[tuple[float, int]] = []
        self.seen: dict[int, Sight] = {}
        self.killed: list[tuple[float, int]] = []
        self.looks = 0
        self.pings: Pings[int] = Pings(limit_s, self._look)
        self.tick(after_s=0.0)

    def _look(self, pid: int) -> Sight | None:
        self.looks += 1
        return self.seen.get(pid)

    def tick(self, after_s: float = TICK) -> None:
        self.now += after_s
        asked, dead = self.pings.tick(
            self.now, [(pid, pid, pid not in self.loading, self.every.get(pid, 1)) for pid in self.pids]
        )
        self.pinged += [(self.now, pid) for pid in asked]
        if dead is not None:
            self.killed.append((self.now, dead))
            self.pids.remove(dead)
        for pid in asked:
            if pid not in self.silent:
                self.pings.heard(pid)

    def pass_time(self, seconds: float, step_s: float = TICK) -> None:
        for _ in range(round(seconds / step_s)):
            self.tick(step_s)

    @property
    def dead(self) -> list[int]:
        return [pid for _, pid in self.killed]


def test_one_that_is_stopped_is_given_up_after_its_silence() -> None:
    broker = Broker(1, 2)
    broker.seen[1] = ASLEEP
    broker.silent.add(1)
    broker.pass_time(1.25)
    assert broker.dead == []
    broker.pass_time(0.5)
    assert broker.dead == [1]


def test_one_on_another_machine_is_judged_by_time_alone() -> None:
    broker = Broker(1)
    broker.silent.add(1)
    broker.pass_time(1.75)
    assert broker.dead == [1]


def test_silence_while_the_broker_stood_still_is_nobodys() -> None:
    """A broker was stopped for 1.8 s, its shards for the 0.6 s after it: all six were killed."""
    broker = Broker(*range(6))
    broker.silent.update(range(6))
    broker.seen.update(dict.fromkeys(range(6), ASLEEP))
    broker.tick(1.8)
    broker.tick(0.25)
    broker.tick(0.25)
    assert broker.dead == []


def test_what_is_there_unread_after_a_stall_is_read_before_anybody_is_judged() -> None:
    broker = Broker(1)
    broker.silent.add(1)
    broker.seen[1] = ASLEEP
    broker.pass_time(1.25)
    broker.tick(30.0)
    assert broker.dead == [], "it may have answered meanwhile"
    broker.tick(30.0)
    assert broker.dead == [1], "a broker that is always late finds the dead, too"


def test_one_that_is_runnable_and_gets_no_cpu_is_never_given_up() -> None:
    broker = Broker(1)
    broker.silent.add(1)
    for used in range(600):
        broker.seen[1] = Sight(Doing.RUNNABLE, 7.0 + used / 10_000)
        broker.tick()
    assert broker.dead == []
    assert broker.looks <= 610
    broker.silent.clear()
    broker.pings.heard(1)
    broker.pass_time(5.0)
    assert broker.dead == []


def test_one_that_was_starved_has_one_more_chance_before_it_is_given_up() -> None:
    broker = Broker(1)
    broker.silent.add(1)
    broker.seen[1] = RUNNABLE
    broker.pass_time(10.0)
    broker.seen[1] = ASLEEP  # it has just had its turn, and its answer is on its way
    broker.tick()
    assert broker.dead == []
    broker.pass_time(0.75)
    assert broker.dead == [1]


def test_one_that_is_busy_without_a_word_is_dead() -> None:
    broker = Broker(1)
    broker.silent.add(1)
    for tick in range(8):
        broker.seen[1] = Sight(Doing.RUNNABLE, tick * TICK)
        broker.tick()
    assert broker.dead == [1]


def test_one_that_waits_for_a_disk_or_loads_has_ten_times_as_long() -> None:
    broker = Broker(1, 2)
    broker.silent.update((1, 2))
    broker.loading.add(2)
    broker.seen.update({1: DISK, 2: ASLEEP})
    broker.pass_time(10.0)
    assert broker.dead == []
    broker.pass_time(3.0)
    assert sorted(broker.dead) == [1, 2]


def test_one_is_killed_at_a_time_and_more_slowly_when_that_does_not_help() -> None:
    broker = Broker(*range(6))
    broker.silent.update(range(6))
    broker.seen.update(dict.fromkeys(range(6), ASLEEP))
    broker.pass_time(60.0)
    times = [at for at, _ in broker.killed]
    pauses = [round(later - earlier, 2) for earlier, later in pairwise(times)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0]


def test_a_long_time_after_a_kill_the_next_is_as_quick_as_the_first() -> None:
    broker = Broker(1, 2, 3)
    broker.silent.update((1, 2))
    broker.pass_time(5.0)
    assert broker.dead == [1, 2]
    broker.pass_time(60.0)
    broker.silent.add(3)
    broker.pass_time(1.75)
    assert broker.dead == [1, 2, 3]


def test_an_answer_ends_a_silence() -> None:
    silence = Silence()
    assert not silence.is_death(0.2, 1.0, lambda: ASLEEP)
    assert silence.is_death(1.2, 1.0, lambda: ASLEEP)


def test_one_that_nobody_waits_for_is_pinged_rarely_and_found_all_the_same() -> None:
    broker = Broker(1, 2)
    broker.every[2] = 8
    broker.pinged.clear()
    broker.pass_time(4.0)
    assert [pid for _, pid in broker.pinged].count(1) == 16
    assert [pid for _, pid in broker.pinged].count(2) == 2
    broker.silent.add(2)
    broker.pass_time(2.0 + 1.5)
    assert broker.dead == [2]


def test_one_that_somebody_waits_for_again_is_pinged_at_the_next_tick() -> None:
    broker = Broker(1)
    broker.every[1] = 8
    broker.tick()
    broker.pinged.clear()
    broker.every[1] = 1
    broker.tick()
    assert broker.pinged == [(broker.now, 1)]
