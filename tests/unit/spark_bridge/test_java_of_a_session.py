"""The Javas on which a SparkSession of one's own can be used depend on its Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_bridge.executors import prepare
from spark_bridge.spark_config import SessionError


def session(spark: str, java: str) -> Any:
    """A session with a JVM in which all runs, as `local[2]` has it."""
    properties = {"java.specification.version": java}
    system = SimpleNamespace(getProperty=properties.__getitem__)
    context = SimpleNamespace(
        master="local[2]",
        environment={},
        _jvm=SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system))),
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False)),
        getConf=dict,
    )
    return SimpleNamespace(version=spark, _sc=context)


@pytest.mark.parametrize(
    ("spark", "java"),
    [("3.5.7", "1.8"), ("3.5.7", "17"), ("4.0.5", "17"), ("4.3.0", "21"), ("4.3.0", "25"), ("5.0", "29")],
)
def test_spark_4_was_refused_on_a_java_newer_than_17(spark: str, java: str) -> None:
    assert prepare(session(spark, java)) == 1


@pytest.mark.parametrize("java", ["18", "21", "25"])
def test_spark_3_is_refused_there_in_one_line(java: str) -> None:
    with pytest.raises(SessionError, match=f"Java {java}.*Spark 3.5.7.*JAVA_HOME set to a Java 17$") as raised:
        prepare(session("3.5.7", java))
    assert "\n" not in str(raised.value)
