"""Quotas at a broker: what each client has used, and connections that are not read while it is too much (KIP-219)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping
from typing import Final

from actors.broker.connections.connection import Connection
from actors.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Limit,
    Rows,
    address_limit,
    limit_of,
)
from actors.quotas.rates import Bucket, Recent, Sampling, Window
from actors.settings import BrokerConfig

CLIENTS_MAX: Final = 10_000
"""Clients whose use is known. Of more, those who were away longest are taken for new."""
ADDRESSES_MAX: Final = 100_000
_PART_OF_SAMPLE: Final = 0.1
_PER_CENT_NS: Final = 10**9 / 100  # of a second
_BUCKET_SECONDS: Final = 1.0  # after which the bucket of an address is full again, because it holds a second's tokens

_Key = tuple[str, tuple[str | None, str | None]]


class Quotas:
    """The quotas of the last image, and what is used of them at this broker. While there are none, it is `NoQuotas`.

    A throttle time is in ms. The answer tells it, and the connection is not read for that time.
    """

    limits: Final = True
    """True if anybody has a quota. Where each request comes along, this is looked at, and nothing is called."""

    def __init__(self, rows: Rows, config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timed: TimeAccount | None = None
        self.update(rows)
        sampling = window_of_bytes(config)
        mutations = _window_of_mutations(config)
        self._sample_seconds = sampling.seconds
        self._mutation_seconds = mutations.longest
        self._windows: Recent[_Key, Window] = Recent(lambda: Window(sampling), sampling.longest, CLIENTS_MAX)
        self._buckets: Recent[_Key, Bucket] = Recent(Bucket, math.inf, CLIENTS_MAX)
        self.addresses: Recent[str, Bucket] = Recent(Bucket, _BUCKET_SECONDS, ADDRESSES_MAX)
        """The use of each address, or network, that connected a moment ago."""

    def update(self, rows: Rows) -> None:
        """Go by the quotas of another image."""
        self._rows = rows
        self.have_time = any(REQUEST_PERCENTAGE in quotas for quotas in rows.values())
        """True if anybody's requests are limited by the time that they take."""

    # --- bytes (KIP-13) ---

    def produced(self, connection: Connection, client_id: str | None, size: int) -> int:
        """A client has sent so many bytes of records. The throttle time."""
        throttle_ms = self._record(PRODUCER_BYTE_RATE, connection, client_id, size)
        return throttle_ms if self._timed is None else max(throttle_ms, self._timed.throttle_ms())

    def produce_delay(self, connection: Connection, client_id: str | None) -> float:
        """The seconds that a client has to wait before it may send more records, by whatever connection."""
        limit = self._limit(PRODUCER_BYTE_RATE, connection, client_id)
        if limit is None:
            return 0.0
        now = self._loop.time()
        return self._window(PRODUCER_BYTE_RATE, limit, now).delay(limit.rate, now)

    def fetched(self, connection: Connection, client_id: str | None, size: int) -> int:
        """A client is sent so many bytes of records. The throttle time."""
        return self._record(CONSUMER_BYTE_RATE, connection, client_id, size)

    def fetch_room(self, connection: Connection, client_id: str | None) -> int | None:
        """The bytes that a client may be sent now; None if it has no quota. From 0 down it is over it."""
        limit = self._limit(CONSUMER_BYTE_RATE, connection, client_id)
        if limit is None:
            return None
        now = self._loop.time()
        return math.floor(self._window(CONSUMER_BYTE_RATE, limit, now).room(limit.rate, now))

    def fetch_refused(self, connection: Connection, client_id: str | None) -> int:
        """A fetch of a client without room is answered with nothing. The throttle time: until a part of a sample fits.

        A longer one leaves unused what is free meanwhile, a shorter one makes for many empty answers.
        """
        limit = self._limit(CONSUMER_BYTE_RATE, connection, client_id)
        if limit is None:
            return 0
        now = self._loop.time()
        delay = self._window(CONSUMER_BYTE_RATE, limit, now).delay(limit.rate, now)
        return self._mute(connection, delay + self._sample_seconds * _PART_OF_SAMPLE)

    def _record(self, key: str, connection: Connection, client_id: str | None, size: int) -> int:
        limit = self._limit(key, connection, client_id)
        if limit is None:
            return 0
        now = self._loop.time()
        window = self._window(key, limit, now)
        window.record(size, now)
        return self._mute(connection, window.delay(limit.rate, now))

    def _limit(self, key: str, connection: Connection, client_id: str | None) -> Limit | None:
        return limit_of(self._rows, key, connection.principal.removeprefix("User:"), client_id or "")

    def _window(self, key: str, limit: Limit, now: float) -> Window:
        return self._windows.use((key, limit.shared_by), now)

    # --- the loop's time (KIP-124) ---

    def time_begins(
        self, connection: Connection, client_id: str | None, clock: Callable[[], float]
    ) -> TimeAccount | None:
        """A client's request begins. Returns the account of its time, until `time_ends`; None without such a quota."""
        limit = self._limit(REQUEST_PERCENTAGE, connection, client_id)
        if limit is not None:
            window = self._window(REQUEST_PERCENTAGE, limit, self._loop.time())
            self._timed = TimeAccount(window, limit.rate, self._sample_seconds, self._loop, clock)
        return self._timed

    def time_ends(self, connection: Connection) -> None:
        """The request has been handled. If it took too much, the connection is not read for a while."""
        account, self._timed = self._timed, None
        if account is not None:
            self._mute(connection, account.close())

    # --- changes of topics (KIP-599) ---

    def mutated(
        self, connection: Connection, client_id: str | None, costs: Mapping[int, int], *, strict: bool
    ) -> tuple[Collection[int], int]:
        """A client wants changes, by their places, each of so many partitions.

        Returns the refused places, and the throttle time.

        Without `strict` none is: its API version has no error for it.
        """
        limit = self._limit(CONTROLLER_MUTATION_RATE, connection, client_id)
        if limit is None:
            return (), 0
        now, rate = self._loop.time(), limit.rate
        burst = rate * self._mutation_seconds
        bucket = self._buckets.use((CONTROLLER_MUTATION_RATE, limit.shared_by), now)
        refused = set()
        for place, cost in costs.items():
            if strict and bucket.has(0, rate, burst, now) > 0:
                refused.add(place)
            else:
                bucket.take(cost, rate, burst, now)
        return refused, self._mute(connection, bucket.has(0, rate, burst, now))

    # --- connections (KIP-612) ---

    def connected(self, peer: str) -> float:
        """A client has connected. Returns the seconds by which it came too early."""
        found = address_limit(self._rows, peer)
        if found is None:
            return 0.0
        rate, place = found
        now, burst = self._loop.time(), max(rate, 1.0)
        bucket = self.addresses.use(place, now)
        early = bucket.has(1, rate, burst, now)
        if not early:
            bucket.take(1, rate, burst, now)
        return early

    # --- muting ---

    def hold(self, connection: Connection, seconds: float, then: Callable[[], None]) -> None:
        """Do not read a connection for a while; `then` is called before it is read on."""

        def end() -> None:
            then()
            connection.release()

        connection.hold()
        self._loop.call_later(seconds, end)

    def _mute(self, connection: Connection, seconds: float) -> int:
        if seconds <= 0:
            return 0
        connection.hold()
        self._loop.call_later(seconds, connection.release)
        return _in_ms(seconds)


