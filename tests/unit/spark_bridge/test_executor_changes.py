"""A session's executors are read, and changes of them requested from Spark, with a JVM that is made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_bridge.executor_changes import ExecutorFigures, SessionExecutors


class Executor:
    """A row of Spark's list of executors."""

    def __init__(self, name: str, cores: int, milliseconds: int, active: bool = True) -> None:
        self.id, self.totalCores, self.totalDuration, self.isActive = (
            (lambda value=value: value) for value in (name, cores, milliseconds, active)
        )


class Java:
    """Spark's own context and its list of executors, and the requests to it."""

    def __init__(self, *executors: Executor) -> None:
        self.executors = executors
        self.asked: list[Any] = []
        self.grants = True
        self.PythonUtils = SimpleNamespace(toSeq=tuple, toScalaMap=dict)  # Spark's name

    def statusStore(self) -> Any:
        found = SimpleNamespace(size=lambda: len(self.executors), apply=lambda index: self.executors[index])
        return SimpleNamespace(executorList=lambda active_only: None if active_only else found)

    def isStopped(self) -> bool:
        return False

    def killExecutors(self, ids: tuple[str, ...]) -> bool:
        self.asked.append(("kill", ids))
        return self.grants

    def requestTotalExecutors(self, total: int, locality: int, hosts: dict[str, int]) -> bool:
        self.asked.append(("total", total))
        return self.grants


def session(java: Java, master: str = "spark://host:7077", **conf: str) -> SessionExecutors:
    settings = [(name.replace("_", "."), value) for name, value in conf.items()]
    context = SimpleNamespace(
        master=master,
        getConf=lambda: SimpleNamespace(getAll=lambda: settings),
        _jsc=SimpleNamespace(sc=lambda: java),
        _jvm=java,
        environment={},
    )
    spark: Any = SimpleNamespace(_sc=context)
    return SessionExecutors(spark)


def test_the_work_of_executors_that_are_gone_counts_and_they_do_not() -> None:
    java = Java(
        Executor("driver", 0, 5000), Executor("10", 4, 1500), Executor("9", 4, 500), Executor("2", 4, 8000, False)
    )
    assert session(java).look() == ExecutorFigures(("9", "10"), 4, 10.0)
    assert session(java, spark_task_cpus="2").look().slots == 2


def test_a_session_of_raydp_s_own_gets_no_more_than_it_began_with() -> None:
    """Its master would say yes, and start none."""
    java = Java()
    executors = session(java, "ray://10.0.0.1:1234", spark_executor_instances="2", spark_executor_memory="512m")
    assert executors.resize(("2", "9"), 3) == 2
    assert java.asked == []


def test_without_any_executor_the_slots_are_those_that_one_will_have() -> None:
    found = session(Java(Executor("driver", 0, 0)), spark_executor_cores="3").look()
    assert found == ExecutorFigures((), 3, 0.0)


def test_spark_in_one_jvm_runs_tasks_in_the_driver() -> None:
    assert session(Java(Executor("driver", 2, 700)), "local[2]").look() == ExecutorFigures(("driver",), 2, None)


def test_the_youngest_go_and_spark_is_told_how_many_are_left() -> None:
    java = Java()
    assert session(java).resize(("2", "9", "10"), 1) == 1
    assert java.asked == [("kill", ("9", "10")), ("total", 1)]


def test_others_come_on_top_of_those_that_are_there() -> None:
    java = Java()
    assert session(java).resize(("2", "9"), 5) == 5
    assert java.asked == [("total", 5)]


@pytest.mark.parametrize("wanted", [1, 2, 5])
def test_what_spark_refuses_leaves_their_number(wanted: int) -> None:
    java = Java()
    java.grants = False
    assert session(java).resize(("2", "9"), wanted) == 2
    assert len(java.asked) == (wanted != 2)


@pytest.mark.parametrize(
    ("master", "conf", "why"),
    [
        ("spark://host:7077", {}, None),
        ("local-cluster[2,1,512]", {}, None),
        ("ray://10.0.0.1:1234", {}, None),
        ("local[2]", {}, "Spark runs in one JVM"),
        ("yarn", {"spark_dynamicAllocation_enabled": "true"}, "has Spark decide by itself"),
        ("yarn", {"spark_dynamicAllocation_enabled": "false"}, None),
    ],
)
def test_where_executors_cannot_be_asked_for(master: str, conf: dict[str, str], why: str | None) -> None:
    fixed = session(Java(), master, **conf).fixed
    assert (fixed is None) == (why is None)
    assert (why or "") in (fixed or "")
