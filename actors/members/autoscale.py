"""The size of a pool by its load: a rule with the load's figures in and a size out. It has no clock and asks nobody.

A partition needs as much of a member as its lag is of the target, and never more than one member, because one member
has the whole partition. The sum over the partitions is the size by lag: more members than partitions with lag help
nobody, unless a member has two of them. Partitions are divided by their number and not by their lag, so that this may
happen while others have none; then a size is wanted at which each has fewer.

Members whose handlers are busy are not taken away, so that a pool which keeps its lag low by working does not shrink
below its work.

Hysteresis is that of Kubernetes' HorizontalPodAutoscaler: a pool grows at once, and shrinks to the largest size that
was wanted within the stabilization window. A size that differs from the present one by a tenth is as good.
scaling.py asks for the figures and carries out what is decided.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Final

from actors.client.errors import ConfigurationError

_TOLERANCE: Final = 0.1  # as in Kubernetes
_BUSY_TARGET: Final = 0.8  # of a member's time; the rest is for what comes unevenly
_GAP_INTERVALS: Final = 3  # looks that may be missing until the window begins anew
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscale:
    """The rule by which a pool follows its load, with at least one target; of two, the one that asks for more counts.

    Raises ConfigurationError if it makes no sense.
    """

    max_size: int
    min_size: int = 1
    """With 0 a pool without any lag has no member."""
    target_lag: int | None = None
    """Records that may wait for each member."""
    target_lag_seconds: float | None = None
    """Seconds of work that may wait for each member, as fast as its handler has been lately."""
    stabilization_s: float = 60.0
    """A pool shrinks when a smaller size was enough for so long."""
    interval_s: float = 5.0
    """Seconds between two looks at the figures."""
    drain_timeout_s: float = 30.0
    """Seconds that a leaving member may take for the record or batch in hand. Then that comes again, elsewhere."""

    def __post_init__(self) -> None:
        _require(0 <= self.min_size <= self.max_size, "min_size must be from 0 to max_size")
        _require(self.max_size >= 1, "max_size must be at least 1")
        _require(self.target_lag is not None or self.target_lag_seconds is not None, "a target must be given")
        _require(self.target_lag is None or self.target_lag >= 1, "target_lag must be at least 1")
        _require(self.target_lag_seconds is None or self.target_lag_seconds > 0, "target_lag_seconds must be positive")
        _require(self.stabilization_s >= 0, "stabilization_s must not be negative")
        _require(self.interval_s > 0, "interval_s must be positive")
        _require(self.drain_timeout_s > 0, "drain_timeout_s must be positive")


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise ConfigurationError(f"autoscale: {text}")


@dataclass(frozen=True, slots=True)
class Load:
    """The figures of one look at a pool and its group."""

    at_s: float
    """By a monotonic clock."""
    size: int
    lags: tuple[int | None, ...] | None
    """Records that wait in each partition; None where that is unknown."""
    owners: tuple[int | None, ...] = ()
    """The slot whose member has each of these partitions; None if none has it. Empty: unknown."""
    busy: float | None = None
    """The handlers' work since the last look, as a number of fully busy members; None if that is unknown."""
    per_second: float | None = None
    """Records that one member handles in a second of work; None while none has been handled."""
    waiting: int = 0
    """Members that Ray has no room for yet."""
    settled: bool = True
    """True if the group has taken up the last change of size, and no member is starting."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The size that a pool is to have, and why. If it is the present one, `reason` says what keeps it."""

    size: int
    reason: str


def recommend(policy: Autoscale, load: Load) -> int:
    """The size that this load alone asks for. Unknown figures may ask for more members, and never for fewer."""
    partitions = len(load.lags) if load.lags else policy.max_size
    most = max(policy.min_size, min(policy.max_size, partitions))
    wanted = max(_by_lag(policy, load), _by_crowding(policy, load), min(load.size, _by_work(load)))
    if not _is_known(policy, load):
        wanted = max(wanted, load.size)
    return min(max(wanted, policy.min_size), most)


def _is_known(policy: Autoscale, load: Load) -> bool:
    if not load.lags or None in load.lags or load.busy is None:
        return False
    return not any(load.lags) or policy.target_lag_seconds is None or load.per_second is not None


