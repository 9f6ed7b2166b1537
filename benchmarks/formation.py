"""A group of a hundred and one of a thousand form: from the first join until all hold one generation's assignment.

Raw members in one thread; the initial rebalance delay of 200 ms is part of the protocol and subtracted.
"""

from __future__ import annotations

import asyncio

from benchmarks import joining
from benchmarks.figures import Figures, Pace, Spec
from benchmarks.model import Better, Budget
from benchmarks.servers import ONE_REPLICA, Plan
from tests.compat.raw import serving_coordinator

BUDGETS = {100: 0.8, 1_000: 1.0}
WHAT = {size: f"a group of {size:,}, initial delay subtracted" for size in BUDGETS}
SPECS = [Spec(WHAT[size], "s", Better.LESS, Budget(ratio)) for size, ratio in BUDGETS.items()]


def run(figures: Figures, pace: Pace) -> None:
    """Each turn has groups of its own; their members leave before the next one."""
    with Plan(config=joining.CONFIG | ONE_REPLICA).both() as sides:
        for turn in range(pace.turns + 1):  # the first warms up
            for size, what in WHAT.items():
                for side, cluster in sides.items():
                    with figures.attempt(side, what):
                        took = _seconds(cluster.bootstrap_servers, f"formation-{size}-{turn}", size)
                        if turn:
                            figures.add(side, what, took)


def _seconds(servers: str, group: str, size: int) -> float:
    serving_coordinator(servers, group)
    return asyncio.run(_form_and_leave(servers, group, size)) - joining.INITIAL_DELAY_MS / 1000


async def _form_and_leave(servers: str, group: str, size: int) -> float:
    took, members = await joining.form(servers, [group], size)
    await asyncio.gather(*(member.leave() for member in members))
    return took
