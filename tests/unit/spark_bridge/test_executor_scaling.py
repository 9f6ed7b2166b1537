"""The number of executors that a query wants, and its requests for them, in virtual time with a made-up session."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from actors.members.autoscale import Autoscale
from spark_bridge.executor_changes import ExecutorFigures
from spark_bridge.executor_scaling import ExecutorScaling, task_lags

POLICY = Autoscale(max_size=4, target_lag=100, stabilization_s=60, interval_s=5)
PARTITIONS = 8


class Session:
    """Executors that come and go at once, as long as there is room for them."""

    def __init__(self, count: int, slots: int = 1) -> None:
        self.ids = tuple(map(str, range(count)))
        self.slots, self.room = slots, 10
        self.task_s: float | None = 0.0
        self.fixed: str | None = None
        self.slow = False
        self.asked: list[int] = []

    def look(self) -> ExecutorFigures:
        return ExecutorFigures(self.ids, self.slots, self.task_s)

    def resize(self, ids: Sequence[str], wanted: int) -> int:
        assert tuple(ids) == self.ids
        self.asked.append(wanted)
        total = min(wanted, len(ids) + self.room)
        if not self.slow:
            self.ids = tuple(map(str, range(total)))
        return total


class Query:
    """Looks every five seconds at the same lag in each partition; its tasks take `work` of each second."""

    def __init__(self, session: Session, policy: Autoscale = POLICY, **more: Any) -> None:
        self.session, self.now_s, self.records = session, 0.0, 0
        self.unknown = False
        self.scaling = ExecutorScaling(policy, session, monotonic=lambda: self.now_s, **more)

    def look(self, lag: int, times: int = 1, work: float = 0.0, records: int = 0) -> int:
        for _ in range(times):
            self.now_s += 5
            self.session.task_s = None if self.unknown else (self.session.task_s or 0.0) + 5 * work
            self.records += records
            self.scaling.look({("t", n): lag for n in range(PARTITIONS)}, self.records)
        return self.scaling.wanted


def test_executors_come_with_the_lag_at_once_and_go_when_it_was_low_for_the_window() -> None:
    session = Session(1)
    query = Query(session)
    assert query.look(30) == 3
    assert len(session.ids) == 3
    assert query.look(1000) == 4
    assert query.look(0, 12) == 4
    assert query.look(0) == 1
    assert session.asked == [3, 4, 1]
    assert query.scaling.progress() == {"wanted": 1, "present": 4, "reason": query.scaling.reason}
    assert query.scaling.reason.startswith("1 would do for 60 s; a lag of 0 records in 0 of 8 partitions")


def test_slots_are_what_the_lag_is_divided_by_and_executors_are_whole() -> None:
    """An executor has two slots: each has half of the hundred records that may wait for an executor."""
    session = Session(1, slots=2)
    assert Query(session).look(30) == 3
    assert session.asked == [3]


def test_executors_that_are_busy_are_not_taken_away() -> None:
    session = Session(4)
    query = Query(session)
    assert query.look(0, 40, work=2.5, records=100) == 4
    assert query.look(0, 13, work=0.5, records=10) == 1
    assert "task slots are busy" in query.scaling.reason


def test_lag_in_seconds_of_work_becomes_executors_by_the_speed_of_the_tasks() -> None:
    """A task handles ten records a second, so that 8 x 100 records are 80 s of work: two times the forty allowed."""
    policy = Autoscale(max_size=4, target_lag_seconds=40, interval_s=5)
    query = Query(Session(1), policy)
    query.look(0, work=1.0, records=50)
    assert query.look(100, work=1.0, records=50) == 2


def test_looks_are_no_more_than_one_in_an_interval_and_a_long_batch_is_no_gap() -> None:
    session = Session(4)
    query = Query(session)
    query.look(0)
    query.now_s += 1
    query.scaling.look({("t", 0): 10_000}, 0)
    assert query.scaling.wanted == 4
    query.now_s += 600
    assert query.look(0) == 1, "what the batch needed is known"


def test_while_executors_are_on_their_way_no_others_are_asked_for() -> None:
    session = Session(1)
    session.slow = True
    query = Query(session)
    assert query.look(30) == 3
    query.look(1000, 23)
    assert session.asked == [3], "RayDP would make others each time"
    query.look(1000)
    assert session.asked == [3, 4], "after two minutes those that are there are counted anew"


def test_where_there_is_no_room_as_many_come_as_fit_and_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spark_bridge")
    session = Session(1)
    session.room = 1
    query = Query(session)
    assert query.look(30) == 3
    assert len(session.ids) == 2
    session.room = 0
    query.look(30, 40)
    assert (len(session.ids), query.scaling.wanted) == (2, 3)
    said = [record.getMessage() for record in caplog.records]
    assert [line.partition(":")[0] for line in said] == [
        "from 1 to 2 executors",
        "3 executors are wanted, and cannot be had now",
    ]


def test_where_spark_cannot_be_asked_the_number_is_still_told(caplog: pytest.LogCaptureFixture) -> None:
    session = Session(1)
    session.fixed = "Spark runs in one JVM"
    query = Query(session)
    assert query.look(1000) == 4
    assert session.asked == []
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["Spark runs in one JVM"]
    assert query.look(0) == 1, "the present one is what lag and work ask for"


def test_a_function_of_yours_is_called_instead_of_spark() -> None:
    session = Session(1)
    session.fixed = "Spark runs in one JVM"
    calls: list[tuple[int, str]] = []
    query = Query(session, resize=lambda count, reason: calls.append((count, reason)))
    query.look(30, 3)
    assert calls == [(3, "a lag of 240 records in 8 of 8 partitions; 0.0 of 1 task slots are busy")]
    assert session.asked == []


def test_where_the_work_is_unknown_none_is_taken_away() -> None:
    session = Session(2)
    query = Query(session)
    query.unknown = True
    assert query.look(0, 40) == 2
    assert query.look(1000) == 4


@pytest.mark.parametrize("broken", ["look", "resize"])
def test_a_query_does_not_end_by_the_number_of_its_executors(
    broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session(1)
    query = Query(session)

    def fail(*_: Any) -> Any:
        raise ConnectionError("the JVM has died")

    with monkeypatch.context() as patch:
        patch.setattr(session, broken, fail)
        query.look(1000)
    assert "the executors of a query could not be looked after" in caplog.text
    query.look(1000)
    assert session.asked == [4]


@pytest.mark.parametrize(
    ("lags", "least", "tasks"),
    [
        ([300, 0, 100], None, [300, 100, 0]),
        ([300, 0, 100], 8, [50, 50, 50, 50, 50, 50, 50, 50]),
        ([0, 0, 0], 8, [0] * 8),
        ([0, 0, 0], None, [0] * 3),
        ([], None, []),
    ],
)
def test_the_work_of_a_partition_is_that_of_one_task_or_of_several_with_min_partitions(
    lags: list[int], least: int | None, tasks: list[int]
) -> None:
    assert sorted(task_lags({("t", n): lag for n, lag in enumerate(lags)}, least)) == sorted(tasks)
