"""A group in virtual time: records come, members handle them, and a change of size takes a while to be taken up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from actors.members.autoscale import Autoscale, Load, Scaler

REBALANCE_S = 4.0


@dataclass
class GroupInTime:
    """`arrivals` gives the records a second at a time; they are divided over the partitions evenly, or by `shares`.

    Each member handles `speed` records a second, of its partitions in turn. During a rebalance nobody handles any:
    that is worse than a cooperative one.
    """

    policy: Autoscale
    arrivals: Callable[[float], float]
    partitions: int = 12
    speed: float = 100.0
    size: int = 1
    shares: Sequence[float] = ()
    known: Callable[[float], bool] = lambda now: True
    room: int = 1000
    now_s: float = 0.0
    sizes: list[tuple[float, int]] = field(default_factory=list)
    changes: list[tuple[float, int, int]] = field(default_factory=list)
    peak_lag: float = 0.0

    def __post_init__(self) -> None:
        self.lags = [0.0] * self.partitions
        self.scaler = Scaler(self.policy)
        self._settled_s = 0.0
        self._busy_s = 0.0
        self._handled = 0.0

    @property
    def lag(self) -> float:
        return sum(self.lags)

    def run(self, seconds: float) -> None:
        """Let time pass, in steps of one look."""
        end = self.now_s + seconds
        while self.now_s < end:
            self._live(self.policy.interval_s)
            self._look()

    def _live(self, seconds: float) -> None:
        shares = self.shares or [1 / self.partitions] * self.partitions
        coming = self.arrivals(self.now_s) * seconds
        self.lags = [lag + coming * share for lag, share in zip(self.lags, shares, strict=True)]
        members = min(self.size, self.room)
        able_s = max(0.0, seconds - max(0.0, self._settled_s - self.now_s))
        self._busy_s = sum(self._work(range(m, self.partitions, members), able_s) for m in range(members))
        self.now_s += seconds
        self.peak_lag = max(self.peak_lag, self.lag)
        self.sizes.append((self.now_s, self.size))

    def _work(self, owned: Sequence[int], able_s: float) -> float:
        """One member's work; the seconds it took."""
        left = able_s * self.speed
        waiting = sorted(owned, key=lambda partition: self.lags[partition])
        for turn, partition in enumerate(waiting):  # the time that one does not need goes to the others
            done = min(left / (len(waiting) - turn), self.lags[partition])
            self.lags[partition] -= done
            left -= done
        self._handled += able_s * self.speed - left
        return able_s - left / self.speed

    def _look(self) -> None:
        known = self.known(self.now_s)
        partitions = range(self.partitions)
        load = Load(
            at_s=self.now_s,
            size=self.size,
            lags=tuple(int(lag + 0.5) for lag in self.lags) if known else None,
            owners=tuple(partition % min(self.size, self.room) if self.size else None for partition in partitions),
            busy=self._busy_s / self.policy.interval_s,
            per_second=self.speed if self._handled else None,
            waiting=max(0, self.size - self.room),
            settled=self.now_s >= self._settled_s,
        )
        wanted = self.scaler.decide(load).size
        if wanted != self.size:
            assert load.settled, "one change at a time"
            self.changes.append((self.now_s, self.size, wanted))
            self.size = wanted
            self._settled_s = self.now_s + REBALANCE_S
