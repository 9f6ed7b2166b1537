"""The options of `coterie acls`: ACLs to add, and filters of those to list or to remove. As in kafka-acls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import click

from actors.cli import output
from actors.security.acl import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    is_host,
    is_principal,
)

_A: Final = AclOperation
_OPERATIONS_OF: Final = {
    ResourceType.TOPIC: (
        _A.READ, _A.WRITE, _A.CREATE, _A.DESCRIBE, _A.DELETE, _A.ALTER, _A.DESCRIBE_CONFIGS, _A.ALTER_CONFIGS, _A.ALL,
    ),
    ResourceType.GROUP: (_A.READ, _A.DESCRIBE, _A.DELETE, _A.DESCRIBE_CONFIGS, _A.ALTER_CONFIGS, _A.ALL),
    ResourceType.CLUSTER: (
        _A.CREATE, _A.CLUSTER_ACTION, _A.DESCRIBE_CONFIGS, _A.ALTER_CONFIGS, _A.IDEMPOTENT_WRITE, _A.ALTER,
        _A.DESCRIBE, _A.DELETE, _A.ALL,
    ),
    ResourceType.TRANSACTIONAL_ID: (_A.DESCRIBE, _A.WRITE, _A.ALL),
}  # fmt: skip
"""The operations that requests ask for: another one on such a resource would never be asked about."""

Resource = tuple[ResourceType, str]


@dataclass(frozen=True, slots=True)
class Given:
    """The options of one command, as they were given."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    cluster: bool = False
    transactional_ids: tuple[str, ...] = ()
    pattern: str = "literal"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    producer: bool = False
    idempotent: bool = False
    consumer: bool = False

    @property
    def resources(self) -> list[Resource]:
        """The resources that are named."""
        found = [(ResourceType.TOPIC, name) for name in self.topics]
        found += [(ResourceType.GROUP, name) for name in self.groups]
        found += [(ResourceType.TRANSACTIONAL_ID, name) for name in self.transactional_ids]
        return found + ([(ResourceType.CLUSTER, CLUSTER_NAME)] if self.cluster else [])

    @property
    def pattern_type(self) -> PatternType:
        """The pattern type of the names."""
        return PatternType[self.pattern.upper()]


def added(given: Given) -> list[Acl]:
    """The ACLs that `add` makes. Raises UsageError."""
    if not given.allow and not given.deny:
        raise click.UsageError("say who: --allow-principal or --deny-principal")
    return list(_acls(given))


def notes(acls: Iterable[Acl]) -> Iterator[str]:
    """Notes on these ACLs, where people who add them may expect something else."""
    acls = list(acls)
    if any(acl.permission is PermissionType.DENY and acl.operation is not AclOperation.ALL for acl in acls):
        yield "to deny an operation denies that one alone: who may not READ may still DESCRIBE, if nothing denies it"
    for host in dict.fromkeys(acl.host for acl in acls):
        if not is_host(host):
            yield f"{output.text(host)} is no address, so that this is nobody's ACL: names and ranges do not count"


def listed(given: Given, principals: Iterable[str]) -> list[AclFilter]:
    """The filters of `list`."""
    who: list[str | None] = list(principals) or [None]
    resources = given.resources
    if not resources:
        return [AclFilter(principal=principal) for principal in who]
    return [
        AclFilter(resource_type, name, _pattern(given, resource_type), principal)
        for resource_type, name in resources
        for principal in who
    ]


def removed(given: Given) -> list[AclFilter]:
    """The filters of the ACLs that `remove` removes. Raises UsageError."""
    if given.allow or given.deny:
        return [
            AclFilter(acl.resource_type, acl.name, acl.pattern, acl.principal, acl.host, acl.operation, acl.permission)
            for acl in _acls(given)
        ]
    if given.allow_hosts or given.deny_hosts or given.operations or given.producer or given.consumer:
        raise click.UsageError("say whose: --allow-principal or --deny-principal")
    if not given.resources:
        raise click.UsageError("name a resource: --topic, --group, --cluster or --transactional-id")
    return [AclFilter(kind, name, _pattern(given, kind)) for kind, name in given.resources]