class TimeAccount:
    """The time of one request, from now until `close`. `clock` goes on while the loop's time stands."""

    def __init__(
        self,
        window: Window,
        percentage: float,
        most_seconds: float,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
    ) -> None:
        self._window = window
        self._rate_ns = percentage * _PER_CENT_NS
        self._most_seconds = most_seconds
        self._loop = loop
        self._clock = clock
        self._recorded = clock()
        self._closed = False

    def throttle_ms(self) -> int:
        """The time for which the client has to wait after its use by now."""
        return _in_ms(self._used())

    def close(self) -> float:
        """The request has been handled. Returns the seconds that the client has to wait."""
        delay = self._used()
        self._closed = True
        return delay

    def _used(self) -> float:
        now = self._loop.time()
        if not self._closed:
            until = self._clock()
            self._window.record(round((until - self._recorded) * 10**9), now)
            self._recorded = until
        # A sample at most, as in Kafka: a member's session goes on while its heartbeats wait.
        return min(self._window.delay(self._rate_ns, now), self._most_seconds)


def _in_ms(seconds: float) -> int:
    return min(math.ceil(seconds * 1000), 2**31 - 1)


class NoQuotas:
    """Nobody has a quota."""

    limits: Final = False
    have_time: Final = False

    def produced(self, connection: Connection, client_id: str | None, size: int) -> int:
        return 0

    def produce_delay(self, connection: Connection, client_id: str | None) -> float:
        return 0.0

    def fetched(self, connection: Connection, client_id: str | None, size: int) -> int:
        return 0

    def fetch_room(self, connection: Connection, client_id: str | None) -> int | None:
        return None

    def fetch_refused(self, connection: Connection, client_id: str | None) -> int:
        return 0

    def time_begins(
        self, connection: Connection, client_id: str | None, clock: Callable[[], float]
    ) -> TimeAccount | None:
        return None

    def time_ends(self, connection: Connection) -> None: ...

    def mutated(
        self, connection: Connection, client_id: str | None, costs: Mapping[int, int], *, strict: bool
    ) -> tuple[Collection[int], int]:
        return (), 0

    def connected(self, peer: str) -> float:
        return 0.0

    def hold(self, connection: Connection, seconds: float, then: Callable[[], None]) -> None:
        raise AssertionError("nobody is over a quota")


NO_QUOTAS: Final = NoQuotas()


def quotas_of(
    before: Quotas | NoQuotas, rows: Rows, config: BrokerConfig, loop: asyncio.AbstractEventLoop
) -> Quotas | NoQuotas:
    """The quotas to go by after an image with these."""
    if not rows:
        return NO_QUOTAS
    if isinstance(before, NoQuotas):
        return Quotas(rows, config, loop)
    before.update(rows)
    return before


def window_of_bytes(config: BrokerConfig) -> Sampling:
    """The window of byte rates. It slides, so it has two samples at least."""
    return Sampling(max(config.integer("quota.window.num"), 2), config.integer("quota.window.size.seconds"))


def _window_of_mutations(config: BrokerConfig) -> Sampling:
    count, seconds = (
        config.integer("controller.quota.window.num"),
        config.integer("controller.quota.window.size.seconds"),
    )
    return Sampling(count, seconds)
