"""The rate at which clients may connect (KIP-612): one that comes too early is not read for a while.

A broker cannot leave single connections unaccepted: uvloop takes all that have come. That nothing is read of them until
it is their turn is the same to a client, whose TLS handshake or first request waits.
"""

from __future__ import annotations

import asyncio

from actors.broker.connections.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.quotas import window_of_bytes
from actors.quotas.rates import Bucket
from actors.settings.limits import NO_RATE


class ConnectionRates:
    """The rates of a broker and its listeners, with a second's worth of tokens each; quotas have those of addresses.

    `loop` has the time and the timers.
    """

    def __init__(self, context: BrokerContext, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop
        self._longest = window_of_bytes(context.config).longest
        self._broker = Bucket()
        self._listeners = {listener.name: Bucket() for listener in context.config.listeners}

    def pace(self, connection: Connection) -> None:
        """A client has connected: let it wait for its turn, or send it away after a while."""
        early = self._context.quotas.connected(connection.peer)
        if early:
            self._hold(connection)
            self._loop.call_later(min(early, self._longest), connection.close)
        elif wait := min(self._turn(connection.listener), self._longest):
            self._hold(connection)
            self._loop.call_later(wait, connection.release)

    def _turn(self, listener: str) -> float:
        config = self._context.config
        own = config.for_listener(listener).own("max.connection.creation.rate")
        waits = [self._take(self._broker, config.integer("max.connection.creation.rate"))]
        if own is not None and listener in self._listeners:
            waits.append(self._take(self._listeners[listener], own))
        return max(waits)

    def _take(self, bucket: Bucket, rate: int) -> float:
        if rate == NO_RATE:
            return 0.0
        return bucket.take(1, rate, rate, self._loop.time(), owed=max(rate * self._longest, 1))

    def _hold(self, connection: Connection) -> None:
        connection.hold()
        self._loop.call_soon(connection.stay_on_hold)
