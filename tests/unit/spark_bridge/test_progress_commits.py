"""`commit_progress` follows Spark's queries until it stops, with a Spark and a publisher that are made up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from actors.client import TopicPartition
from actors.client.errors import ConfigurationError
from spark_bridge.options import OptionError
from spark_bridge.progress import GroupOffsets, Positions
from spark_bridge.progress_commits import ProgressCommits, commit_progress
from tests.support.pyspark_there import NEEDS_PYSPARK

pytestmark = NEEDS_PYSPARK  # Spark's class of listeners

T0 = TopicPartition("orders", 0)


class Streams:
    """The streams of a session: its queries, its listeners, and an event just when a listener is added."""

    def __init__(self) -> None:
        self.active: list[Any] = []
        self.listener: Any = None
        self.meanwhile: list[Any] = []
        self.gone: Exception | None = None

    def addListener(self, listener: Any) -> None:
        self.listener = listener
        for event in self.meanwhile:
            listener.onQueryProgress(event)

    def removeListener(self, listener: Any) -> None:
        if self.gone is not None:
            raise self.gone
        assert self.listener is listener
        self.listener = None


class Published:
    """Stands for the publisher."""

    def __init__(self) -> None:
        self.found: list[GroupOffsets] = []
        self.closed = False

    def publish(self, found: GroupOffsets) -> None:
        self.found.append(found)

    def problems(self) -> list[str]:
        return []

    def close(self, timeout_s: float) -> bool:
        self.closed = True
        return True


@pytest.fixture
def streams() -> Streams:
    return Streams()


@pytest.fixture
def published() -> Published:
    return Published()


@pytest.fixture
def begin(streams: Streams, published: Published) -> Callable[..., ProgressCommits]:
    def begin(group: str = "g", queries: frozenset[str] | None = None) -> ProgressCommits:
        spark: Any = SimpleNamespace(streams=streams)
        publisher: Any = published
        commits = ProgressCommits(spark, publisher, Positions(group), queries, None)
        commits.start()
        return commits

    return begin


def sources(offset: int) -> list[dict[str, Any]]:
    return [{"description": "KafkaV2[Subscribe[orders]]", "endOffset": {"orders": {"0": offset}}}]


def running(run: str, offset: int | None, name: str | None = "totals") -> Any:
    """A query of Spark's; None: no batch has ended."""
    last = None if offset is None else {"id": f"id of {run}", "runId": run, "name": name, "sources": sources(offset)}
    return SimpleNamespace(runId=run, lastProgress=last)


def started(run: str) -> Any:
    return SimpleNamespace(runId=run, id=f"id of {run}", name="totals")


def progress(run: str, offset: int, name: str | None = "totals") -> Any:
    found = [SimpleNamespace(**{**each, "endOffset": f'{{"orders":{{"0":{offset}}}}}'}) for each in sources(offset)]
    return SimpleNamespace(progress=SimpleNamespace(runId=run, id=f"id of {run}", name=name, sources=found))


def offsets(published: Published) -> list[tuple[str, int, bool]]:
    return [(found.group_id, found.offsets[T0], found.live) for found in published.found]


def test_each_batch_and_the_end_are_published(
    streams: Streams, published: Published, begin: Callable[..., ProgressCommits]
) -> None:
    begin()
    streams.listener.onQueryStarted(started("r"))
    streams.listener.onQueryProgress(progress("r", 5))
    streams.listener.onQueryProgress(progress("r", 9))
    streams.listener.onQueryTerminated(SimpleNamespace(runId="r"))
    assert offsets(published) == [("g", 5, True), ("g", 9, True), ("g", 9, False)]


def test_queries_that_run_are_published_at_once(
    streams: Streams, published: Published, begin: Callable[..., ProgressCommits]
) -> None:
    streams.active = [running("r", 3), running("new", None)]
    begin()
    assert offsets(published) == [("g", 3, True)]


def test_what_was_heard_of_a_query_meanwhile_is_newer_than_what_it_says(
    streams: Streams, published: Published, begin: Callable[..., ProgressCommits]
) -> None:
    streams.active = [running("r", 3)]
    streams.meanwhile = [progress("r", 7)]
    begin()
    assert offsets(published) == [("g", 7, True)]


def test_a_query_without_a_name_is_known_by_its_id_and_others_can_be_left_out(
    streams: Streams, published: Published, begin: Callable[..., ProgressCommits]
) -> None:
    begin("spark-{query}", frozenset({"totals", "id of b"}))
    for event in (progress("a", 1), progress("b", 2, None), progress("c", 3, "other"), progress("d", 4, None)):
        streams.listener.onQueryProgress(event)
    assert offsets(published) == [("spark-totals", 1, True), ("spark-id of b", 2, True)]


def test_the_end_of_a_run_is_not_that_of_the_one_that_took_its_place(
    streams: Streams, published: Published, begin: Callable[..., ProgressCommits]
) -> None:
    begin()
    streams.listener.onQueryProgress(progress("one", 5))
    streams.listener.onQueryProgress(progress("two", 2))
    streams.listener.onQueryTerminated(SimpleNamespace(runId="one"))
    assert offsets(published) == [("g", 5, True), ("g", 2, True)]


def test_what_cannot_be_understood_spoils_nothing(
    streams: Streams, published: Published, begin: Callable[..., ProgressCommits], caplog: pytest.LogCaptureFixture
) -> None:
    begin()
    streams.listener.onQueryStarted(SimpleNamespace())
    streams.listener.onQueryProgress(SimpleNamespace())
    streams.listener.onQueryTerminated(SimpleNamespace())
    assert len(caplog.records) == 3
    streams.listener.onQueryProgress(progress("r", 5))
    assert offsets(published) == [("g", 5, True)]


def test_a_stop_waits_for_what_spark_has_to_say_of_runs_that_have_ended(
    streams: Streams, published: Published, begin: Callable[..., ProgressCommits]
) -> None:
    commits = begin()
    listener = streams.listener
    listener.onQueryStarted(started("ended"))
    streams.active = [running("other", 1, "other")]
    listener.onQueryProgress(progress("other", 1, "other"))
    stopper = threading.Thread(target=commits.stop, args=(60,))
    stopper.start()
    listener.onQueryProgress(progress("ended", 9))
    assert not published.closed
    listener.onQueryTerminated(SimpleNamespace(runId="ended"))
    stopper.join(20)
    assert published.closed
    assert streams.listener is None
    assert commits.stop(), "twice is once"


def test_a_session_that_was_stopped_first_does_not_keep_it_from_stopping(
    streams: Streams, published: Published, begin: Callable[..., ProgressCommits]
) -> None:
    streams.gone = AttributeError("'NoneType' object has no attribute 'sc'")
    assert begin().stop()
    assert published.closed


def test_what_cannot_be_is_said_before_anything_begins() -> None:
    nobody: Any = None
    with pytest.raises(OptionError, match="group_id is missing"):
        commit_progress(nobody, "", "127.0.0.1:1")
    with pytest.raises(OptionError, match=r"kafka\.sasl\.password"):
        commit_progress(nobody, "g", "127.0.0.1:1", options={"kafka.sasl.password": "1234"})
    with pytest.raises(ConfigurationError, match="bootstrap_servers"):
        commit_progress(nobody, "g", "")
