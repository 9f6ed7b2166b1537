"""The demo as who types `make demo` sees it: on a terminal, with Python's warnings, to its end."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from spark_bridge import SparkMissingError
from spark_bridge.session import check_installed
from tests.ray.terminal import on_a_terminal

RESULTS = [
    "ok   336,776 of 336,776 flights handled",
    "ok   totals per carrier equal pandas's",
    "ok   after the restart 50,517 records were handled, 50,517 were new",
    "ok   the confluent-kafka group read 286,259 records",
]
OF_SPARK = "ok   Spark's totals per origin and hour equal pandas's, 60 of them"
OF_OTHERS = re.compile(r"raylet|\bworker\b|\w*warning|traceback|error|^slot \d.*", re.IGNORECASE | re.MULTILINE)


@pytest.mark.timeout(600)
def test_the_demo_equals_pandas_and_shows_nothing_but_its_own_words() -> None:
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:  # a short path: it has Unix sockets
        with on_a_terminal("-m", "examples.flights", TMPDIR=folder) as demo:
            code, shown = demo.ended(), demo.shown
        lines = shown.splitlines()
        wanted = RESULTS if (missing := what_spark_misses()) else [*RESULTS, OF_SPARK]
        assert (code, [line for line in lines if line.startswith(("ok  ", "FAIL"))]) == (0, wanted), shown[-6000:]
        assert [line for line in lines if line.startswith("left out: ")] == [f"left out: {each}" for each in missing]
        assert "DIFFERS" not in shown
        (told,) = [line for line in lines if line.startswith("what Ray, Spark and Python's warnings say goes to ")]
        log = Path(told.split()[-1])
        assert "A worker died or was killed" in log.read_text(), "Ray has told of the member that was killed"
        assert [path.name for path in log.parent.iterdir()] == ["log"], "the data is removed"
        assert OF_OTHERS.findall(shown.replace(told, "")) == []


def what_spark_misses() -> list[str]:
    try:
        check_installed()
    except SparkMissingError as missing:
        return [str(missing)]
    return []