def shown(acl: Acl) -> str:
    """An ACL in one line."""
    who = f"{output.text(acl.principal)} at {output.text(acl.host)}"
    return (
        f"{acl.permission.name} {acl.operation.name} by {who} "
        f"on {acl.pattern.name} {acl.resource_type.name} {output.text(acl.name)}"
    )


def _acls(given: Given) -> Iterator[Acl]:
    for permission, principals, hosts in (
        (PermissionType.ALLOW, given.allow, given.allow_hosts),
        (PermissionType.DENY, given.deny, given.deny_hosts),
    ):
        if hosts and not principals:
            word = permission.name.lower()
            raise click.UsageError(f"--{word}-host needs --{word}-principal")
        for principal in principals:
            if not is_principal(principal):
                raise click.UsageError(f"{principal!r} is no principal: write Type:name, such as User:{principal}")
            for (resource_type, name), operation in _what(given):
                for host in hosts or (WILDCARD,):
                    pattern = _pattern(given, resource_type)
                    yield Acl(resource_type, name, pattern, principal, host, operation, permission)


def _what(given: Given) -> Iterator[tuple[Resource, AclOperation]]:
    """The resources, and what may be done with each of them."""
    if given.producer or given.consumer:
        if given.operations:
            raise click.UsageError("--producer and --consumer say which operations: leave --operation out")
        yield from dict.fromkeys(_roles(given))
        return
    if not given.resources:
        raise click.UsageError("name a resource: --topic, --group, --cluster or --transactional-id")
    operations = [_operation(text) for text in given.operations] or [AclOperation.ALL]
    for resource in given.resources:
        possible = _OPERATIONS_OF[resource[0]]
        for operation in operations:
            if operation not in possible:
                words = ", ".join(each.name for each in possible)
                raise click.UsageError(f"a {resource[0].label} has no {operation.name}; it has {words}")
            yield resource, operation


def _roles(given: Given) -> Iterator[tuple[Resource, AclOperation]]:
    """The operations that a producer or a consumer needs, with their resources."""
    topics = [resource for resource in given.resources if resource[0] is ResourceType.TOPIC]
    if not topics:
        raise click.UsageError("--producer and --consumer need --topic")
    if given.consumer and not given.groups:
        raise click.UsageError("--consumer needs --group")
    if given.groups and not given.consumer:
        raise click.UsageError("--group is for --consumer")
    if given.producer:
        for topic in topics:
            yield from ((topic, each) for each in (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE))
        for name in given.transactional_ids:
            resource = (ResourceType.TRANSACTIONAL_ID, name)
            yield from ((resource, each) for each in (AclOperation.WRITE, AclOperation.DESCRIBE))
        if given.idempotent:
            yield (ResourceType.CLUSTER, CLUSTER_NAME), AclOperation.IDEMPOTENT_WRITE
    if given.consumer:
        for topic in topics:
            yield from ((topic, each) for each in (AclOperation.READ, AclOperation.DESCRIBE))
        for name in given.groups:
            yield (ResourceType.GROUP, name), AclOperation.READ


def _pattern(given: Given, resource_type: ResourceType) -> PatternType:
    """There is one cluster, whose name is always meant as it is."""
    return PatternType.LITERAL if resource_type is ResourceType.CLUSTER else given.pattern_type


def _operation(text: str) -> AclOperation:
    """An operation by its name: `DescribeConfigs` as in Kafka's tools, or `DESCRIBE_CONFIGS`."""
    known = {
        operation.name.replace("_", ""): operation for operation in AclOperation if operation is not AclOperation.ANY
    }
    found = known.get(text.replace("_", "").upper())
    if found is None:
        names = ", ".join(operation.name for operation in known.values())
        raise click.BadParameter(f"{text!r} is none of {names}", param_hint="--operation")
    return found
