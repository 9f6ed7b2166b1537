"""The use of quotas: a window of samples, tokens, and the tables that keep them. Times are seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Sampling:
    """A window: the sample that is under way, and as many whole ones before it as make `count`."""

    count: int
    seconds: float

    @property
    def longest(self) -> float:
        """After this time without use a window is empty."""
        return self.count * self.seconds

    def span(self, now: float) -> float:
        """The length of the present window."""
        return max((self.count - 1) * self.seconds + now % self.seconds, self.seconds)


class Window:
    """The use within a window."""

    __slots__ = ("_samples", "_sampling", "_total")

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        self._samples: deque[tuple[int, int]] = deque()  # number and amount, the oldest first
        self._total = 0

    def record(self, amount: int, now: float) -> None:
        """So much was used."""
        self._forget(now)
        number = int(now // self._sampling.seconds)
        if self._samples and self._samples[-1][0] == number:
            amount_before = self._samples.pop()[1]
            self._samples.append((number, amount_before + amount))
        else:
            self._samples.append((number, amount))
        self._total += amount

    def room(self, rate: float, now: float) -> float:
        """The amount that may still be used; negative if too much has been."""
        self._forget(now)
        return rate * self._sampling.span(now) - self._total

    def delay(self, rate: float, now: float) -> float:
        """The time until the use is not above the rate: the longer window has what it allows (KIP-13)."""
        return max(0.0, -self.room(rate, now) / rate)

    def _forget(self, now: float) -> None:
        oldest = int(now // self._sampling.seconds) - self._sampling.count + 1
        while self._samples and self._samples[0][0] < oldest:
            self._total -= self._samples.popleft()[1]


class Bucket:
    """Tokens, which come at a rate up to `burst`. It is full at first. They may be owed."""

    __slots__ = ("_at", "_tokens")

    def __init__(self) -> None:
        self._tokens = float("inf")
        self._at = 0.0

    def has(self, amount: float, rate: float, burst: float, now: float) -> float:
        """The time until there are so many tokens; 0 if there are. Without a rate it is forever."""
        self._fill(rate, burst, now)
        missing = amount - self._tokens
        if missing <= 0:
            return 0.0
        return missing / rate if rate > 0 else float("inf")

    def take(self, amount: float, rate: float, burst: float, now: float, owed: float = float("inf")) -> float:
        """Take tokens, and owe what is missing, at most `owed`. The time until nothing is owed."""
        self._fill(rate, burst, now)
        self._tokens = max(self._tokens - amount, -owed)
        return self.has(0, rate, burst, now)

    def _fill(self, rate: float, burst: float, now: float) -> None:
        self._tokens = min(burst, self._tokens + (now - self._at) * rate)
        self._at = now


class Recent(Generic[K, V]):
    """A table of what was used lately.

    Entries idle for `idle` are dropped, because a fresh one behaves the same; so are the oldest beyond `most`.
    """

    def __init__(self, make: Callable[[], V], idle: float, most: int) -> None:
        self._make = make
        self._idle = idle
        self._most = most
        self._items: dict[K, tuple[float, V]] = {}  # with the time of its last use; the oldest first

    def __len__(self) -> int:
        return len(self._items)

    def use(self, key: K, now: float) -> V:
        """The item of a key, made if there is none."""
        known = self._items.pop(key, None)
        item = self._make() if known is None else known[1]
        self._items[key] = (now, item)
        while True:
            oldest = next(iter(self._items))
            if len(self._items) <= self._most and now - self._items[oldest][0] <= self._idle:
                return item
            del self._items[oldest]