def _by_lag(policy: Autoscale, load: Load) -> int:
    """Partitions with lag count on their own: one that is far behind needs one member, and not ten."""
    lags = [lag for lag in load.lags or () if lag]
    needed = max((sum(min(1.0, lag / target) for lag in lags) for target in _targets(policy, load)), default=0.0)
    as_good = abs(needed - load.size) <= _TOLERANCE * load.size
    return max(load.size if as_good else math.ceil(needed - _ROUNDING), min(len(lags), 1))


def _by_crowding(policy: Autoscale, load: Load) -> int:
    """If a member with several partitions in lag has too much in all: the size at which it would have one fewer."""
    target = min(_targets(policy, load), default=math.inf)
    held: dict[int, list[int]] = {}
    for owner, lag in zip(load.owners, load.lags or (), strict=False):
        if owner is not None:
            held.setdefault(owner, []).append(lag or 0)
    crowded = [
        len(lags) for lags in held.values() if sum(map(bool, lags)) > 1 and sum(lags) > (1 + _TOLERANCE) * target
    ]
    return math.ceil(len(load.owners) / (min(crowded) - 1)) if crowded else 0


def _targets(policy: Autoscale, load: Load) -> list[float]:
    """The records that may wait for a member, by each target; seconds become records by the handler's own speed."""
    targets = [float(policy.target_lag)] if policy.target_lag is not None else []
    if policy.target_lag_seconds is not None and load.per_second:
        targets.append(policy.target_lag_seconds * load.per_second)
    return targets


def _by_work(load: Load) -> int:
    """The members that what is being handled keeps busy, if the partitions are divided evenly.

    Partitions are whole: of four that keep 2.2 members busy, one of three members would have two, and fall behind.
    """
    if not load.busy or not load.lags:
        return 0
    partitions = len(load.lags)
    each = min(_BUSY_TARGET * partitions / load.busy + _ROUNDING, partitions)
    return math.ceil(partitions / max(1, int(each)))


class Scaler:
    """Decides the size of one pool, look by look. `of` is what its size counts, for the texts."""

    def __init__(self, policy: Autoscale, of: str = "member") -> None:
        self._policy = policy
        self._of = of
        self._wanted: deque[tuple[float, int]] = deque()  # times and the sizes wanted then; none older than the window
        self._since_s = -math.inf  # the window's beginning; nothing is known of sizes wanted before
        self._last_s = -math.inf

    def decide(self, load: Load) -> Decision:
        """The size that the pool is to have from now on."""
        wanted = recommend(self._policy, load)
        self._note(load.at_s, wanted)
        if not load.settled and load.lags is not None:
            return Decision(load.size, "the last change is under way")
        if wanted > load.size:
            if load.waiting:
                return Decision(load.size, f"Ray has no room yet for {load.waiting} of its members")
            return Decision(wanted, self._why(load))
        return self._lower(load)

    def _note(self, at_s: float, wanted: int) -> None:
        if at_s - self._last_s > _GAP_INTERVALS * self._policy.interval_s:
            self._wanted.clear()
            self._since_s = at_s
        self._last_s = at_s
        self._wanted.append((at_s, wanted))
        while self._wanted[0][0] < at_s - self._policy.stabilization_s:
            self._wanted.popleft()

    def _lower(self, load: Load) -> Decision:
        """Lower only what was too much throughout the window."""
        window_s = self._policy.stabilization_s
        most = max(size for _, size in self._wanted)
        if most >= load.size or load.at_s - self._since_s < window_s:
            return Decision(load.size, self._why(load))
        return Decision(most, f"{most} would do for {window_s:g} s; {self._why(load)}")

    def _why(self, load: Load) -> str:
        """The figures in words."""
        if load.lags is None:
            return "the lag is unknown"
        known = [lag for lag in load.lags if lag is not None]
        behind = sum(1 for lag in known if lag)
        text = f"a lag of {sum(known)} records in {behind} of {len(load.lags)} partitions"
        if len(known) < len(load.lags):
            text += f", unknown in {len(load.lags) - len(known)}"
        if load.per_second is not None:
            text += f"; a {self._of} handles {load.per_second:.3g} records a second"
        if load.busy is not None:
            text += f"; {load.busy:.1f} of {load.size} {self._of}s are busy"
        return text
