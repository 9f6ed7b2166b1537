"""The table of requests: a row for each API that clients may send, with all that has to be known to handle it.

Dispatch, ApiVersions and docs/protocol.md are made of it. The versions are in each handler's module (`VERSIONS`); for
requests of groups these are in `actors.group_api`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any, Final

from actors import group_api as groups
from actors.broker.handlers import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
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
    sasl_authenticate,
    sasl_handshake,
    unregister_broker,
    update_features,
)
from actors.broker.handlers.authorization import guarded
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.group_requests import consumer_groups, offset_fetch, whole_groups
from actors.broker.handlers.rights import (
    ALTER_CLUSTER,
    ALTER_CONFIGS_CLUSTER,
    ALTER_CONFIGS_GROUP,
    ALTER_CONFIGS_TOPIC,
    ALTER_TOPIC,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_GROUP,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS_CLUSTER,
    DESCRIBE_CONFIGS_GROUP,
    DESCRIBE_CONFIGS_TOPIC,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    IDEMPOTENT_WRITE,
    NOTHING,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Right,
)
from actors.coordinator_kinds.groups import GROUPS
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.security.acl import ResourceType
from actors.wire.api_keys import ApiKey
from actors.wire.messages import ApiMessage

Handle = Callable[[HandlerContext, Request], ApiMessage | None]
Failed = Callable[..., ApiMessage]

SOCKET_LIMIT: Final = "socket.request.max.bytes"
GROUP_LIMIT: Final = "coterie.group.request.max.bytes"
ENTRIES_LIMIT: Final = "coterie.request.entries.max"
"""The setting that limits what the broker decodes; shards decode relayed requests."""


class Runs(Enum):
    """The places where requests are handled. The values stand in docs/protocol.md."""

    BROKER = "broker"
    SHARD = "partition actor"
    CONTROLLER = "controller"
    NOWHERE = "refused"


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A key of a kind of coordinator, and the right that a client needs on it."""

    kind: CoordinatorKind
    right: Right


@dataclass(frozen=True, slots=True)
class Api:
    """One API. Versions `first` to `last` are advertised, but those below `served_from` are not served.

    `handle` returns the response, or None if it answers later (`Request.reply`) or never (acks=0). Without it each
    request goes to its key's shard as it came. `failed(message, version, code, text)` is the response that refuses
    a whole request; without it the connection is closed when a handler raises.
    """

    key: ApiKey
    first: int
    last: int
    served_from: int
    runs: Runs
    rights: tuple[Right, ...]
    """The rights that a client may need. The handler knows whether it needs one or all, and on which resource."""
    request: type[ApiMessage]
    handle: Handle | None
    failed: Failed | None
    names: NamedKey | None = None
    """The key that its first field names, if it goes to the key's shard as it came."""
    limit: str = SOCKET_LIMIT
    """The setting that limits its size."""

    def serves(self, version: int) -> bool:
        """True if requests of this version are handled. If not, the connection is closed."""
        return self.served_from <= version <= self.last


_Module = ModuleType | not_served.NotServed
_Needs = Right | tuple[Right, ...]


def _api(module: _Module, runs: Runs, needs: _Needs, handle: Handle | None, failed: Failed | None, **more: Any) -> Api:
    """A row. If a request needs one right, on the cluster, it is refused without it; handlers check other rights."""
    first, last = module.VERSIONS
    served_from = getattr(module, "SERVED_FROM", first)
    rights = (needs,) if isinstance(needs, Right) else needs
    if handle is not None and failed is not None and [right.resource for right in rights] == [ResourceType.CLUSTER]:
        handle = guarded(handle, failed, rights[0])
    return Api(ApiKey(module.API.api_key), first, last, served_from, runs, rights, module.API, handle, failed, **more)


def _own(module: ModuleType, needs: _Needs) -> Api:
    """The broker that is asked answers."""
    return _api(module, Runs.BROKER, needs, module.handle, module.failed)


def _decided(module: ModuleType, needs: _Needs) -> Api:
    """The controller decides; the broker asks it."""
    return _api(module, Runs.CONTROLLER, needs, module.handle, module.failed)


def _relayed(module: ModuleType, needs: _Needs, several: Handle | None = None) -> Api:
    """The group's shard answers; `several` handles a request that names several groups."""
    rights = (needs,) if isinstance(needs, Right) else needs
    group = NamedKey(GROUPS, next(right for right in rights if right.resource is GROUPS.resource))
    return _api(module, Runs.SHARD, needs, several, None, names=group, limit=GROUP_LIMIT)


def _cut(module: ModuleType, needs: _Needs, handle: Handle) -> Api:
    """The shards of several groups answer; the broker cuts the request and merges their answers."""
    return _api(module, Runs.SHARD, needs, handle, None)


def _refused(api: not_served.NotServed, needs: _Needs) -> Api:
    """Nobody serves it: ApiVersions names it, and it is answered UNSUPPORTED_VERSION."""
    return _api(api, Runs.NOWHERE, needs, api.handle, api.failed)


