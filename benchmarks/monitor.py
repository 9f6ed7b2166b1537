"""The Monitor of a cluster with a thousand topics of ten partitions, and a thousand groups that have read some of each.

A scrape, a page of the console and a view are from the question to the last byte. Heartbeats of a hundred members, each
in turn with nobody asking and with a scrape each second, in the same run: the Monitor and those who ask it take CPU of
the same machine.
Memory (PSS) and idle CPU are those of the Monitor's process alone, while nobody asks.
"""

from __future__ import annotations

import contextlib
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil

from actors.cluster import Cluster as Connected
from actors.links.operations import Operation, Result
from actors.links.views import GetGroup, ListGroupRows, ListTopicRows
from actors.wire.messages import OffsetCommitRequest
from benchmarks import groups
from benchmarks.common import note, run_load
from benchmarks.figures import OURS, Figures, Pace, Spec
from benchmarks.groups import Formed
from benchmarks.model import Better, Budget
from benchmarks.partitions import fill
from benchmarks.servers import ONE_REPLICA, Cluster, Plan, processes
from tests.compat.processes import command_of
from tests.compat.prometheus import console_url, metrics_url
from tests.compat.raw import Raw, find_coordinator

TOPICS, PARTITIONS = 1000, 10
IDLE_S = 30.0
KNOWN_LIMIT_S, AGAIN_S = 180.0, 5.0
SERVED = {"coterie.metrics.port": "0", "coterie.console.port": "0"}
HEARTBEAT_INTERVAL_MS = 100
SCRAPE = "scrape"
GROUPS_VIEW = "view of all groups"
TOPICS_VIEW = "view of all topics"
GROUP_VIEW = "view of one group"
GROUPS_PAGE = "page of all groups"
TOPICS_PAGE = "page of all topics"
GROUP_PAGE = "page of one group"
MEMORY = "memory of the Monitor"
CPU = "CPU of the Monitor, nobody asks"
CALM = "heartbeats, nobody scrapes, p99"
SCRAPED = "heartbeats, a scrape each second, p99"
SPECS = [
    Spec(SCRAPE, "s", Better.LESS, Budget(limit=1.0)),
    Spec(GROUPS_VIEW, "s", Better.LESS, Budget(limit=1.0)),
    Spec(TOPICS_VIEW, "s", Better.LESS, Budget(limit=1.0)),
    Spec(GROUP_VIEW, "s", Better.LESS, Budget(limit=1.0)),
    Spec(GROUPS_PAGE, "s", Better.LESS, Budget(limit=1.0)),
    Spec(TOPICS_PAGE, "s", Better.LESS, Budget(limit=1.0)),
    Spec(GROUP_PAGE, "s", Better.LESS, Budget(limit=1.0)),
    Spec(MEMORY, "MiB", Better.LESS, Budget(limit=150.0)),
    Spec(CPU, "% of a core", Better.LESS, Budget(limit=5.0)),
    Spec(CALM, "ms", Better.LESS),
    Spec(SCRAPED, "ms", Better.LESS),
]


def run(figures: Figures, pace: Pace) -> None:
    """One cluster of ours: nobody else has the same."""
    count = pace.fewer(TOPICS, 20)
    with Plan(config=ONE_REPLICA, our_config=SERVED).side(OURS) as cluster:
        names = [f"seen-{number}" for number in range(count)]
        fill(cluster.bootstrap_servers, names, PARTITIONS)
        commit_all(cluster.bootstrap_servers, names)
        url = metrics_url(cluster.data_dir)
        await_lags(url, count * PARTITIONS)
        weigh(figures, cluster, pace)
        for _ in range(pace.turns):
            figures.only_ours(SCRAPE, timed(lambda: scrape(url)))
        pages(figures, console_url(cluster.data_dir), pace)
        views(figures, cluster.data_dir, pace)
        formed = groups.form(cluster.bootstrap_servers, 8)
        run_load(formed.heartbeats(), 1, pace.seconds, interval_ms=HEARTBEAT_INTERVAL_MS)
        for _ in range(pace.turns):
            beat(figures, CALM, formed, pace)
            with scraping(url):
                beat(figures, SCRAPED, formed, pace)


