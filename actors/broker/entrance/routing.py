"""The way of a request: to the shard of the key that it names, or to its handler.

Nothing here knows of sockets. `socket_server` accepts connections, and gives each whole request to `Router.on_frame`.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from actors.broker.connections.connection import Connection
from actors.broker.coordinators.host import Coordinators
from actors.broker.coordinators.hub import ShardHub
from actors.broker.entrance.over_quota import OverQuota
from actors.broker.entrance.request_time import RequestTime
from actors.broker.handlers import api_versions
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.features import serves_consumer_groups
from actors.broker.handlers.group_requests import guard
from actors.broker.handlers.registry import APIS, ENTRIES_LIMIT, Api
from actors.runtime.logs import about
from actors.settings import BrokerConfig
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode, TooManyEntriesError, WireError
from actors.wire.framing import decode_request_header, encode_large_response, encode_response
from actors.wire.messages import api_name
from actors.wire.varints import read_uvarint, skip_tags

log = logging.getLogger(__name__)

_HEAD = struct.Struct(">hhih")
_LARGE_BYTES = 64 << 10
_PRODUCE = ApiKey.PRODUCE
_OFFSET_FETCH = ApiKey.OFFSET_FETCH
_CONSUMER_HEARTBEAT = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)  # an enum's member costs more to compare


_Route: TypeAlias = tuple[Api, int, int, int, int, str, ShardHub | None]
"""Of an API's requests: the row, the first and the last version, the first flexible one, the limit in bytes, the
setting of that limit, and the shards of the kind that the first field names a key of; None if a handler answers all.

