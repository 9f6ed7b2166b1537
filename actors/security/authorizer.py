"""Who may do what: Kafka's StandardAuthorizer, with an index.

A decision costs as much as there are lengths of prefixes, not as there are ACLs. It is remembered until an ACL changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from actors.security.acl import (
    ANYBODY,
    WILDCARD,
    Acl,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    normal_host,
)

_REMEMBERED_MAX: Final = 100_000
_GIVES: Final = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
"""What is allowed to who is allowed one of these. To deny one of these denies nothing else."""

_OPERATIONS_OF: Final = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
    ResourceType.TRANSACTIONAL_ID: (4, 8),
}

_Rules: TypeAlias = dict[str, set[Acl]]  # the ACLs of one pattern, by principal


class Authorizer:
    """The ACLs of a cluster, and decisions by them.

    `super_users` may do everything, whatever is denied. `allow_everyone` is what holds for a resource that no ACL of
    anybody applies to (allow.everyone.if.no.acl.found).
    """

    def __init__(
        self, acls: Iterable[Acl] = (), super_users: Iterable[str] = (), *, allow_everyone: bool = False
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone
        self._literal: dict[tuple[ResourceType, str], _Rules] = {}
        self._prefixed: dict[tuple[ResourceType, str], _Rules] = {}
        self._lengths: dict[ResourceType, Counter[int]] = {}
        self._remembered: dict[tuple[str, str, AclOperation, ResourceType, str], bool] = {}
        self.change(acls, ())

    def change(self, added: Iterable[Acl], removed: Iterable[Acl]) -> None:
        """Add and remove ACLs. One that is there already, or is not, changes nothing."""
        for acl in removed:
            self._remove(acl)
        for acl in added:
            self._add(acl)
        self._remembered.clear()

    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether a principal at a host may do this with the resource."""
        key = (principal, host, operation, resource_type, name)
        known = self._remembered.get(key)
        if known is None:
            if len(self._remembered) >= _REMEMBERED_MAX:
                self._remembered.clear()
            known = self._remembered[key] = self._decide(*key)
        return known

    def allows_any_topic(self, principal: str, host: str, operation: AclOperation) -> bool:
        """Whether there may be a topic that the principal may do this with, one that is not there yet included.

        An operation that another one gives does not count here.
        """
        if principal in self._super_users:
            return True
        host = normal_host(host)
        everywhere = self._literal.get((ResourceType.TOPIC, WILDCARD), {})
        if any(_is_met(acl, host, operation, PermissionType.DENY) for acl in _of(everywhere, principal)):
            return False
        if self._allow_everyone and not everywhere:
            return True
        for rules in (self._literal, self._prefixed):
            for (resource_type, name), by_principal in rules.items():
                if resource_type is not ResourceType.TOPIC:
                    continue
                allowed = any(
                    _is_met(acl, host, operation, PermissionType.ALLOW) for acl in _of(by_principal, principal)
                )
                if allowed and not self._is_denied(principal, host, operation, name, rules is self._prefixed):
                    return True
        return False

    def operations(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """The bit field of what a principal may do with a resource: bit n for the operation of code n."""
        return sum(
            1 << code
            for code in _OPERATIONS_OF.get(resource_type, ())
            if self.allows(principal, host, AclOperation(code), resource_type, name)
        )

    # --- the index ---

    def _add(self, acl: Acl) -> None:
        prefixed = acl.pattern is PatternType.PREFIXED
        rules = self._prefixed if prefixed else self._literal
        by_principal = rules.setdefault((acl.resource_type, acl.name), {})
        if prefixed and not by_principal:
            self._lengths.setdefault(acl.resource_type, Counter())[len(acl.name)] += 1
        by_principal.setdefault(acl.principal, set()).add(acl)

    def _remove(self, acl: Acl) -> None:
        prefixed = acl.pattern is PatternType.PREFIXED
        rules = self._prefixed if prefixed else self._literal
        by_principal = rules.get((acl.resource_type, acl.name), {})
        if acl not in by_principal.get(acl.principal, ()):
            return
        by_principal[acl.principal].remove(acl)
        if not by_principal[acl.principal]:
            del by_principal[acl.principal]
        if by_principal:
            return
        del rules[acl.resource_type, acl.name]
        if prefixed:
            lengths = self._lengths[acl.resource_type]
            lengths[len(acl.name)] -= 1
            if not lengths[len(acl.name)]:
                del lengths[len(acl.name)]

    def _applying(self, resource_type: ResourceType, name: str) -> Iterator[_Rules]:
        """The ACLs of each pattern that the resource fits."""
        for literal in {name, WILDCARD}:
            if found := self._literal.get((resource_type, literal)):
                yield found
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name) and (found := self._prefixed.get((resource_type, name[:length]))):
                yield found

    # --- decisions ---

    def _decide(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
        host = normal_host(host)
        applying, allowed = False, False
        for rules in self._applying(resource_type, name):
            applying = True
            for acl in _of(rules, principal):
                if _is_met(acl, host, operation, PermissionType.DENY):
                    return False
                allowed = allowed or _is_met(acl, host, operation, PermissionType.ALLOW, _GIVES.get(operation, set()))
        return allowed or (not applying and self._allow_everyone)

    def _is_denied(self, principal: str, host: str, operation: AclOperation, name: str, prefixed: bool) -> bool:
        """Whether all that an ALLOW of this name gives is denied again: by the same literal name, or by a prefix."""
        denials = [
            self._prefixed.get((ResourceType.TOPIC, name[:length]), {})
            for length in self._lengths.get(ResourceType.TOPIC, ())
            if length <= len(name) and name != WILDCARD
        ]
        if not prefixed:
            denials.append(self._literal.get((ResourceType.TOPIC, name), {}))
        return any(
            _is_met(acl, host, operation, PermissionType.DENY) for rules in denials for acl in _of(rules, principal)
        )


def _of(rules: _Rules, principal: str) -> Iterator[Acl]:
    """The ACLs of a principal and those of everybody."""
    yield from rules.get(principal, ())
    if principal != ANYBODY:
        yield from rules.get(ANYBODY, ())


def _is_met(
    acl: Acl,
    host: str,
    operation: AclOperation,
    permission: PermissionType,
    others: Iterable[AclOperation] = (),
) -> bool:
    return (
        acl.permission is permission
        and (acl.host == WILDCARD or normal_host(acl.host) == host)
        and (acl.operation is AclOperation.ALL or acl.operation is operation or acl.operation in others)
    )