def commit_all(servers: str, names: list[str]) -> None:
    """A group of each topic's name commits that it has read nothing of it."""
    for name in names:
        with Raw(find_coordinator(servers, name)) as raw:
            answer = raw.call(_commit(name), 2)
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        assert codes == {0}, codes


def _commit(name: str) -> OffsetCommitRequest:
    at = OffsetCommitRequest.OffsetCommitRequestPartition
    partitions = [at(partition_index=each, committed_offset=0) for each in range(PARTITIONS)]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=partitions)
    return OffsetCommitRequest(group_id=name, generation_id_or_member_epoch=-1, member_id="", topics=[topic])


def await_lags(url: str, count: int) -> None:
    """Until the Monitor tells how old the oldest unread record of each partition is."""
    deadline = time.monotonic() + KNOWN_LIMIT_S
    while (known := len(lags(url))) < count:
        note(f"the Monitor knows {known} of {count} lags in seconds")
        assert time.monotonic() < deadline, "the Monitor has not seen all groups"
        time.sleep(AGAIN_S)  # a scrape takes CPU from the looks that it waits for


def scrape(url: str) -> str:
    """All metrics, or a page."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def lags(url: str) -> list[str]:
    """The lines of lag in seconds."""
    return [line for line in scrape(url).splitlines() if line.startswith("kafka_consumergroup_lag_seconds{")]


def timed(work: Callable[[], object]) -> float:
    """The seconds that it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def monitor_of(cluster: Cluster) -> psutil.Process:
    """The Monitor's process."""
    (found,) = (each for each in processes(cluster) if "ray::Monitor" in command_of(each))
    return found


def weigh(figures: Figures, cluster: Cluster, pace: Pace) -> None:
    """Its memory, and its CPU while nobody asks."""
    process = monitor_of(cluster)
    before, began = process.cpu_times(), time.monotonic()
    time.sleep(IDLE_S if not pace.quick else 5.0)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    figures.only_ours(CPU, used / (time.monotonic() - began) * 100)
    figures.only_ours(MEMORY, process.memory_full_info().pss / 2**20)


def pages(figures: Figures, console: str, pace: Pace) -> None:
    """The answers that a browser waits for, its scripts and styles aside."""
    asked = {GROUPS_PAGE: "groups", TOPICS_PAGE: "topics", GROUP_PAGE: "group?id=seen-7"}
    for _ in range(pace.turns):
        for what, path in asked.items():
            figures.only_ours(what, timed(partial(scrape, console + path)))


def views(figures: Figures, data_dir: Path, pace: Pace) -> None:
    """The answers that a driver waits for."""
    asked: dict[str, Operation[Result]] = {
        GROUPS_VIEW: ListGroupRows(),
        TOPICS_VIEW: ListTopicRows(),
        GROUP_VIEW: GetGroup("seen-7"),
    }
    with Connected.connect(data_dir=str(data_dir)) as cluster:
        for _ in range(pace.turns):
            for what, operation in asked.items():
                figures.only_ours(what, timed(partial(cluster.view, operation)))


def beat(figures: Figures, what: str, formed: Formed, pace: Pace) -> None:
    """Heartbeats for a while."""
    load = run_load(formed.heartbeats(), 1, pace.fewer(10, 2), interval_ms=HEARTBEAT_INTERVAL_MS)
    figures.only_ours(what, load.p99_us / 1000)


@contextlib.contextmanager
def scraping(url: str) -> Iterator[None]:
    """A scrape each second."""
    over = threading.Event()

    def again() -> None:
        while not over.wait(1.0):
            scrape(url)

    thread = threading.Thread(target=again, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
