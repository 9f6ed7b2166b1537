"""`commit_progress`: Spark's own streaming queries, shown as consumer groups to every tool that knows Kafka.

    with coterie.spark.commit_progress(spark, "billing", "127.0.0.1:9092"):
        query = spark.readStream.format("kafka")...start()
        query.awaitTermination()

A listener on the driver hears of each batch that Spark has finished. `progress` makes offsets of it, and `publishing`
has them committed for a group without members. Nothing is read from there: a query goes on where its checkpoint says.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from actors.client import Admin, TopicPartition
from actors.runtime.environment import REAL
from spark_bridge.executors import check_session
from spark_bridge.options import OptionError, source_options
from spark_bridge.progress import Positions, offsets_of
from spark_bridge.publishing import Publisher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_STOP_SECONDS: Final = 15.0


def commit_progress(
    spark: SparkSession,
    group_id: str,
    bootstrap_servers: str,
    *,
    queries: str | Collection[str] | None = None,
    topics: str | Collection[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> ProgressCommits:
    """Have the end offsets of each batch of the session's streaming queries committed for a group, from now on.

    It is for `spark.readStream.format("kafka")`, with state and watermarks as you like. In `group_id`, `{query}` stands
    for the name of the query, or its id if it has none. `queries` are the names or ids of those that count, `topics`
    the topics; by default all. Queries that run already count, too. `options` are `kafka.*` settings, those of
    security among them. Spark never waits for the commits and never fails by them. Call `stop()`, or use it as a
    context manager, so that the last batch is committed before the program ends.

    Raises SessionError if the session has ended, OptionError, and ConfigurationError for settings that cannot be.
    """
    check_session(spark)
    if not group_id:
        raise OptionError("group_id is missing: give the name of the group that is to have the commits")
    settings = source_options(options, streaming=False).admin_settings
    Admin(bootstrap_servers=bootstrap_servers, **settings).close()  # errors are raised here, and not in a thread
    publisher = Publisher(lambda: Admin(bootstrap_servers=bootstrap_servers, **settings))
    commits = ProgressCommits(spark, publisher, Positions(group_id), _names(queries), _names(topics))
    commits.start()
    return commits


def _names(given: str | Collection[str] | None) -> frozenset[str] | None:
    return None if given is None else frozenset([given] if isinstance(given, str) else given)


class ProgressCommits:
    """The work that `commit_progress` has begun. It ends with `stop()`; the groups and their commits stay."""

    def __init__(
        self,
        spark: SparkSession,
        publisher: Publisher,
        positions: Positions,
        queries: frozenset[str] | None,
        topics: frozenset[str] | None,
        monotonic: Callable[[], float] = REAL.clock.monotonic,
    ) -> None:
        self._spark, self._publisher, self._positions = spark, publisher, positions
        self._queries, self._topics = queries, topics
        self._monotonic = monotonic
        self._heard = threading.Condition()
        self._runs: dict[str, str] = {}  # the query of each run that was heard of and has not ended
        self._listener = _for_spark(_Listener)(self._begun, self._read, self._ended)
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def committed(self) -> dict[str, dict[TopicPartition, int]]:
        """The offsets that were committed last, by group."""
        return self._publisher.committed()

    @property
    def problems(self) -> list[str]:
        """The problems that keep groups from being committed now, a line for each. The same lines are logged once."""
        return self._publisher.problems()

    def start(self) -> None:
        """Listen, and commit what running queries have read already. `commit_progress` has called it."""
        self._spark.streams.addListener(self._listener)
        for query in self._spark.streams.active:
            if last := query.lastProgress:
                sources = [(each["description"], each["endOffset"]) for each in last["sources"]]
                self._read(last["runId"], last["name"], last["id"], sources, first=True)

    def stop(self, timeout_s: float = _STOP_SECONDS) -> bool:
        """Commit what was read last, and listen no more. Returns False if the brokers were not there for it in time.

        Queries that run go on.
        """
        if self._stopped:
            return True
        self._stopped = True
        deadline = self._monotonic() + timeout_s
        try:
            self._hear_the_end(deadline)
            self._spark.streams.removeListener(self._listener)
        except Exception as error:  # a session that was stopped first: py4j's errors have no common class
            log.info("the session of these commits has ended: %s", str(error).partition("\n")[0])
        ended = self._publisher.close(max(0.0, deadline - self._monotonic()))
        for problem in self.problems:
            log.warning("%s", problem)
        return ended and not self.problems

    def _hear_the_end(self, deadline: float) -> None:
        """Spark tells of what has happened a little later: wait for what it has to say of runs that have ended."""
        running = {str(query.runId) for query in self._spark.streams.active}
        with self._heard:
            self._heard.wait_for(lambda: self._runs.keys() <= running, max(0.0, deadline - self._monotonic()))

    def _counts(self, name: str | None, query_id: str) -> bool:
        return self._queries is None or bool(self._queries & {name, query_id})

    def _begun(self, run_id: str, name: str | None, query_id: str) -> None:
        """A run begins. It is waited for, though its batches and its end may be heard of much later."""
        if self._counts(name, query_id):
            with self._heard:
                self._runs[run_id] = name or query_id

    def _read(
        self, run_id: str, name: str | None, query_id: str, sources: Iterable[tuple[str, Any]], *, first: bool = False
    ) -> None:
        """A run has read so far. With `first`, whatever was heard of the run already is newer."""
        if self._counts(name, query_id) and (offsets := offsets_of(sources, self._topics)):
            query = name or query_id
            with self._heard:
                if first and run_id in self._runs:
                    return
                self._runs[run_id] = query
                self._publisher.publish(self._positions.read(query, offsets))

    def _ended(self, run_id: str) -> None:
        with self._heard:
            query = self._runs.pop(run_id, None)
            self._heard.notify_all()
            if query is None or query in self._runs.values():  # another run of it has begun
                return
            if (left := self._positions.ended(query)) is not None:
                self._publisher.publish(left)


def _for_spark(listener: type[_Listener]) -> type[_Listener]:
    """The same as Spark takes it: derived from a class that PySpark has, which is asked for only here."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    return type("Listener", (listener, StreamingQueryListener), {})


@contextlib.contextmanager
def _logged(failed: str) -> Iterator[None]:
    try:
        yield
    except Exception:  # of a bug, or py4j's, which have no common class: Spark's thread would drop it
        log.exception("%s", failed)


class _Listener:
    """Hears of each batch, in a thread of Spark's. Errors are logged here, because nobody else does it."""

    def __init__(
        self,
        begun: Callable[[str, str | None, str], None],
        read: Callable[[str, str | None, str, list[tuple[str, Any]]], None],
        ended: Callable[[str], None],
    ) -> None:
        self._begun, self._read, self._ended = begun, read, ended

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """A run begins, and waits for this."""
        with _logged("the start of a query could not be noted"):
            self._begun(str(event.runId), event.name, str(event.id))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A batch is done, and Spark's checkpoint has it."""
        with _logged("the progress of a query could not be read"):
            found = event.progress
            sources = [(source.description, source.endOffset) for source in found.sources]
            self._read(str(found.runId), found.name, str(found.id), sources)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """A query has ended, by itself or by an error; its last batch was told of before."""
        with _logged("the end of a query could not be noted"):
            self._ended(str(event.runId))
