"""Coterie: Kafka's consumer groups on Ray. The public names of the package, in one place.

    import coterie

    with coterie.Cluster.start(brokers=3) as cluster:
        with coterie.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([coterie.NewTopic("orders", num_partitions=12)])

A name is imported when it is first used (PEP 562): a program that only produces imports neither Ray nor Spark.
`coterie.spark` is the package for Spark jobs, `coterie.errors` has all errors of the clients, and `coterie.testing`
starts a Kafka for a test.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import spark_bridge as spark
    from actors import CoterieError, __version__
    from actors.client import (
        Admin,
        BatchMetadata,
        Consumer,
        ConsumerGroupMetadata,
        ConsumerRebalanceListener,
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        Producer,
        RecordMetadata,
        TopicPartition,
        errors,
    )
    from actors.client.admin.types import ConfigResource, NewTopic, QuotaEntity
    from actors.client.consumer.ranges import RangeReader
    from actors.client.errors import KafkaError
    from actors.client.records import OffsetRange
    from actors.cluster import Cluster, ClusterError
    from actors.members.autoscale import Autoscale
    from actors.members.deployment.deployed import DeployedPool
    from actors.members.deployment.description import PoolDescription, PoolState, RolloutStatus
    from actors.members.logs.journal import MemberLine
    from actors.members.pool import ConsumerPool, PoolError, SizeChange
    from actors.members.pools.handling.context import Context
    from actors.members.pools.status import MemberStatus
    from actors.members.ranges.ray_data import GroupRead, read_group
    from actors.members.ranges.ray_follow import BatchNotReadError, GroupFollow
    from actors.security.acl import Acl, AclFilter, AclOperation, PatternType, PermissionType, ResourceType
    from actors.wire.config_resources import ConfigResourceType
    from coterie import testing
    from spark_bridge import (
        Batch,
        BatchRange,
        GroupQuery,
        GroupStream,
        OnceFiles,
        OnceTable,
        lag,
        offsets_history,
        read_topic,
        summarise_groups,
        write_topic,
    )

__all__ = [
    "Acl",
    "AclFilter",
    "AclOperation",
    "Admin",
    "Autoscale",
    "Batch",
    "BatchMetadata",
    "BatchNotReadError",
    "BatchRange",
    "Cluster",
    "ClusterError",
    "ConfigResource",
    "ConfigResourceType",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerPool",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "Context",
    "CoterieError",
    "DeployedPool",
    "GroupFollow",
    "GroupQuery",
    "GroupRead",
    "GroupStream",
    "KafkaError",
    "MemberLine",
    "MemberStatus",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetRange",
    "OnceFiles",
    "OnceTable",
    "PatternType",
    "PermissionType",
    "PoolDescription",
    "PoolError",
    "PoolState",
    "Producer",
    "QuotaEntity",
    "RangeReader",
    "RecordMetadata",
    "ResourceType",
    "RolloutStatus",
    "SizeChange",
    "TopicPartition",
    "__version__",
    "errors",
    "lag",
    "offsets_history",
    "read_group",
    "read_topic",
    "spark",
    "summarise_groups",
    "testing",
    "write_topic",
]

_HOMES = {
    "actors": ["CoterieError", "__version__"],
    "actors.client": [
        "Admin",
        "BatchMetadata",
        "Consumer",
        "ConsumerGroupMetadata",
        "ConsumerRebalanceListener",
        "ConsumerRecord",
        "OffsetAndMetadata",
        "OffsetAndTimestamp",
        "Producer",
        "RecordMetadata",
        "TopicPartition",
    ],
    "actors.client.admin.types": ["ConfigResource", "NewTopic", "QuotaEntity"],
    "actors.client.consumer.ranges": ["RangeReader"],
    "actors.client.errors": ["KafkaError"],
    "actors.client.records": ["OffsetRange"],
    "actors.cluster": ["Cluster", "ClusterError"],
    "actors.members.autoscale": ["Autoscale"],
    "actors.members.deployment.deployed": ["DeployedPool"],
    "actors.members.deployment.description": ["PoolDescription", "PoolState", "RolloutStatus"],
    "actors.members.logs.journal": ["MemberLine"],
    "actors.members.pool": ["ConsumerPool", "PoolError", "SizeChange"],
    "actors.members.pools.handling.context": ["Context"],
    "actors.members.ranges.ray_data": ["GroupRead", "read_group"],
    "actors.members.ranges.ray_follow": ["BatchNotReadError", "GroupFollow"],
    "actors.members.pools.status": ["MemberStatus"],
    "actors.security.acl": [
        "Acl",
        "AclFilter",
        "AclOperation",
        "PatternType",
        "PermissionType",
        "ResourceType",
    ],
    "actors.wire.config_resources": ["ConfigResourceType"],
    "spark_bridge": [
        "Batch",
        "BatchRange",
        "GroupQuery",
        "GroupStream",
        "OnceFiles",
        "OnceTable",
        "lag",
        "offsets_history",
        "read_topic",
        "summarise_groups",
        "write_topic",
    ],
}
_MODULES = {"errors": "actors.client.errors", "spark": "spark_bridge", "testing": "coterie.testing"}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
