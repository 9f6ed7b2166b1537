"""Fifty groups of ten members in the fifty partitions of `__consumer_offsets`: a cluster's whole life.

They form on a cluster that has just started, and fifty more where all is warm; the initial rebalance delay of 200 ms
is subtracted. All members of the first fifty beat every three seconds while CPU and memory (PSS) are measured. Then
they commit 10,000 partitions a group and leave. At last every process is killed and started again: until a client
hears from each group's coordinator what the group has committed. Asleep are groups without members that nobody has
asked for anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from actors.settings import SETTINGS
from actors.wire.messages import OffsetFetchRequest
from benchmarks import groups, joining
from benchmarks.common import run_load
from benchmarks.figures import SIDES, Figures, Pace, Spec
from benchmarks.groups import Formed, Seat
from benchmarks.joining import Member
from benchmarks.model import Better, Budget
from benchmarks.servers import ONE_REPLICA, Cluster, Plan, idle_cpu, kill_everything, memory_mib
from tests.compat.raw import RETRIABLE_JOIN, Raw, find_coordinator

GROUPS, SIZE = 50, 10
BEAT_MS = 3_000
SETTLE_S, IDLE_S = 6.0, 12.0
SLEEP_SETTING = "coterie.shard.idle.ms"
SLEEP_MS = 15_000
SPARE_S = 40.0
"""Processes of partitions that have gone to sleep are spares for half a minute, and then end."""
COMMITS_A_GROUP = 10_000
SERVED_LIMIT_S = 120.0
SLEEPS = SLEEP_SETTING in SETTINGS
"""True if partition actors of this version can sleep; without that nothing is said of it."""

COLD = "fifty groups of ten form, cold"
WARM = "fifty groups of ten form, warm"
MEMORY = "memory, all alive"
CPU = "idle CPU, all alive and beating"
RESTART = "everything killed, until all fifty serve"
MEMORY_ASLEEP = "memory, asleep"
CPU_ASLEEP = "idle CPU, asleep"
WAKES = "a sleeping group of 10,000 commits answers, median"
SPECS = [
    Spec(COLD, "s", Better.LESS, Budget(3.0, 12.0)),
    Spec(WARM, "s", Better.LESS),
    Spec(MEMORY, "MiB", Better.LESS, Budget(3.0)),
    Spec(CPU, "% of a core", Better.LESS, Budget(2.0)),
    Spec(MEMORY_ASLEEP, "MiB", Better.LESS, Budget(1.5)),
    Spec(CPU_ASLEEP, "% of a core", Better.LESS, Budget(limit=5.0)),
    Spec(WAKES, "s", Better.LESS, Budget(limit=0.5)),
    Spec(RESTART, "s", Better.LESS, Budget(limit=15.0)),
]


def run(figures: Figures, pace: Pace) -> None:
    """Each life is lived alone, in turns."""
    plan = Plan(config=joining.CONFIG | ONE_REPLICA, our_config={SLEEP_SETTING: str(SLEEP_MS)} if SLEEPS else None)
    for turn in range(pace.fewer(2, 1)):
        for side in SIDES:
            with figures.attempt(side, f"life {turn + 1}"), plan.side(side) as cluster:
                _live(figures, side, cluster, pace)


def _live(figures: Figures, side: str, cluster: Cluster, pace: Pace) -> None:
    with asyncio.Runner() as runner:  # members keep their connections
        took, members = runner.run(_form(cluster, "cold"))
        figures.add(side, COLD, took)
        names = [member.group for member in members[::SIZE]]
        seats = [Seat(member.port, member.group, member.generation, member.id) for member in members]
        formed = groups.seated(cluster.bootstrap_servers, seats)
        with _beating(formed, SETTLE_S + IDLE_S):
            time.sleep(SETTLE_S)
            figures.add(side, CPU, idle_cpu(cluster, IDLE_S - 1))
            figures.add(side, MEMORY, memory_mib(cluster))
        took, more = runner.run(_form(cluster, "warm"))
        figures.add(side, WARM, took)
        _commit(cluster, formed, pace)
        runner.run(_leave(members + more))
    if SLEEPS:
        _sleep(figures, side, cluster, names)
    began = time.monotonic()
    kill_everything(cluster)
    cluster.start()
    with ThreadPoolExecutor(GROUPS) as pool:
        list(pool.map(lambda name: _answer_s(cluster.bootstrap_servers, name), names))
    figures.add(side, RESTART, time.monotonic() - began)


async def _form(cluster: Cluster, tag: str) -> tuple[float, list[Member]]:
    names = groups.group_names(GROUPS, GROUPS, f"fifty-{tag}")
    took, members = await joining.form(cluster.bootstrap_servers, names, SIZE)
    return took - joining.INITIAL_DELAY_MS / 1000, members


async def _leave(members: list[Member]) -> None:
    await asyncio.gather(*(member.leave() for member in members))


@contextlib.contextmanager
def _beating(formed: Formed, seconds: float) -> Iterator[None]:
    """All members beat meanwhile. Raises what went wrong with that."""
    with ThreadPoolExecutor(1) as pool:
        beats = pool.submit(run_load, formed.heartbeats(), 1, seconds, 0.0, BEAT_MS)
        yield
        beats.result()


def _commit(cluster: Cluster, formed: Formed, pace: Pace) -> None:
    """So many commits in each group's log."""
    groups.make_topics(cluster.bootstrap_servers)
    wanted, written = pace.fewer(COMMITS_A_GROUP * GROUPS, 1), 0
    while written < wanted:
        written += run_load(formed.commits(), 2, pace.seconds, 0.0).answers * groups.COMMITTED_PARTITIONS


def _sleep(figures: Figures, side: str, cluster: Cluster, names: list[str]) -> None:
    time.sleep(SLEEP_MS / 1000 + SPARE_S)
    figures.add(side, MEMORY_ASLEEP, memory_mib(cluster))
    figures.add(side, CPU_ASLEEP, idle_cpu(cluster, IDLE_S))
    answers = [_answer_s(cluster.bootstrap_servers, name) for name in names]
    figures.add(side, WAKES, statistics.median(answers))


def _answer_s(servers: str, group: str) -> float:
    """Seconds until its coordinator tells what the group has committed."""
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="load-0", partition_indexes=[0])
    request = OffsetFetchRequest(group_id=group, topics=[topic])
    began = time.monotonic()
    while True:
        with contextlib.suppress(OSError, EOFError), Raw(find_coordinator(servers, group)) as raw:
            answer = raw.call(request, 5)
            if not answer.error_code:
                offset = answer.topics[0].partitions[0].committed_offset
                assert offset > 0, f"{group} has lost its commits: {offset}"
                return time.monotonic() - began
            assert answer.error_code in RETRIABLE_JOIN, answer.error_code
        assert time.monotonic() - began < SERVED_LIMIT_S, f"{group} is not served"
        time.sleep(0.02)
