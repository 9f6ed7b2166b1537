"""ACLs: what they say, and filters that find them (KIP-11, KIP-290). The codes are Kafka's."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final

WILDCARD: Final = "*"
ANYBODY: Final = "User:*"
ANONYMOUS: Final = "User:ANONYMOUS"
CLUSTER_NAME: Final = "kafka-cluster"


class ResourceType(IntEnum):
    """The types of protected resources. ANY stands in filters alone."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @property
    def label(self) -> str:
        """The name in the spelling of Kafka's documentation: `TransactionalId`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class AclOperation(IntEnum):
    """The operations on resources. ANY stands in filters alone."""

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
    """The ways in which an ACL's name fits resources. ANY and MATCH stand in filters alone."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """The two permissions, deny and allow. ANY stands in filters alone."""

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

    @classmethod
    def of_row(cls, row: Iterable[Any]) -> Acl:
        """The ACL of seven plain values, as the metadata has it. Raises ValueError."""
        resource_type, name, pattern, principal, host, operation, permission = row
        return cls(
            ResourceType(resource_type),
            name,
            PatternType(pattern),
            principal,
            host,
            AclOperation(operation),
            PermissionType(permission),
        )

    @property
    def row(self) -> tuple[int, str, int, str, str, int, int]:
        """The seven plain values."""
        return (
            int(self.resource_type),
            self.name,
            int(self.pattern),
            self.principal,
            self.host,
            int(self.operation),
            int(self.permission),
        )

    def applies_to(self, name: str) -> bool:
        """True if the ACL's name fits the resource of this name."""
        if self.pattern is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


@dataclass(frozen=True, slots=True)
class AclFilter:
    """The ACLs that are asked for. None, and ANY, are all. No operation stands for another one here."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: PermissionType = PermissionType.ANY

    @classmethod
    def of_codes(
        cls,
        resource_type: int,
        name: str | None,
        pattern: int,
        principal: str | None,
        host: str | None,
        operation: int,
        permission: int,
    ) -> AclFilter:
        """The filter with these of Kafka's codes. Raises ValueError for one that does not exist."""
        return cls(
            ResourceType(resource_type),
            name,
            PatternType(pattern),
            principal,
            host,
            AclOperation(operation),
            PermissionType(permission),
        )

    def matches(self, acl: Acl) -> bool:
        """True if the filter finds this ACL."""
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


def is_principal(text: str) -> bool:
    """True if the text is `Type:name` with both parts. The name may have colons."""
    kind, _, name = text.partition(":")
    return bool(kind and name)


def is_host(text: str) -> bool:
    """True if the text is an address, or * for all. Another host is nobody's."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text == WILDCARD
    return True


@lru_cache(maxsize=10_000)
def normal_host(text: str) -> str:
    """An address as all of us write it: IPv6 abbreviated, an IPv4 address in IPv6 as itself; other text as it is."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def unscoped(host: str) -> str:
    """The address without the link it was reached by: `fe80::1` of `fe80::1%eth0`. Others as they are."""
    return host.partition("%")[0]


def is_loopback(host: str) -> bool:
    """True if an address is of this machine, and reached from nowhere else."""
    try:
        return ipaddress.ip_address(normal_host(host)).is_loopback
    except ValueError:
        return host == "localhost"
