"""The rate at which followers out of sync are filled (KIP-73): `leader.replication.throttled.rate`, for all together.

Followers in sync are not slowed, for commits wait for them. Where Kafka has a list of replicas that the rate is for
(`leader.replication.throttled.replicas`), it is for every follower out of sync here.

A broker's removal may have a lower rate of its own. It ends with the removal, so nobody has to take it back.
"""

from __future__ import annotations

from typing import Final

from actors.broker.context import BrokerContext
from actors.quotas.rates import Bucket
from actors.settings.kinds import MAX_LONG

RATE: Final = "leader.replication.throttled.rate"
_BURST_SECONDS: Final = 1.0
_PUSH_SECONDS: Final = 0.25  # the time whose bytes one push may hold: a batch more is owed


class Throttle:
    """The bytes that this broker may send to followers out of sync. Its rate may change while it runs."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._bucket = Bucket()

    def room(self, wanted: int) -> int:
        """The number of `wanted` bytes that may be sent now; 0 if earlier ones have to be waited for."""
        rate = self._rate
        if rate is None:
            return wanted
        if self._bucket.has(1, rate, rate * _BURST_SECONDS, self._context.loop.time()) > 0:
            return 0
        return max(1, min(wanted, int(rate * _PUSH_SECONDS)))

    def sent(self, size: int) -> None:
        """So many bytes were sent."""
        rate = self._rate
        if rate is not None:
            self._bucket.take(size, rate, rate * _BURST_SECONDS, self._context.loop.time())

    @property
    def _rate(self) -> int | None:
        rates = [removal.throttle for removal in self._context.metadata.removals.values() if removal.throttle]
        rate = min(self._context.config.integer(RATE), *rates, MAX_LONG)
        return None if rate == MAX_LONG else rate
