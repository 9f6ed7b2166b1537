"""The reports of rebalances that a shard's process sends its broker, made of the coordinator's memory of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice
from typing import Final

from actors.coordinator.group_types import GroupShard
from actors.coordinator.groups.history import Rebalance
from actors.coordinator.turn import Now
from actors.links.rebalances import AWAITED_MAX, RUNNING_MAX, Rebalances, Rebalancing
from actors.runtime.logs import Fields

log = logging.getLogger(__name__)

_LOGGED_MAX: Final = 50
"""Lines at once: a shard that has a hundred thousand groups must not write of nothing else after a failover."""


def log_rebalances(news: Rebalances, extra: Callable[..., dict[str, Fields]]) -> None:
    """A line for each rebalance that is over, the first ones of many. `extra` adds where it was."""
    for each in news.over[:_LOGGED_MAX]:
        who = extra(group=each.group_id, generation=each.epoch, member=each.member_id)
        text = "a rebalance ended %s %d of group %r: %s"
        log.info(text, each.epoch_name, each.epoch, each.group_id, each.reason, extra=who)
    left_out = len(news.over[_LOGGED_MAX:]) + news.dropped
    if left_out:
        log.info("%d more rebalances are not listed", left_out, extra=extra())


class RebalanceNews:
    """The news of one shard's rebalances that its broker has not been told."""

    def __init__(self) -> None:
        self._sent_running = False

    def take(self, shard: GroupShard, now: Now) -> Rebalances | None:
        """The news to be told now; None if there is nothing. A rebalance that is over is told once."""
        over, dropped = shard.coordinator.rebalances.take_over()
        running = shard.coordinator.rebalances.running
        if not over and not dropped and not running and not self._sent_running:
            return None
        self._sent_running = bool(running)
        shown = islice(running.values(), RUNNING_MAX)
        return Rebalances(
            tuple(each.view() for each in over), dropped, tuple(_running(shard, each, now) for each in shown)
        )


def _running(shard: GroupShard, rebalance: Rebalance, now: Now) -> Rebalancing:
    awaited, due_ms = shard.coordinator.awaited(rebalance.group_id)
    ends_ms = None if due_ms is None else now.wall_ms + due_ms - now.monotonic_ms
    return Rebalancing(rebalance.view(), awaited[:AWAITED_MAX], len(awaited), ends_ms)
