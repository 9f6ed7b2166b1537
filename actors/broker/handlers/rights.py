"""The rights that requests need, by the names in Kafka's page on ACLs. `authorization` checks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actors.security.acl import AclOperation, ResourceType


@dataclass(frozen=True, slots=True)
class Right:
    """An operation on a kind of resource."""

    operation: AclOperation
    resource: ResourceType

    def __str__(self) -> str:
        """The operation and the resource: `READ Group`."""
        return f"{self.operation.name} {self.resource.label}"


READ_TOPIC: Final = Right(AclOperation.READ, ResourceType.TOPIC)
WRITE_TOPIC: Final = Right(AclOperation.WRITE, ResourceType.TOPIC)
CREATE_TOPIC: Final = Right(AclOperation.CREATE, ResourceType.TOPIC)
DELETE_TOPIC: Final = Right(AclOperation.DELETE, ResourceType.TOPIC)
ALTER_TOPIC: Final = Right(AclOperation.ALTER, ResourceType.TOPIC)
DESCRIBE_TOPIC: Final = Right(AclOperation.DESCRIBE, ResourceType.TOPIC)
DESCRIBE_CONFIGS_TOPIC: Final = Right(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC)
ALTER_CONFIGS_TOPIC: Final = Right(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC)

READ_GROUP: Final = Right(AclOperation.READ, ResourceType.GROUP)
DELETE_GROUP: Final = Right(AclOperation.DELETE, ResourceType.GROUP)
DESCRIBE_GROUP: Final = Right(AclOperation.DESCRIBE, ResourceType.GROUP)
DESCRIBE_CONFIGS_GROUP: Final = Right(AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP)
ALTER_CONFIGS_GROUP: Final = Right(AclOperation.ALTER_CONFIGS, ResourceType.GROUP)

CREATE_CLUSTER: Final = Right(AclOperation.CREATE, ResourceType.CLUSTER)
DELETE_CLUSTER: Final = Right(AclOperation.DELETE, ResourceType.CLUSTER)
ALTER_CLUSTER: Final = Right(AclOperation.ALTER, ResourceType.CLUSTER)
DESCRIBE_CLUSTER: Final = Right(AclOperation.DESCRIBE, ResourceType.CLUSTER)
CLUSTER_ACTION: Final = Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
DESCRIBE_CONFIGS_CLUSTER: Final = Right(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
ALTER_CONFIGS_CLUSTER: Final = Right(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER)
IDEMPOTENT_WRITE: Final = Right(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)

WRITE_TRANSACTIONAL_ID: Final = Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID: Final = Right(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)

NOTHING: Final[tuple[Right, ...]] = ()
