"""Short ways to write ACLs."""

from __future__ import annotations

from actors.security.acl import (
    ANONYMOUS,
    CLUSTER_NAME,
    Acl,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID


def allowed(
    operation: AclOperation,
    resource_type: ResourceType,
    name: str = CLUSTER_NAME,
    *,
    by: str = ANONYMOUS,
    at: str = "*",
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    return Acl(resource_type, name, pattern, by, at, operation, PermissionType.ALLOW)


def forbidden(
    operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME, *, by: str = ANONYMOUS
) -> Acl:
    return Acl(resource_type, name, PatternType.LITERAL, by, "*", operation, PermissionType.DENY)
