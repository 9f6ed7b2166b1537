"""A cluster beside a program that takes all CPU: no process is killed, no member expelled, and soon it is quick again.

`python -m tests.chaos --starve --minutes 5`. The members are starved, too, but hardly need CPU: they are in `light`.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from rich.console import Console

from actors.client import Admin
from actors.client.admin.types import NewTopic
from tests.chaos.light import Members, Told
from tests.compat.peers import Coterie, coterie
from tests.compat.processes import end_family

TOPIC = "starved"
QUICK_S = 0.5
"""A heartbeat or commit that takes no longer is quick."""
QUICK_AGAIN_S = 5.0
"""So long after the end, all are to be quick."""
_LOOP = ["sh", "-c", "while :; do :; done"]
_KILLED = re.compile(r"silent.* killed|is gone|has died|has not registered")


@dataclass(frozen=True, slots=True)
class Hunger:
    """`seconds` beside `loops` busy loops, with `groups` groups of `members` members, on `brokers` brokers.

    Each member beats every `pause_s` seconds, and commits as often unless `commits` is false.
    """

    seconds: float
    groups: int = 20
    members: int = 2
    commits: bool = True
    pause_s: float = 1.0
    loops: int = 64
    brokers: int = 3
    config: dict[str, str] = field(default_factory=dict)
    warm_s: float = 240.0


@dataclass(slots=True)
class Survival:
    """The result of a run. Counts and waits are of requests that were asked or answered while the cluster starved."""

    killed: list[str] = field(default_factory=list)
    """Lines of the cluster's logs about killed or lost processes, and serving processes that are gone."""
    expelled: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    """Connections of members that broke."""
    answered: dict[str, int] = field(default_factory=dict)
    """Heartbeats and commits that were taken, by kind."""
    refused: dict[int, int] = field(default_factory=dict)
    """Heartbeats and commits that were refused, by error code."""
    longest_wait_s: float = 0.0
    """The longest time from a request to its answer."""
    longest_stall_s: float = 0.0
    """The longest delay of the members' own thread, for want of CPU. It may be a part of the longest wait."""
    quick_after_s: float = 0.0

    @property
    def violations(self) -> list[str]:
        """The broken promises, in sentences; a good run has none."""
        found = [*self.killed, *(f"expelled: {each}" for each in self.expelled)]
        if self.quick_after_s > QUICK_AGAIN_S:
            found.append(f"quick again only after {self.quick_after_s:.1f} s")
        return found


def starve(plan: Hunger, folder: Path, say: Callable[[str], object] = lambda text: None) -> Survival:
    """Starve a cluster in `folder`. Raises TimeoutError if it does not come up, or does not come to itself."""
    with coterie(folder, brokers=plan.brokers, config=plan.config) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, plan.members, min(plan.brokers, 3))])
        groups = [f"steady-{number}" for number in range(plan.groups)]
        topic = TOPIC if plan.commits else None
        members = Members(cluster.bootstrap_servers, groups, plan.members, plan.pause_s, topic)
        try:
            _wait_until_quick(members.told, plan)
            serving, logged = _serving(cluster), _log_lines(cluster)
            say(f"{plan.groups} groups of {plan.members} on {len(serving)} processes; {plan.loops} busy loops")
            starved = time.monotonic()
            with _busy_loops(plan.loops):
                _tell(members.told, plan, say)
            fed = time.monotonic()
            _wait_until_quick(members.told, plan)
            found = _judge(members.told, starved, fed)
            found.quick_after_s = time.monotonic() - fed
            gone = {process.pid: name for process, name in serving.items() if not process.is_running()}
            found.killed = [f"{name} (pid {pid}) is not there any more" for pid, name in gone.items()]
            found.killed += _log_lines(cluster)[len(logged) :]
        finally:
            members.stop()
    return found


