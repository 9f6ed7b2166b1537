"""The rights that requests need, as requests and the codes of their answers: a row for each thing that may be asked.

A row of `ROWS` has a request, and the codes of its answer by the rights that the client has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from actors.broker.handlers import rights
from actors.broker.handlers.registry import APIS
from actors.broker.handlers.rights import Right
from actors.security.acl import CLUSTER_NAME, Acl, AclOperation, ResourceType
from actors.wire import messages as m
from actors.wire.api_keys import ApiKey as Key
from actors.wire.codec import Message
from tests.support.acl_world import name_id
from tests.support.acls import allowed
from tests.support.log_helpers import values

NONE, UNKNOWN_TOPIC, INVALID_REQUEST = 0, 3, 42
TOPIC, GROUP, CLUSTER, TRANSACTION, UNKNOWN_ID = 29, 30, 31, 53, 100
DENIALS = {TOPIC, GROUP, CLUSTER, TRANSACTION}
PASSES = "passes"
"""Answered, or passed on, without any denial."""

Has: TypeAlias = frozenset[str]
"""The rights a client has, those that follow from others included: `READ Topic`."""
Codes: TypeAlias = list[int] | str

ALL = {str(right): right for right in vars(rights).values() if isinstance(right, Right)}
NAMES = {
    ResourceType.TOPIC: "t",
    ResourceType.GROUP: "g",
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: "x",
}
_DESCRIBERS = (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)


def acl(right: Right) -> Acl:
    return allowed(right.operation, right.resource, NAMES[right.resource])


def with_what_follows(right: Right) -> Has:
    has = {str(right)}
    if right.operation in _DESCRIBERS:
        has.add(f"DESCRIBE {right.resource.label}")
    if right.operation is AclOperation.ALTER_CONFIGS:
        has.add(f"DESCRIBE_CONFIGS {right.resource.label}")
    return frozenset(has)


@dataclass(frozen=True)
class Row:
    """`request(version)` is the request; `codes(has, version, exists)` are all error codes of its answer, in order."""

    key: Key
    request: Callable[[int], Any]
    codes: Callable[[Has, int, bool], Codes]
    versions: range | None = None
    hides: bool = True
    """True if a denial must be the same whether the resource exists or not. Ids are no secret."""

    def each(self) -> range:
        api = APIS[self.key]
        return self.versions or range(api.served_from, api.last + 1)


def error_codes(message: Any, *, inner: bool = False) -> list[int]:
    """All error codes of an answer, from its beginning to its end. NONE for the whole answer is left out."""
    found: list[int] = []
    for field in message.__slots__:
        value = getattr(message, field)
        if field == "error_code" and (inner or value):
            found.append(value)
        elif isinstance(value, Message):
            found += error_codes(value, inner=True)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Message):
                    found += error_codes(each, inner=True)
    return found


def topic_right(right: str, *, by_id_from: int = 99) -> Any:
    """The codes of a request that needs one right on the topic."""

    def codes(has: Has, version: int, there: bool) -> Codes:
        if not there and version >= by_id_from:
            return [UNKNOWN_ID]
        if right not in has:
            return [TOPIC]
        return [NONE if there else UNKNOWN_TOPIC]

    return codes


def cluster_right(right: str, *denied: int) -> Any:
    return lambda has, version, there: PASSES if right in has else list(denied)


def group_right(right: str) -> Any:
    return lambda has, version, there: PASSES if right in has else [GROUP]


def nothing(has: Has, version: int, there: bool) -> Codes:
    return PASSES


# --- requests ---


def t(version: int, by_id_from: int, make: Callable[..., Any], **fields: Any) -> Any:
    name = "topic" if "topic" in make.__slots__ else "name"  # type: ignore[attr-defined]
    if version >= by_id_from:
        return make(topic_id=name_id("t"), **fields)
    return make(**{name: "t"}, **fields)


def produce(version: int) -> Any:
    part = m.ProduceRequest.PartitionProduceData(records=values(b"v"))
    return m.ProduceRequest(
        acks=1, topic_data=[t(version, 13, m.ProduceRequest.TopicProduceData, partition_data=[part])]
    )


def transactional_produce(version: int) -> Any:
    request = produce(version)
    request.transactional_id = "x"
    return request


def fetch(version: int, replica: int = -1) -> Any:
    part = m.FetchRequest.FetchPartition(partition_max_bytes=1000, current_leader_epoch=-1, last_fetched_epoch=-1)
    return m.FetchRequest(
        replica_id=replica if version < 15 else -1,
        replica_state=m.FetchRequest.ReplicaState(replica_id=replica),
        max_bytes=1000,
        session_epoch=-1,
        topics=[t(version, 13, m.FetchRequest.FetchTopic, partitions=[part])],
    )


fetched = topic_right("READ Topic", by_id_from=13)


def follower(version: int) -> Any:
    return fetch(version, replica=1)


def follower_fetch(has: Has, version: int, there: bool) -> Codes:
    if "CLUSTER_ACTION Cluster" not in has:
        return [TOPIC]
    codes: Codes = fetched(has, version, there)
    return codes


def list_offsets(version: int) -> Any:
    part = m.ListOffsetsRequest.ListOffsetsPartition(timestamp=-1, current_leader_epoch=-1)
    return m.ListOffsetsRequest(topics=[m.ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[part])])


def metadata(version: int) -> Any:
    return m.MetadataRequest(topics=[m.MetadataRequest.MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)


def metadata_codes(has: Has, version: int, there: bool) -> Codes:
    if "DESCRIBE Topic" not in has:
        return [TOPIC]
    return [NONE, NONE] if there else [UNKNOWN_TOPIC]


def metadata_by_id(version: int) -> Any:
    return m.MetadataRequest(topics=[m.MetadataRequest.MetadataRequestTopic(name=None, topic_id=name_id("t"))])


def metadata_by_id_codes(has: Has, version: int, there: bool) -> Codes:
    return metadata_codes(has, version, there) if there else [UNKNOWN_ID]


def offset_commit(version: int) -> Any:
    part = m.OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=5)
    topic = t(version, 10, m.OffsetCommitRequest.OffsetCommitRequestTopic, partitions=[part])
    return m.OffsetCommitRequest(group_id="g", topics=[topic])


def commit_codes(has: Has, version: int, there: bool) -> Codes:
    if "READ Group" not in has:
        return [GROUP]
    if version >= 10 and not there:
        return [UNKNOWN_ID]
    return PASSES if "READ Topic" in has else [TOPIC]


def offset_fetch(version: int) -> Any:
    r = m.OffsetFetchRequest
    if version < 8:
        return r(group_id="g", topics=[r.OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
    topic = t(version, 10, r.OffsetFetchRequestTopics, partition_indexes=[0])
    return r(groups=[r.OffsetFetchRequestGroup(group_id="g", topics=[topic])])


def offset_fetch_of_two(version: int) -> Any:
    request = offset_fetch(version)
    request.groups.append(m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="nobody's", topics=None))
    return request


def offset_fetch_codes(has: Has, version: int, there: bool) -> Codes:
    if "DESCRIBE Group" not in has:
        return [GROUP]
    if version >= 10 and not there:
        code = UNKNOWN_ID
    elif "DESCRIBE Topic" in has:
        return PASSES
    else:
        code = TOPIC
    return [code, NONE] if version >= 8 else [code]


def of_two_codes(has: Has, version: int, there: bool) -> Codes:
    codes = offset_fetch_codes(has, version, there)
    mine = [NONE, NONE] if codes == PASSES else list(codes)  # type: ignore[arg-type]
    return [*mine, GROUP]


def find(key_type: int, key: str) -> Callable[[int], Any]:
    def request(version: int) -> Any:
        if version >= 4:
            return m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        return m.FindCoordinatorRequest(key_type=key_type, key=key)

    return request


def find_codes(right: str, denied: int, otherwise: Codes) -> Any:
    def codes(has: Has, version: int, there: bool) -> Codes:
        return otherwise if right in has else [denied]

    return codes


def join(version: int) -> Any:
    protocol = m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    return m.JoinGroupRequest(group_id="g", member_id="mine", protocol_type="consumer", protocols=[protocol])


def create_topics(version: int) -> Any:
    topic = m.CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    return m.CreateTopicsRequest(topics=[topic])


def create_codes(has: Has, version: int, there: bool) -> Codes:
    if not has & {"CREATE Topic", "CREATE Cluster"}:
        return [TOPIC]
    return [36 if there else NONE]


def delete_topics(version: int) -> Any:
    r = m.DeleteTopicsRequest
    if version >= 6:
        return r(topics=[r.DeleteTopicState(name="t")], timeout_ms=30_000)
    return r(topic_names=["t"], timeout_ms=30_000)


def delete_topics_codes(has: Has, version: int, there: bool) -> Codes:
    if "DESCRIBE Topic" not in has:
        return [TOPIC]
    if not there:
        return [UNKNOWN_TOPIC]
    return [NONE if "DELETE Topic" in has else TOPIC]


def delete_by_id(version: int) -> Any:
    r = m.DeleteTopicsRequest
    return r(topics=[r.DeleteTopicState(name=None, topic_id=name_id("t"))])


def delete_by_id_codes(has: Has, version: int, there: bool) -> Codes:
    if not there:
        return [UNKNOWN_ID]
    return [NONE if has & {"DELETE Topic", "DELETE Cluster"} else TOPIC]


def delete_records(version: int) -> Any:
    r = m.DeleteRecordsRequest
    part = r.DeleteRecordsPartition(partition_index=0, offset=-1)
    return r(topics=[r.DeleteRecordsTopic(name="t", partitions=[part])])


def describe_users(version: int) -> Any:
    return m.DescribeUserScramCredentialsRequest(users=None)


def alter_users(version: int) -> Any:
    r = m.AlterUserScramCredentialsRequest
    return r(
        deletions=[r.ScramCredentialDeletion(name="b", mechanism=1)],
        upsertions=[
            r.ScramCredentialUpsertion(name="a", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"p" * 32)
        ],
    )


def alter_quotas(version: int) -> Any:
    r = m.AlterClientQuotasRequest
    entity = [r.EntityData(entity_type="user", entity_name="a")]
    return r(entries=[r.EntryData(entity=entity, ops=[r.OpData(key="producer_byte_rate", value=1.0, remove=False)])])


def init_producer_id(version: int) -> Any:
    return m.InitProducerIdRequest(transactional_id=None)


def init_codes(has: Has, version: int, there: bool) -> Codes:
    return PASSES if has & {"IDEMPOTENT_WRITE Cluster", "WRITE Topic"} else [CLUSTER]


def for_leader_epoch(version: int) -> Any:
    r = m.OffsetForLeaderEpochRequest
    part = r.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    return r(topics=[r.OffsetForLeaderTopic(topic="t", partitions=[part])])


def for_leader_epoch_codes(has: Has, version: int, there: bool) -> Codes:
    if not has & {"DESCRIBE Topic", "CLUSTER_ACTION Cluster"}:
        return [TOPIC]
    return [NONE if there else UNKNOWN_TOPIC]


def create_acls(version: int) -> Any:
    made = m.CreateAclsRequest.AclCreation(
        resource_type=2,
        resource_name="new",
        resource_pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    return m.CreateAclsRequest(creations=[made, made])


def delete_acls(version: int) -> Any:
    wanted = m.DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter="User:nobody",
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return m.DeleteAclsRequest(filters=[wanted])


def describe_acls(version: int) -> Any:
    return m.DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)


def describe_configs(kind: int, name: str) -> Any:
    r = m.DescribeConfigsRequest
    return lambda version: r(resources=[r.DescribeConfigsResource(resource_type=kind, resource_name=name)])


def alter_configs(kind: int, name: str, *, validate_only: bool = False) -> Any:
    r = m.AlterConfigsRequest
    return lambda version: r(
        resources=[r.AlterConfigsResource(resource_type=kind, resource_name=name)], validate_only=validate_only
    )


def incremental(kind: int, name: str, *, validate_only: bool = False) -> Any:
    r = m.IncrementalAlterConfigsRequest
    return lambda version: r(
        resources=[r.AlterConfigsResource(resource_type=kind, resource_name=name)], validate_only=validate_only
    )


def create_partitions(version: int) -> Any:
    r = m.CreatePartitionsRequest
    return r(topics=[r.CreatePartitionsTopic(name="t", count=2, assignments=None)])


def elect(version: int) -> Any:
    return m.ElectLeadersRequest(topic_partitions=[m.ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])])


def elect_codes(has: Has, version: int, there: bool) -> Codes:
    if "ALTER Cluster" in has:
        return PASSES
    return [CLUSTER, CLUSTER] if version >= 1 else [CLUSTER]


def reassign(version: int) -> Any:
    r = m.AlterPartitionReassignmentsRequest
    part = r.ReassignablePartition(partition_index=0, replicas=[0])
    return r(topics=[r.ReassignableTopic(name="t", partitions=[part])])


def offset_delete(version: int) -> Any:
    r = m.OffsetDeleteRequest
    part = r.OffsetDeleteRequestPartition(partition_index=0)
    return r(group_id="g", topics=[r.OffsetDeleteRequestTopic(name="t", partitions=[part])])


def offset_delete_codes(has: Has, version: int, there: bool) -> Codes:
    if "DELETE Group" not in has:
        return [GROUP]
    return PASSES if "READ Topic" in has else [TOPIC]


def log_dirs_codes(has: Has, version: int, there: bool) -> Codes:
    if "DESCRIBE Cluster" in has:
        return PASSES
    return [CLUSTER] if version >= 3 else []


def alter_log_dirs(version: int) -> Any:
    r = m.AlterReplicaLogDirsRequest
    topic = r.AlterReplicaLogDirTopic(name="t", partitions=[0])
    return r(dirs=[r.AlterReplicaLogDir(path="/else", topics=[topic])])


def quorum(version: int) -> Any:
    r = m.DescribeQuorumRequest
    return r(topics=[r.TopicData(topic_name="t", partitions=[r.PartitionData(partition_index=0)])])


def update_features(version: int) -> Any:
    return m.UpdateFeaturesRequest(
        feature_updates=[m.UpdateFeaturesRequest.FeatureUpdateKey(feature="kraft.version", max_version_level=0)]
    )


def describe_producers(version: int) -> Any:
    r = m.DescribeProducersRequest
    return r(topics=[r.TopicRequest(name="t", partition_indexes=[0])])


def topic_partitions(version: int) -> Any:
    r = m.DescribeTopicPartitionsRequest
    return r(topics=[r.TopicRequest(name="t")], response_partition_limit=10)


def topic_partitions_codes(has: Has, version: int, there: bool) -> Codes:
    if "DESCRIBE Topic" not in has:
        return [TOPIC]
    return [NONE, NONE] if there else [UNKNOWN_TOPIC]


def sync(version: int) -> Any:
    return m.SyncGroupRequest(group_id="g", member_id="mine", protocol_type="consumer", protocol_name="range")


def consumer_heartbeat(*names: str) -> Callable[[int], Any]:
    """The heartbeat of a member that names these topics, or none."""
    return lambda version: m.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="mine", member_epoch=3, subscribed_topic_names=list(names) or None
    )


def heartbeat_codes(has: Has, version: int, there: bool) -> Codes:
    if "READ Group" not in has:
        return [GROUP]
    return PASSES if "DESCRIBE Topic" in has else [TOPIC]


NOT_SERVED = [
    Row(Key(key), lambda version, request=APIS[key].request: request(), lambda *_: PASSES, hides=False)  # type: ignore[misc]
    for key in (76, 77, 78, 79, 90, 91, 92)
]
ROWS = [
    Row(Key.PRODUCE, produce, topic_right("WRITE Topic", by_id_from=13)),
    Row(Key.PRODUCE, transactional_produce, lambda *_: [TRANSACTION]),
    Row(Key.FETCH, fetch, fetched),
    Row(Key.FETCH, follower, follower_fetch, hides=False),
    Row(Key.LIST_OFFSETS, list_offsets, topic_right("DESCRIBE Topic")),
    Row(Key.METADATA, metadata, metadata_codes),
    Row(Key.METADATA, metadata_by_id, metadata_by_id_codes, versions=range(12, 14)),
    Row(Key.OFFSET_COMMIT, offset_commit, commit_codes),
    Row(Key.OFFSET_FETCH, offset_fetch, offset_fetch_codes),
    Row(Key.OFFSET_FETCH, offset_fetch_of_two, of_two_codes, versions=range(8, 11)),
    Row(Key.FIND_COORDINATOR, find(0, "g"), find_codes("DESCRIBE Group", GROUP, PASSES)),
    Row(
        Key.FIND_COORDINATOR,
        find(1, "x"),
        find_codes("DESCRIBE TransactionalId", TRANSACTION, [TRANSACTION]),
        range(1, 7),
    ),
    Row(
        Key.FIND_COORDINATOR,
        find(2, "g"),
        find_codes("CLUSTER_ACTION Cluster", CLUSTER, [INVALID_REQUEST]),
        range(1, 7),
    ),
    Row(Key.JOIN_GROUP, join, group_right("READ Group")),
    Row(Key.HEARTBEAT, lambda _: m.HeartbeatRequest(group_id="g"), group_right("READ Group")),
    Row(Key.LEAVE_GROUP, lambda _: m.LeaveGroupRequest(group_id="g"), group_right("READ Group")),
    Row(Key.SYNC_GROUP, sync, group_right("READ Group")),
    Row(Key.DESCRIBE_GROUPS, lambda _: m.DescribeGroupsRequest(groups=["g"]), group_right("DESCRIBE Group")),
    Row(Key.LIST_GROUPS, lambda _: m.ListGroupsRequest(), nothing),
    Row(
        Key.API_VERSIONS, lambda _: m.ApiVersionsRequest(client_software_name="a", client_software_version="1"), nothing
    ),
    Row(Key.CREATE_TOPICS, create_topics, create_codes),
    Row(Key.DELETE_TOPICS, delete_topics, delete_topics_codes),
    Row(Key.DELETE_TOPICS, delete_by_id, delete_by_id_codes, versions=range(6, 7)),
    Row(Key.DELETE_RECORDS, delete_records, topic_right("DELETE Topic")),
    Row(Key.INIT_PRODUCER_ID, init_producer_id, init_codes),
    Row(Key.INIT_PRODUCER_ID, lambda _: m.InitProducerIdRequest(transactional_id="x"), lambda *_: [TRANSACTION]),
    Row(Key.OFFSET_FOR_LEADER_EPOCH, for_leader_epoch, for_leader_epoch_codes),
    Row(Key.DESCRIBE_ACLS, describe_acls, cluster_right("DESCRIBE Cluster", CLUSTER)),
    Row(Key.CREATE_ACLS, create_acls, cluster_right("ALTER Cluster", CLUSTER, CLUSTER)),
    Row(Key.DELETE_ACLS, delete_acls, cluster_right("ALTER Cluster", CLUSTER)),
    Row(Key.DESCRIBE_CONFIGS, describe_configs(2, "t"), topic_right("DESCRIBE_CONFIGS Topic")),
    Row(Key.DESCRIBE_CONFIGS, describe_configs(32, "g"), group_right("DESCRIBE_CONFIGS Group")),
    *(
        Row(Key.DESCRIBE_CONFIGS, describe_configs(kind, "0"), cluster_right("DESCRIBE_CONFIGS Cluster", CLUSTER))
        for kind in (4, 8, 16)
    ),
    Row(Key.ALTER_CONFIGS, alter_configs(2, "t"), topic_right("ALTER_CONFIGS Topic")),
    Row(Key.ALTER_CONFIGS, alter_configs(2, "t", validate_only=True), topic_right("ALTER_CONFIGS Topic")),
    Row(Key.ALTER_CONFIGS, alter_configs(32, "g"), group_right("ALTER_CONFIGS Group")),
    Row(Key.ALTER_CONFIGS, alter_configs(4, ""), cluster_right("ALTER_CONFIGS Cluster", CLUSTER)),
    Row(Key.INCREMENTAL_ALTER_CONFIGS, incremental(2, "t"), topic_right("ALTER_CONFIGS Topic")),
    Row(Key.INCREMENTAL_ALTER_CONFIGS, incremental(2, "t", validate_only=True), topic_right("ALTER_CONFIGS Topic")),
    Row(Key.INCREMENTAL_ALTER_CONFIGS, incremental(32, "g"), group_right("ALTER_CONFIGS Group")),
    Row(Key.INCREMENTAL_ALTER_CONFIGS, incremental(4, ""), cluster_right("ALTER_CONFIGS Cluster", CLUSTER)),
    Row(Key.ALTER_REPLICA_LOG_DIRS, alter_log_dirs, cluster_right("ALTER Cluster", CLUSTER)),
    Row(Key.DESCRIBE_LOG_DIRS, lambda _: m.DescribeLogDirsRequest(topics=None), log_dirs_codes),
    Row(Key.CREATE_PARTITIONS, create_partitions, topic_right("ALTER Topic")),
    Row(Key.DELETE_GROUPS, lambda _: m.DeleteGroupsRequest(groups_names=["g"]), group_right("DELETE Group")),
    Row(Key.ELECT_LEADERS, elect, elect_codes),
    Row(Key.ALTER_PARTITION_REASSIGNMENTS, reassign, cluster_right("ALTER Cluster", CLUSTER, CLUSTER)),
    Row(
        Key.LIST_PARTITION_REASSIGNMENTS,
        lambda _: m.ListPartitionReassignmentsRequest(topics=None),
        cluster_right("DESCRIBE Cluster", CLUSTER),
    ),
    Row(Key.OFFSET_DELETE, offset_delete, offset_delete_codes),
    Row(
        Key.DESCRIBE_CLIENT_QUOTAS,
        lambda _: m.DescribeClientQuotasRequest(),
        cluster_right("DESCRIBE_CONFIGS Cluster", CLUSTER),
    ),
    Row(Key.ALTER_CLIENT_QUOTAS, alter_quotas, cluster_right("ALTER_CONFIGS Cluster", CLUSTER)),
    Row(
        Key.DESCRIBE_USER_SCRAM_CREDENTIALS,
        describe_users,
        cluster_right("DESCRIBE Cluster", CLUSTER),
    ),
    Row(Key.ALTER_USER_SCRAM_CREDENTIALS, alter_users, cluster_right("ALTER Cluster", CLUSTER, CLUSTER)),
    Row(Key.SASL_HANDSHAKE, lambda _: m.SaslHandshakeRequest(mechanism="PLAIN"), nothing),
    Row(Key.SASL_AUTHENTICATE, lambda _: m.SaslAuthenticateRequest(auth_bytes=b""), nothing),
    Row(Key.DESCRIBE_QUORUM, quorum, cluster_right("DESCRIBE Cluster", CLUSTER)),
    Row(Key.UPDATE_FEATURES, update_features, cluster_right("ALTER Cluster", CLUSTER)),
    Row(
        Key.UNREGISTER_BROKER,
        lambda _: m.UnregisterBrokerRequest(broker_id=7),
        cluster_right("ALTER Cluster", CLUSTER),
    ),
    Row(Key.DESCRIBE_CLUSTER, lambda _: m.DescribeClusterRequest(endpoint_type=1), nothing),
    Row(Key.DESCRIBE_PRODUCERS, describe_producers, topic_right("READ Topic")),
    Row(Key.LIST_TRANSACTIONS, lambda _: m.ListTransactionsRequest(), nothing),
    Row(Key.GET_TELEMETRY_SUBSCRIPTIONS, lambda _: m.GetTelemetrySubscriptionsRequest(), nothing),
    Row(
        Key.LIST_CONFIG_RESOURCES,
        lambda _: m.ListConfigResourcesRequest(resource_types=[]),
        cluster_right("DESCRIBE_CONFIGS Cluster", CLUSTER),
    ),
    Row(Key.DESCRIBE_TOPIC_PARTITIONS, topic_partitions, topic_partitions_codes),
    Row(Key.CONSUMER_GROUP_HEARTBEAT, consumer_heartbeat(), group_right("READ Group")),
    Row(Key.CONSUMER_GROUP_HEARTBEAT, consumer_heartbeat("t"), heartbeat_codes),
    Row(
        Key.CONSUMER_GROUP_DESCRIBE,
        lambda _: m.ConsumerGroupDescribeRequest(group_ids=["g"]),
        group_right("DESCRIBE Group"),
    ),
    *NOT_SERVED,
]