_ROWS = (
    # records
    _own(produce, (WRITE_TOPIC, WRITE_TRANSACTIONAL_ID)),
    _own(fetch, (READ_TOPIC, CLUSTER_ACTION)),
    _own(list_offsets, DESCRIBE_TOPIC),
    _own(offset_for_leader_epoch, (DESCRIBE_TOPIC, CLUSTER_ACTION)),
    _own(delete_records, DELETE_TOPIC),
    _own(init_producer_id, (IDEMPOTENT_WRITE, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID)),
    _own(describe_producers, READ_TOPIC),
    _own(list_transactions, DESCRIBE_TRANSACTIONAL_ID),
    # groups
    _own(find_coordinator, (DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID, CLUSTER_ACTION)),
    _relayed(groups.join_group, READ_GROUP),
    _relayed(groups.sync_group, READ_GROUP),
    _relayed(groups.heartbeat, READ_GROUP),
    _relayed(groups.leave_group, READ_GROUP),
    _relayed(groups.offset_commit, (READ_GROUP, READ_TOPIC)),
    _relayed(groups.offset_fetch, (DESCRIBE_GROUP, DESCRIBE_TOPIC), offset_fetch.handle),
    _relayed(groups.offset_delete, (DELETE_GROUP, READ_TOPIC)),
    _relayed(groups.consumer_group_heartbeat, (READ_GROUP, DESCRIBE_TOPIC), consumer_groups.refuse_heartbeat),
    _cut(groups.describe_groups, DESCRIBE_GROUP, whole_groups.describe_groups),
    _cut(groups.consumer_group_describe, (DESCRIBE_GROUP, DESCRIBE_TOPIC), consumer_groups.describe),
    _cut(groups.list_groups, (DESCRIBE_CLUSTER, DESCRIBE_GROUP), whole_groups.list_groups),
    _cut(groups.delete_groups, DELETE_GROUP, whole_groups.delete_groups),
    # topics
    _own(metadata, (DESCRIBE_TOPIC, CREATE_CLUSTER, CREATE_TOPIC)),
    _own(describe_topic_partitions, DESCRIBE_TOPIC),
    _decided(create_topics, (CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CONFIGS_TOPIC)),
    _decided(delete_topics, (DELETE_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC)),
    _decided(create_partitions, ALTER_TOPIC),
    _decided(elect_leaders, ALTER_CLUSTER),
    _decided(alter_partition_reassignments, ALTER_CLUSTER),
    _own(list_partition_reassignments, DESCRIBE_CLUSTER),
    # settings
    _own(describe_configs, (DESCRIBE_CONFIGS_TOPIC, DESCRIBE_CONFIGS_GROUP, DESCRIBE_CONFIGS_CLUSTER)),
    _decided(alter_configs, (ALTER_CONFIGS_TOPIC, ALTER_CONFIGS_GROUP, ALTER_CONFIGS_CLUSTER)),
    _decided(incremental_alter_configs, (ALTER_CONFIGS_TOPIC, ALTER_CONFIGS_GROUP, ALTER_CONFIGS_CLUSTER)),
    _own(list_config_resources, DESCRIBE_CONFIGS_CLUSTER),
    _own(describe_client_quotas, DESCRIBE_CONFIGS_CLUSTER),
    _decided(alter_client_quotas, ALTER_CONFIGS_CLUSTER),
    # the cluster
    _own(api_versions, NOTHING),
    _own(describe_cluster, NOTHING),
    _decided(describe_quorum, DESCRIBE_CLUSTER),
    _decided(update_features, ALTER_CLUSTER),
    _decided(unregister_broker, ALTER_CLUSTER),
    _own(describe_log_dirs, DESCRIBE_CLUSTER),
    _own(alter_replica_log_dirs, ALTER_CLUSTER),
    _own(describe_acls, DESCRIBE_CLUSTER),
    _decided(create_acls, ALTER_CLUSTER),
    _decided(delete_acls, ALTER_CLUSTER),
    _own(describe_user_scram_credentials, DESCRIBE_CLUSTER),
    _decided(alter_user_scram_credentials, ALTER_CLUSTER),
    _own(sasl_handshake, NOTHING),
    _own(sasl_authenticate, NOTHING),
    _own(get_telemetry_subscriptions, NOTHING),
    # requests that clients look for, and that are not served
    _refused(not_served.SHARE_GROUP_HEARTBEAT, (READ_GROUP, DESCRIBE_TOPIC)),
    _refused(not_served.SHARE_GROUP_DESCRIBE, (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    _refused(not_served.SHARE_FETCH, (READ_GROUP, READ_TOPIC)),
    _refused(not_served.SHARE_ACKNOWLEDGE, (READ_GROUP, READ_TOPIC)),
    _refused(not_served.DESCRIBE_SHARE_GROUP_OFFSETS, (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    _refused(not_served.ALTER_SHARE_GROUP_OFFSETS, (READ_GROUP, READ_TOPIC)),
    _refused(not_served.DELETE_SHARE_GROUP_OFFSETS, (DELETE_GROUP, READ_TOPIC)),
)

APIS: Final[dict[int, Api]] = {api.key: api for api in sorted(_ROWS, key=lambda api: api.key)}
"""The table, by API key."""

ADVERTISED: Final = {int(key): (api.first, api.last) for key, api in APIS.items()}
"""The content of ApiVersions: first and last version by API key, in order."""