def _tell(told: Told, plan: Hunger, say: Callable[[str], object]) -> None:
    begun = time.monotonic()
    while (spent := time.monotonic() - begun) < plan.seconds:
        time.sleep(min(20.0, plan.seconds - spent))
        say(f"{time.monotonic() - begun:7.1f} s  {len(told.answers)} answers, {len(told.expelled)} expelled")


@contextlib.contextmanager
def _busy_loops(count: int) -> Iterator[None]:
    started = [subprocess.Popen(_LOOP, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        end_family([psutil.Process(loop.pid) for loop in started])
        for loop in started:
            loop.wait()


def _serving(cluster: Coterie) -> dict[psutil.Process, str]:
    """The serving processes, and what each is. Spares are left out: surplus ones are sent away."""
    while True:
        status = cluster.status()
        found = {status["controller_pid"]: "the controller"}
        for broker in status["brokers"]:
            found[broker["pid"]] = f"broker {broker['id']}"
            shards = broker.get("shards", ())  # left out where a broker was too slow to answer
            found |= {
                shard["pid"]: f"shard {shard['partition']}"
                for shard in shards
                if shard["state"] not in ("Spare", "Asleep")
            }
        if all("shards" in broker for broker in status["brokers"]):
            return {psutil.Process(pid): name for pid, name in found.items()}


def _log_lines(cluster: Coterie) -> list[str]:
    """The lines of the cluster's logs about killed or lost processes."""
    lines = []
    for path in sorted((cluster.data_dir / "logs").glob("*.log")):
        lines += [f"{path.name}: {line}" for line in path.read_text(errors="replace").splitlines()]
    return [line for line in lines if _KILLED.search(line)]


def _wait_until_quick(told: Told, plan: Hunger) -> None:
    """Wait until every group has had a quick heartbeat, and a quick commit if it commits, sent from now on."""
    since, deadline = time.monotonic(), time.monotonic() + plan.warm_s
    kinds = ("heartbeat", "commit") if plan.commits else ("heartbeat",)
    slow = {(f"steady-{number}", kind) for number in range(plan.groups) for kind in kinds}
    seen = len(told.answers)
    while slow:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len({group for group, _ in slow})} groups are not quick after {plan.warm_s:.0f} s")
        time.sleep(0.1)
        fresh = told.answers[seen:]
        seen += len(fresh)
        slow -= {(a.group, a.kind) for a in fresh if a.asked > since and a.took < QUICK_S and not a.code}


def _judge(told: Told, starved: float, fed: float) -> Survival:
    found = Survival()
    for answer in told.answers:
        if answer.asked > fed or answer.answered < starved:
            continue
        found.longest_wait_s = max(found.longest_wait_s, answer.took)
        if answer.code:
            found.refused[answer.code] = found.refused.get(answer.code, 0) + 1
        elif answer.answered <= fed:
            found.answered[answer.kind] = found.answered.get(answer.kind, 0) + 1
    found.expelled = [f"{name} after {at - starved:.1f} s" for at, name in told.expelled if at > starved]
    found.closed = [f"{what} after {at - starved:.1f} s" for at, what in told.closed if at > starved]
    found.longest_stall_s = max((late for at, late in told.stalls if starved < at < fed), default=0.0)
    return found


def report(console: Console, found: Survival) -> None:
    """Print the result of a run."""
    counts = ", ".join(f"{count:,} {kind}s" for kind, count in sorted(found.answered.items())) or "nothing"
    refused = "".join(f", {count:,} with error {code}" for code, count in sorted(found.refused.items()))
    for line in (
        f"killed: {len(found.killed)}; members expelled: {len(found.expelled)}; connections lost: {len(found.closed)}",
        f"answered while starved: {counts}{refused}",
        f"longest wait: {found.longest_wait_s:.1f} s; members late themselves: {found.longest_stall_s:.1f} s at most",
        f"quick again after {found.quick_after_s:.1f} s",
    ):
        console.print(line, highlight=False)
    for line in found.closed[:20]:
        console.print(f"lost: {line}", highlight=False)
    for line in found.violations[:20]:
        console.print(f"[red]VIOLATION[/] {line}", highlight=False)
