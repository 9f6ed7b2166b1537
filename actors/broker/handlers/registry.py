"""The table of what this broker serves: API key -> versions, handler, error answer. ApiVersions is made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from actors import group_api as groups
from actors.broker.context import BrokerContext, Request
from actors.broker.handlers import (
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_user_scram_credentials,
    elect_leaders,
    fetch,
    find_coordinator,
    get_telemetry_subscriptions,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    not_served,
    offset_for_leader_epoch,
    produce,
    update_features,
)
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage


@dataclass(frozen=True, slots=True)
class Handler:
    """One API. Versions `first` to `last` are advertised, those below `served_from` not served all the same.

    `handle` returns the response, or None if it answers later (`Request.reply`) or never (acks=0).
    `failed(message, version, code, text)` is the response that refuses a whole request.
    """

    api_key: int
    first: int
    last: int
    served_from: int
    request: type[ApiMessage]
    handle: Callable[[BrokerContext, Request], ApiMessage | None]
    failed: Callable[..., ApiMessage]

    def serves(self, version: int) -> bool:
        """Whether requests of this version can be handled; a connection that sends another is closed."""
        return self.served_from <= version <= self.last


def _handler(module: ModuleType | not_served.NotServed) -> Handler:
    first, last = module.VERSIONS
    served_from = getattr(module, "SERVED_FROM", first)
    return Handler(module.API.api_key, first, last, served_from, module.API, module.handle, module.failed)


HANDLERS: dict[int, Handler] = {
    module.API.api_key: _handler(module)
    for module in (
        produce,
        fetch,
        list_offsets,
        metadata,
        find_coordinator,
        api_versions,
        create_topics,
        delete_topics,
        create_partitions,
        delete_records,
        describe_configs,
        alter_configs,
        incremental_alter_configs,
        describe_cluster,
        init_producer_id,
        offset_for_leader_epoch,
        elect_leaders,
        alter_partition_reassignments,
        list_partition_reassignments,
        alter_replica_log_dirs,
        describe_acls,
        describe_client_quotas,
        describe_log_dirs,
        describe_producers,
        describe_quorum,
        describe_topic_partitions,
        describe_user_scram_credentials,
        get_telemetry_subscriptions,
        list_config_resources,
        list_transactions,
        update_features,
        *not_served.APIS,
    )
}

# What offsets partitions answer: (first, last) by API key.
SHARD_APIS: dict[int, tuple[int, int]] = groups.VERSIONS

api_versions.ADVERTISED.update(SHARD_APIS)
api_versions.ADVERTISED.update((key, (handler.first, handler.last)) for key, handler in HANDLERS.items())


def error_response(message: Any, version: int, code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> ApiMessage:
    """What a request of ours is answered with when its handler raised: a bug then costs that request alone."""
    return HANDLERS[message.api_key].failed(message, version, code, None)
