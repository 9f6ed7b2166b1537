"""The shard processes that each broker waits for, and those that are on their way to it. No Ray here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

_AT_ONCE = 4  # more would only slow one another


class ShardStarts:
    """The books of the launcher.

    A process is under way until a broker says that it has come, or until it has ended. Were it taken for started any
    sooner, a broker on a busy machine, which has not seen it yet, would be given one too many, again and again.
    """

    def __init__(self, at_once: int = _AT_ONCE) -> None:
        self._at_once = at_once
        self._owed: dict[int, int] = {}
        self._urgent: dict[int, int] = {}
        self._under_way: dict[str, int] = {}  # by name: its broker

    def want(self, broker_id: int, count: int, urgent: int, here: Iterable[str]) -> None:
        """A broker needs `count` more processes than those in `here`, which have come to it; clients wait for some."""
        for name in here:
            self.over(name)
        self._urgent[broker_id] = urgent
        self._owed[broker_id] = count - Counter(self._under_way.values())[broker_id]

    def next(self, held: Collection[int] = ()) -> int | None:
        """The broker that the next process is to be started for. One whose clients wait comes before mere spares.

        For those that are `held` none is started now.
        """
        left = self._at_once - len(self._under_way)
        under_way = Counter(self._under_way.values())
        waiting = [broker for broker, count in self._owed.items() if count > 0 and broker not in held]
        if left == 1 and len(self._owed) > 1:  # no broker keeps all others waiting, whose node may be well
            waiting = [broker for broker in waiting if not under_way[broker]]
        if left < 1:
            return None
        return min(
            waiting, key=lambda broker: (under_way[broker] >= self._urgent[broker], under_way[broker]), default=None
        )

    def forget(self, broker_id: int) -> None:
        """A broker has gone. The next one of its kind says what it needs."""
        self._owed.pop(broker_id, None)
        self._urgent.pop(broker_id, None)

    def begun(self, broker_id: int, name: str) -> None:
        """A process is being started for a broker."""
        self._owed[broker_id] -= 1
        self._under_way[name] = broker_id

    def under_way(self, name: str) -> bool:
        """True while the process is on its way: it has neither come to a broker nor ended."""
        return name in self._under_way

    def over(self, name: str) -> None:
        """A process has come to a broker, or will not come."""
        self._under_way.pop(name, None)
