"""Produce requests of clients that have sent more than their quota: they wait, whatever connection they come by.

A quota is its user's or client id's. The connection that used it up is not read for a while (`quotas`); without this, a
client would open another one for each request, and send as much as it likes.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Final

from actors.broker.connections.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.entrance.request_time import client_id_of
from actors.runtime.logs import about
from actors.wire.api_keys import ApiKey
from actors.wire.errors import WireError

log = logging.getLogger(__name__)

_KEY: Final = struct.Struct(">h")
_PRODUCE: Final = int(ApiKey.PRODUCE)
_WAITING_BYTES_MAX: Final = 256 << 20
"""More of them are not kept: their connections close. Clients over their quota do not fill the memory by them."""

Serve = Callable[[Connection, bytes, int, int], None]


class OverQuota:
    """Has such requests wait. `serve` serves any request, and asks here first."""

    def __init__(self, context: BrokerContext, serve: Serve) -> None:
        self._context = context
        self._serve = serve
        self._waiting_bytes = 0

    def holds(self, connection: Connection, data: bytes, start: int, end: int) -> bool:
        """True if a request is to wait; then it is served later, and its connection not read until then."""
        quotas = self._context.quotas
        if _KEY.unpack_from(data, start)[0] != _PRODUCE:
            return False
        delay = quotas.produce_delay(connection, client_id_of(data, start))
        if delay <= 0:
            return False
        frame = data[start:end]
        self._waiting_bytes += len(frame)
        if self._waiting_bytes > _WAITING_BYTES_MAX:
            self._waiting_bytes -= len(frame)
            raise WireError(f"over its producer_byte_rate, while {self._waiting_bytes} bytes of such requests wait")
        quotas.hold(connection, delay, lambda: self._again(connection, frame))
        return True

    def _again(self, connection: Connection, frame: bytes) -> None:
        """Serve it, unless others with the same quota were quicker: then it waits once more."""
        self._waiting_bytes -= len(frame)
        if connection.transport is None:
            return
        try:
            self._serve(connection, frame, 0, len(frame))
        except WireError as error:
            connection.close(str(error))
        except Exception:  # a bug, in the turn of a timer: the client would wait for ever
            log.exception("Produce from %s", connection.peer, extra=about(peer=connection.peer))
            connection.close("its request could not be handled")
        connection.flush()
