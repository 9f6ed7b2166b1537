"""ACLs: what they say, and filters that find them (KIP-11, KIP-290). The codes are Kafka's."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

WILDCARD: Final = "*"
ANYBODY: Final = "User:*"
ANONYMOUS: Final = "User:ANONYMOUS"
CLUSTER_NAME: Final = "kafka-cluster"


class ResourceType(IntEnum):
    """What is to be protected. ANY stands in filters alone."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(IntEnum):
    """What is to be done with it. ANY stands in filters alone."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class PatternType(IntEnum):
    """How a name is meant. ANY and MATCH stand in filters alone."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """Whether it may be done. ANY stands in filters alone."""

    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class Acl:
    """One rule: whether a principal (`Type:name`) at a host may do something with resources that a pattern names."""

    resource_type: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: PermissionType

    def applies_to(self, name: str) -> bool:
        """Whether the resource of this name is meant."""
        if self.pattern is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which ACLs are asked for. None, and ANY, are all. No operation stands for another one here."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: PermissionType = PermissionType.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether this ACL is one of those."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._names(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (PermissionType.ANY, acl.permission)
        )

    def _names(self, acl: Acl) -> bool:
        if self.pattern is PatternType.MATCH:
            return self.name is None or acl.applies_to(self.name)
        return self.pattern in (PatternType.ANY, acl.pattern) and self.name in (None, acl.name)


@lru_cache(maxsize=10_000)
def normal_host(text: str) -> str:
    """An address as all of us write it: IPv6 abbreviated, an IPv4 address in IPv6 as itself; other text as it is."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine, and reached from nowhere else."""
    try:
        return ipaddress.ip_address(normal_host(host)).is_loopback
    except ValueError:
        return False