A plain tuple is unpacked in a third of the time that a named one takes, and that is done for each request."""


def _route(api: Api, config: BrokerConfig, coordinators: Coordinators) -> _Route:
    shards = coordinators[api.names.kind] if api.names is not None else None
    limit = config.integer(api.limit)
    return api, api.served_from, api.last, api.request.flexible_from, limit, api.limit, shards


class Router:
    """Passes requests on: those about a key of coordinators to the shards, the others to the handlers."""

    def __init__(self, context: HandlerContext, coordinators: Coordinators, apis: Mapping[int, Api] = APIS) -> None:
        broker = context.broker
        self._entries_max = broker.config.integer(ENTRIES_LIMIT)
        # By API key, so that a request needs one lookup.
        self._routes = {int(key): _route(api, broker.config, coordinators) for key, api in apis.items()}
        self._context = context
        self._broker = broker
        self._over_quota = OverQuota(broker, self.on_frame)
        self._request_time = RequestTime(broker, self.on_frame)
        self._loop = broker.loop
        self._exact_time = broker.environment.clock.monotonic  # the loop's stands still during a turn
        self._counts = broker.counts.requests
        self._counted, self._masks = self._counts.requests, self._counts.masks
        self.last_tick = self._loop.time()
        """The loop's time at the broker's last tick: accurate enough for when a client was last active."""

    def on_frame(self, connection: Connection, data: bytes, start: int, end: int) -> None:
        """Pass a request to its shard or its handler."""
        if self._broker.quotas.limits and (
            self._over_quota.holds(connection, data, start, end)
            or self._request_time.serves(connection, data, start, end)
        ):
            return
        connection.last_active = self.last_tick
        api_key, version, correlation_id, length = _HEAD.unpack_from(data, start)
        route = self._routes.get(api_key)
        if route is None:
            raise WireError(f"{api_name(api_key)} is not served")
        api, first, last, flexible_from, limit, limited_by, shards = route
        count = self._counted[api_key] = self._counted[api_key] + 1
        if not first <= version <= last:
            self._refuse_version(connection, data[start:end], api)
            return
        if end - start > limit:
            raise WireError(f"{api.key.label} of {end - start} bytes exceeds {limited_by}={limit}")
        if shards is not None and (api_key != _CONSUMER_HEARTBEAT or serves_consumer_groups(self._broker)):
            group = group_of(data, start, end, api_key, version, length, version >= flexible_from)
            if group is not None:
                authorizer = self._broker.authorizer
                edition = authorizer.edition
                if (
                    edition is not None
                    and connection.cleared.get(api_key) is not edition
                    and guard.answers(self._context, authorizer, connection, api, data[start:end], group)
                ):
                    return
                partition = shards.partition_of(group)
                shards.relay(connection, partition, data[start:end], version, api_key, correlation_id)
                if not count & self._masks[api_key]:
                    self._sample(connection, api_key, correlation_id)
                return
        if end - start > _LARGE_BYTES and api_key != _PRODUCE:
            self._handle_in_turn(connection, data[start:end], api)
            return
        begun = self._exact_time() if not count & self._masks[api_key] else None
        self._handle(connection, data[start:end], api)
        if begun is not None:
            self._sample(connection, api_key, correlation_id, begun)

    def _sample(self, connection: Connection, api_key: int, correlation_id: int, begun: float | None = None) -> None:
        """Have the time taken until the answer to the request that came last leaves."""
        since = self._exact_time() if begun is None else begun
        connection.slots.time_last(api_key, correlation_id, partial(self._left, api_key, since))

    def _left(self, api_key: int, since: float) -> None:
        self._counts.latencies[api_key].add(self._exact_time() - since)

    def _refuse_version(self, connection: Connection, frame: bytes, api: Api) -> None:
        """Answer ApiVersions in version 0, so that the client can ask again (KIP-511). Others raise WireError."""
        header = decode_request_header(frame)
        if api.key is not ApiKey.API_VERSIONS:
            served = f"({api.served_from} to {api.last} are)"
            raise WireError(f"{api.key.label} v{header.api_version} is not served {served}")
        slot = connection.slots.open(0, header.api_key, 0, header.correlation_id)
        slot.finish(encode_response(api_versions.unsupported(), 0, header.correlation_id))

    def _handle_in_turn(self, connection: Connection, frame: bytes, api: Api) -> None:
        """Long lists take long to be read, so that one of them is read in a turn of the loop, whoever sends more."""
        connection.hold()

        def handle() -> Iterator[None]:
            if connection.transport is not None:
                try:
                    self._handle(connection, frame, api)
                except WireError as error:
                    connection.close(str(error))
                except Exception:  # a bug: the connection is held, and its client would wait for ever
                    log.exception("%s from %s", api.key.label, connection.peer, extra=about(peer=connection.peer))
                    connection.close("its request could not be handled")
                connection.flush()
                self._loop.call_soon(connection.release)
            yield

        self._broker.turns.begin(handle(), connection, decode_request_header(frame).client_id)

    def _handle(self, connection: Connection, frame: bytes, api: Api) -> None:
        assert api.handle is not None, "a request that is relayed names its group"
        header = decode_request_header(frame)
        version = header.api_version
        try:
            message: Any = api.request.decode(frame, version, header.body_offset, self._entries_max)
        except TooManyEntriesError:
            raise WireError(f"{api.key.label} has more entries than {ENTRIES_LIMIT}={self._entries_max}") from None
        silent = header.api_key == _PRODUCE and message.acks == 0
        slot = None if silent else connection.slots.open(0, header.api_key, version, header.correlation_id)
        request = Request(header, message, connection, slot, self._counts.answered)
        try:
            response = api.handle(self._context, request)
        except Exception:  # a bug of the API's handler: its client is told, and the others are served
            log.exception(
                "%s v%d from %s failed", api.key.label, version, connection.peer, extra=about(peer=connection.peer)
            )
            if api.failed is None:
                connection.close("the request could not be handled")
                return
            response = api.failed(message, version, ErrorCode.UNKNOWN_SERVER_ERROR)
        if response is not None and slot is not None and slot.answer is None:
            self._counts.answered(header.api_key, response)
            slot.finish(encode_large_response(response, version, header.correlation_id))


def group_of(
    data: bytes, start: int, end: int, api_key: int, version: int, length: int, flexible: bool
) -> bytes | None:
    """The group id of a group request, its first field; None if the request names several groups (KIP-709)."""
    try:
        at = start + 10 + max(length, 0)
        if flexible:
            at = at + 1 if data[at] == 0 else skip_tags(data, at)
            if api_key == _OFFSET_FETCH and version >= 8:
                count, at = read_uvarint(data, at)
                if count != 2:  # the length of a compact array is the number of its items plus 1
                    return None
            size = data[at]
            if size < 128:  # nearly all
                at += 1
            else:
                size, at = read_uvarint(data, at)
            size -= 1
        else:
            size = int.from_bytes(data[at : at + 2], "big", signed=True)
            at += 2
    except IndexError as error:
        raise WireError("the request ends within its header") from error
    if size < 0 or at + size > end:
        raise WireError("the group id is null or reaches beyond the request")
    return data[at : at + size]
