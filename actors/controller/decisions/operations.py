"""The table of operations that brokers ask for, each with the function that decides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from actors.controller.decisions.acls import create_acls, delete_acls
from actors.controller.decisions.configs import alter_configs
from actors.controller.decisions.decision import Decision, NewId
from actors.controller.decisions.elections import alter_partitions, leave, replica_torn
from actors.controller.decisions.producer_ids import allocate_producer_ids
from actors.controller.decisions.quotas import alter_quotas
from actors.controller.decisions.reassignments import alter_reassignments, elect_leaders
from actors.controller.decisions.removal import unregister_broker
from actors.controller.decisions.state_partitions import create_state_partition
from actors.controller.decisions.topics import create_offsets_topic, create_partitions, create_topics, delete_topics
from actors.controller.decisions.users import alter_scram
from actors.links.acl_operations import CreateAcls, DeleteAcls
from actors.links.operations import (
    AllocateProducerIds,
    AlterConfigs,
    AlterPartitions,
    AlterReassignments,
    AlterScram,
    BrokerLeaving,
    CreateOffsetsTopic,
    CreatePartitions,
    CreateStatePartition,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    Operation,
    ReplicaTorn,
    Result,
    UnregisterBroker,
)
from actors.links.quota_operations import AlterQuotas
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata

Decide: TypeAlias = Callable[[ClusterMetadata, BrokerConfig, Any, NewId], Decision]
"""Takes an operation of the class that it is entered for."""

OPERATIONS: Final[Mapping[type[Operation[Result]], Decide]] = {
    CreateTopics: create_topics,
    DeleteTopics: delete_topics,
    CreatePartitions: create_partitions,
    CreateOffsetsTopic: create_offsets_topic,
    AlterConfigs: alter_configs,
    AlterPartitions: alter_partitions,
    ReplicaTorn: replica_torn,
    BrokerLeaving: leave,
    AlterReassignments: alter_reassignments,
    ElectLeaders: elect_leaders,
    AllocateProducerIds: allocate_producer_ids,
    CreateAcls: create_acls,
    DeleteAcls: delete_acls,
    AlterScram: alter_scram,
    AlterQuotas: alter_quotas,
    CreateStatePartition: create_state_partition,
    UnregisterBroker: unregister_broker,
}


def decide(metadata: ClusterMetadata, config: BrokerConfig, operation: Operation[Result], new_id: NewId) -> Decision:
    """Decide one operation. Raises RefusedError if all of it is refused; any other exception is a bug."""
    return OPERATIONS[type(operation)](metadata, config, operation, new_id)
