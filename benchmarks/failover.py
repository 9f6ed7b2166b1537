"""How soon groups commit again after a kill -9 of a broker or a shard, and what three replicas cost.

Three brokers, three replicas, `min.insync.replicas=2`, fifty groups that commit all the time in fifty shards, and
100,000 commits in the log. Twenty kills; the time counts for every group, also those that lost nothing, from the kill
to the group's first acknowledged commit.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import groups
from benchmarks.common import Row, note, print_rows, run_load, temporary_folder, thousands
from tests.chaos.history import percentile
from tests.chaos.run import SAFE, Plan
from tests.chaos.run import run as torment
from tests.compat import peers
from tests.compat.peers import Coterie

KILLS = 20
BEFORE = 100_000
P50_S, P99_S = 1.0, 3.0
REPLICATED_SHARE = 0.5
DEPTH, SECONDS = 16, 4.0


def fill(cluster: Coterie) -> None:
    """Have so many commits in the log that a new leader has something to load."""
    formed = groups.form(cluster.bootstrap_servers, 8)
    written = 0
    while written < BEFORE:
        written += run_load(formed.commits(), DEPTH, 1, 0.0).answers * groups.COMMITTED_PARTITIONS
    for member in formed.members:
        member.raw.close()
    note(f"{written:,} commits written before the kills")


def failover(folder: Path) -> list[Row]:
    """The rows of the kills."""
    faults = ("of a broker", "of a shard") * (KILLS // 2)
    outcome = torment(Plan(0.0, pause_s=(3.0, 5.0), faults=faults), folder, note, fill)
    rows = []
    for kind in sorted(outcome.faults):
        back = [seconds for each, seconds in outcome.back_after_s if each == kind]
        p50, p99 = percentile(back, 0.5), percentile(back, 0.99)
        figures = f"p50 {p50:.2f}, p99 {p99:.2f}, max {max(back):.2f} s"
        what = f"{kind}, {outcome.faults[kind]} times: first commit of each group"
        rows.append(Row(what, figures, "", None, f"p50 {P50_S:.0f} s, p99 {P99_S:.0f} s", p50 < P50_S and p99 < P99_S))
    lost = outcome.commits_lost + outcome.records_lost
    acked = f"{lost} of {thousands(outcome.commits_acked)} commits and {thousands(outcome.records_acked)} records"
    return [*rows, Row("lost of what was acknowledged", acked, "", None, "0", not outcome.violations)]


def commit_rate(folder: Path, config: dict[str, str]) -> float:
    """Ten-partition commits a second over eight shards."""
    with peers.coterie(folder, config=config) as cluster:
        formed = groups.form(cluster.bootstrap_servers, 8)
        rate = run_load(formed.commits(), DEPTH, SECONDS).requests_per_s
        for member in formed.members:
            member.raw.close()
    return rate


def replication(folder: Path) -> Row:
    """Three replicas against one, in the same run."""
    rates = {}
    for factor, config in ((1, {"offsets.topic.replication.factor": "1"}), (3, SAFE)):
        place = folder / f"factor-{factor}"
        place.mkdir()
        rates[factor] = commit_rate(place, dict(config))
    ratio = rates[3] / rates[1]
    return Row(
        "ten-partition commits a second, three replicas against one, eight shards, depth 16",
        thousands(rates[3]),
        f"{thousands(rates[1])} (one replica)",
        ratio,
        f"{REPLICATED_SHARE} x",
        ratio >= REPLICATED_SHARE,
    )


def run() -> list[Row]:
    with temporary_folder() as folder:
        chaos = folder / "chaos"
        chaos.mkdir()
        return [*failover(chaos), replication(folder)]


if __name__ == "__main__":
    print_rows(run())
