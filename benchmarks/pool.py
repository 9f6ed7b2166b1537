"""A pool of three consumer actors over 20,000 records in twelve partitions: from the moment it is made.

Three brokers on the embedded Ray that a cluster starts by itself, with the settings it has by itself. Each turn is a
group of its own. There is no peer: a pool is processes that are started, and a Kafka consumer is one that runs already.
"""

from __future__ import annotations

import time
from pathlib import Path

from actors.cluster import Cluster
from actors.members.pool import ConsumerPool
from benchmarks.common import fill, temporary_folder
from benchmarks.figures import Figures, Pace, Spec
from benchmarks.model import Better, Budget

RECORDS, PARTITIONS, SIZE_BYTES = 20_000, 12, 100
LIMIT_S = 90.0
FIRST = "first record of a pool of three"
ALL = "20,000 records handled"
SPECS = [Spec(FIRST, "s", Better.LESS, Budget(limit=2.0)), Spec(ALL, "s", Better.LESS)]


class FirstSeen:
    """A handler that leaves a file with the time of its first record, on the clock that all processes share."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._begun = False

    def __call__(self, record: object) -> None:
        """Handle a record."""
        if not self._begun:
            self._begun = True
            now = time.monotonic()
            (self._folder / f"{id(self)}-{now}").write_text(str(now))


def run(figures: Figures, pace: Pace) -> None:
    """One cluster; a pool a turn."""
    with temporary_folder() as folder, Cluster.start(3, name="bench-pool", data_dir=folder / "data") as cluster:
        fill(cluster.bootstrap_servers, "pool", PARTITIONS, RECORDS, SIZE_BYTES)
        for turn in range(pace.turns):
            _turn(figures, cluster.bootstrap_servers, folder / f"turn-{turn}")


def _turn(figures: Figures, servers: str, folder: Path) -> None:
    folder.mkdir()
    began = time.monotonic()
    pool = ConsumerPool(
        "pool",
        folder.name,
        FirstSeen,
        3,
        bootstrap_servers=servers,
        handler_args=(str(folder),),
        auto_offset_reset="earliest",
    )
    with pool:
        if not pool.wait(lambda: pool.handled() >= RECORDS, LIMIT_S):
            raise RuntimeError(f"{pool.handled()} of {RECORDS} records were handled in {LIMIT_S:.0f} s")
        all_s = time.monotonic() - began
    figures.only_ours(FIRST, min(float(each.read_text()) for each in folder.iterdir()) - began)
    figures.only_ours(ALL, all_s)
