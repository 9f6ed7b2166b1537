"""A cluster beside a program that takes all CPU: nobody is killed, no member expelled, and it is quick again at once.

`python -m tests.chaos --starve --minutes 5`. The clients are starved, too; they run beside it.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from rich.console import Console

from actors.client import Admin, Consumer, ConsumerRebalanceListener, TopicPartition
from actors.client.admin.types import NewTopic
from actors.client.errors import KafkaError
from tests.chaos.history import History
from tests.chaos.load import PATIENCE_MS, Load
from tests.compat.peers import Coterie, coterie, end_family

TOPIC = "starved"
QUICK_S = 0.5
"""A commit that takes no longer is quick."""
_LOOP = ["sh", "-c", "while :; do :; done"]
_KILLED = re.compile(r"silent.* killed|is gone|has died|has not registered")
_ACTORS = ("Controller", "Broker", "OffsetsPartition")


@dataclass(frozen=True, slots=True)
class Hunger:
    """`seconds` beside `loops` busy loops, with `groups` groups of one member each, on `brokers` brokers."""

    seconds: float
    groups: int = 20
    loops: int = 64
    brokers: int = 3
    config: dict[str, str] = field(default_factory=dict)
    warm_s: float = 240.0


@dataclass(slots=True)
class Survival:
    """How a cluster came through."""

    killed: list[str] = field(default_factory=list)
    """What the cluster's logs say of killing, and processes that were there and are not any more."""
    expelled: list[str] = field(default_factory=list)
    commits: int = 0
    longest_gap_s: float = 0.0
    quick_after_s: float = 0.0


class _Losses(ConsumerRebalanceListener):
    def __init__(self, load: SteadyMember) -> None:
        self._load = load

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self._load.history.note("lost", client=self._load.name)


class SteadyMember(Load):
    """The one member of a group: polls, and commits all the time."""

    def run(self) -> None:
        consumer = Consumer(
            bootstrap_servers=self.servers,
            group_id=self.name,
            client_id=self.name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_interval_ms=PATIENCE_MS,
        )
        with consumer:
            consumer.subscribe([TOPIC], listener=_Losses(self))
            while not self.stopping.wait(0.05):
                with contextlib.suppress(KafkaError):
                    consumer.poll(100)
                    if not consumer.assignment():
                        continue
                    begun = self.history.now()
                    consumer.commit(timeout_ms=PATIENCE_MS)
                    self.history.note("committed", group=self.name, took=self.history.now() - begun)


def starve(plan: Hunger, folder: Path, say: Callable[[str], object] = lambda text: None) -> Survival:
    """Starve a cluster in `folder`. Raises TimeoutError if it does not come up, or does not come to itself."""
    history = History(folder / "history.jsonl")
    found = Survival()
    with (
        contextlib.closing(history),
        coterie(folder, brokers=plan.brokers, config=plan.config) as cluster,
    ):
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, min(plan.brokers, 3))])
        names = [f"steady-{number}" for number in range(plan.groups)]
        members = [SteadyMember(name, history, cluster.bootstrap_servers) for name in names]
        for member in members:
            member.start()
        _wait_until_quick(history, plan, plan.warm_s)
        before, logged = _actors(cluster), _log_lines(cluster)
        say(f"{plan.groups} groups on {len(before)} processes; {plan.loops} busy loops for {plan.seconds:.0f} s")
        history.note("starved")
        with _busy_loops(plan.loops):
            _tell(history, plan, say)
        history.note("fed")
        fed = history.now()
        _wait_until_quick(history, plan, plan.warm_s)
        found.quick_after_s = history.now() - fed
        after = _actors(cluster)
        found.killed = [f"{before[pid]} {pid} is not there any more" for pid in before.keys() - after.keys()]
        found.killed += _log_lines(cluster)[len(logged) :]
        for member in members:
            member.stop()
        for member in members:
            member.join(60)
    _judge(history, found)
    return found


def _tell(history: History, plan: Hunger, say: Callable[[str], object]) -> None:
    begun = time.monotonic()
    while (spent := time.monotonic() - begun) < plan.seconds:
        time.sleep(min(20.0, plan.seconds - spent))
        lost = sum(event["event"] == "lost" for event in history.read())
        say(f"{time.monotonic() - begun:7.1f} s  {lost} expelled")


@contextlib.contextmanager
def _busy_loops(count: int) -> Iterator[None]:
    started = [subprocess.Popen(_LOOP, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        end_family([psutil.Process(loop.pid) for loop in started])
        for loop in started:
            loop.wait()


def _actors(cluster: Coterie) -> dict[int, str]:
    """The processes of the cluster's actors that serve, and which each is; spares come and go."""
    found = {}
    for process in cluster.family():
        with contextlib.suppress(psutil.Error):
            words = " ".join(process.cmdline())
            for name in _ACTORS:
                if f"ray::{name}" in words:
                    found[process.pid] = name
    return found


def _log_lines(cluster: Coterie) -> list[str]:
    """What the cluster's logs say of processes given up."""
    lines = []
    for path in sorted((cluster.data_dir / "logs").glob("*.log")):
        lines += [f"{path.name}: {line}" for line in path.read_text(errors="replace").splitlines()]
    return [line for line in lines if _KILLED.search(line)]


def _wait_until_quick(history: History, plan: Hunger, timeout_s: float) -> None:
    """Until a commit of every group that began after now was quick."""
    since, deadline = history.now(), time.monotonic() + timeout_s
    quick: set[str] = set()
    while len(quick) < plan.groups:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(quick)} of {plan.groups} groups are quick after {timeout_s:.0f} s")
        time.sleep(0.1)
        for event in history.read():
            if event["event"] == "committed" and event["at"] - event["took"] > since and event["took"] < QUICK_S:
                quick.add(event["group"])


def _judge(history: History, found: Survival) -> None:
    last: dict[str, float] = defaultdict(float)
    starved = False
    for event in history.read():
        if event["event"] in ("starved", "fed"):
            starved = starved or event["event"] == "starved"
        elif event["event"] == "lost" and starved:
            found.expelled.append(f"{event['client']} at {event['at']:.1f} s")
        elif event["event"] == "committed":
            group, at = event["group"], event["at"]
            if starved:
                found.commits += 1
                found.longest_gap_s = max(found.longest_gap_s, at - last[group])
            last[group] = at


def report(console: Console, found: Survival) -> None:
    """What a run ends with."""
    console.print(f"killed: {len(found.killed)}; members expelled: {len(found.expelled)}; commits: {found.commits}")
    console.print(f"longest gap of a group: {found.longest_gap_s:.1f} s; quick again after {found.quick_after_s:.1f} s")
    for line in [*found.killed, *found.expelled][:20]:
        console.print(f"[red]VIOLATION[/] {line}", highlight=False)
