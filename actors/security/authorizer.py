"""Authorization: Kafka's StandardAuthorizer, with an index.

A decision costs as much as there are lengths of prefixes, not as there are ACLs. It is remembered until an ACL changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias, TypeVar

from actors.security.acl import (
    ANYBODY,
    WILDCARD,
    Acl,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    normal_host,
    unscoped,
)

_REMEMBERED_MAX: Final = 100_000
_LONG_NAME: Final = 256
"""Longer names are not remembered: a client makes them up, and could fill the memory with them."""
_NOT_GIVEN: Final[frozenset[AclOperation]] = frozenset()
_GIVES: Final = {
    AclOperation.DESCRIBE: frozenset(
        (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset((AclOperation.ALTER_CONFIGS,)),
}
"""Operations that each allowed operation implies. A denial implies nothing."""

_OPERATIONS_OF: Final = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
    ResourceType.TRANSACTIONAL_ID: (4, 8),
}

_Rules: TypeAlias = dict[tuple[str, str], set[Acl]]
"""The ACLs of one pattern, by principal and host."""
_Index: TypeAlias = dict[ResourceType, dict[str, _Rules]]
"""The ACLs of one kind of pattern, by type and name."""


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
        self._literal: _Index = {kind: {} for kind in ResourceType}
        self._prefixed: _Index = {kind: {} for kind in ResourceType}
        self._lengths: dict[ResourceType, Counter[int]] = {kind: Counter() for kind in ResourceType}
        self._remembered: dict[tuple[str, str, AclOperation, ResourceType, str], bool] = {}
        self._at_large: dict[tuple[str, str, AclOperation, ResourceType | None], bool] = {}
        self.change(acls, ())

    def change(self, added: Iterable[Acl], removed: Iterable[Acl]) -> None:
        """Remove ACLs, then add some. One that is there already, or is not, changes nothing."""
        for acl in removed:
            self._remove(acl)
        for acl in added:
            self._add(acl)
        self._remembered.clear()
        self._at_large.clear()

    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """True if a principal at a host may do this with the resource."""
        key = (principal, host, operation, resource_type, name)
        known = self._remembered.get(key)
        if known is None:
            known = self._decide(*key)[0]
            if len(name) <= _LONG_NAME:
                _kept(self._remembered, key, known)
        return known

    def allows_any_topic(self, principal: str, host: str, operation: AclOperation) -> bool:
        """True if there may be a topic that the principal may do this with, one that is not there yet included.

        An operation that another one gives does not count here.
        """
        key = (principal, host, operation, None)
        known = self._at_large.get(key)
        return _kept(self._at_large, key, self._any_topic(principal, host, operation)) if known is None else known

    def allows_all(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        """True if it is certain, without a look at names, that the principal may do this with every resource."""
        key = (principal, host, operation, resource_type)
        known = self._at_large.get(key)
        return _kept(self._at_large, key, self._all(*key)) if known is None else known

    def rule(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> Acl | str:
        """The rule that decides, for people: an ACL, or in words the rule that holds without one."""
        return self._decide(principal, host, operation, resource_type, name)[1]

    def operations(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """The bit field of what a principal may do with a resource: bit n for the operation of code n."""
        return sum(
            1 << code
            for code in _OPERATIONS_OF.get(resource_type, ())
            if self.allows(principal, host, AclOperation(code), resource_type, name)
        )

    # --- the index ---

    def _add(self, acl: Acl) -> None:
        named = self._named(acl)
        if acl.name not in named:
            named[acl.name] = {}
            if acl.pattern is PatternType.PREFIXED:
                self._lengths[acl.resource_type][len(acl.name)] += 1
        named[acl.name].setdefault(_key(acl), set()).add(acl)

    def _remove(self, acl: Acl) -> None:
        named = self._named(acl)
        rules = named.get(acl.name, {})
        if acl not in rules.get(_key(acl), ()):
            return
        rules[_key(acl)].remove(acl)
        if not rules[_key(acl)]:
            del rules[_key(acl)]
        if rules:
            return
        del named[acl.name]
        if acl.pattern is PatternType.PREFIXED:
            lengths = self._lengths[acl.resource_type]
            lengths[len(acl.name)] -= 1
            if not lengths[len(acl.name)]:
                del lengths[len(acl.name)]

    def _named(self, acl: Acl) -> dict[str, _Rules]:
        return (self._prefixed if acl.pattern is PatternType.PREFIXED else self._literal)[acl.resource_type]

    def _applying(self, resource_type: ResourceType, name: str) -> Iterator[_Rules]:
        """The ACLs of each pattern that the resource fits."""
        literal = self._literal[resource_type]
        for each in {name, WILDCARD}:
            if each in literal:
                yield literal[each]
        yield from self._prefixes(resource_type, name)

    def _prefixes(self, resource_type: ResourceType, name: str) -> Iterator[_Rules]:
        prefixed = self._prefixed[resource_type]
        for length in self._lengths[resource_type]:
            if length <= len(name) and name[:length] in prefixed:
                yield prefixed[name[:length]]

    # --- decisions ---

    def _decide(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> tuple[bool, Acl | str]:
        if principal in self._super_users:
            return True, "super user"
        host = normal_host(host)
        given = _GIVES.get(operation, _NOT_GIVEN)
        applies, allowing = False, None
        for rules in self._applying(resource_type, name):
            applies = True
            for acl in _of(rules, principal, host):
                if _is_met(acl, operation, PermissionType.DENY):
                    return False, acl
                if allowing is None and _is_met(acl, operation, PermissionType.ALLOW, given):
                    allowing = acl
        if allowing is not None:
            return True, allowing
        if applies:
            return False, "no ACL allows it"
        return self._allow_everyone, "no ACL is about the resource"

    def _any_topic(self, principal: str, host: str, operation: AclOperation) -> bool:
        if principal in self._super_users:
            return True
        host = normal_host(host)
        literal, prefixed = self._literal[ResourceType.TOPIC], self._prefixed[ResourceType.TOPIC]
        everywhere = literal.get(WILDCARD, {})
        if any(_is_met(acl, operation, PermissionType.DENY) for acl in _of(everywhere, principal, host)):
            return False
        if self._allow_everyone and not everywhere:
            return True
        for named in (literal, prefixed):
            for name, rules in named.items():
                allowed = any(_is_met(acl, operation, PermissionType.ALLOW) for acl in _of(rules, principal, host))
                if allowed and (rules is everywhere or not self._is_denied(principal, host, operation, name, rules)):
                    return True
        return False

    def _is_denied(self, principal: str, host: str, operation: AclOperation, name: str, rules: _Rules) -> bool:
        """True if all that an ALLOW of this name gives is denied again: by the same literal name, or by a prefix."""
        denials = [rules, *self._prefixes(ResourceType.TOPIC, name)]
        return any(
            _is_met(acl, operation, PermissionType.DENY) for each in denials for acl in _of(each, principal, host)
        )

    def _all(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        if principal in self._super_users:
            return True
        literal, prefixed = self._literal[resource_type], self._prefixed[resource_type]
        if self._allow_everyone and not literal and not prefixed:
            return True
        host = normal_host(host)
        given = _GIVES.get(operation, _NOT_GIVEN)
        everywhere = literal.get(WILDCARD, {})
        if not any(_is_met(acl, operation, PermissionType.ALLOW, given) for acl in _of(everywhere, principal, host)):
            return False
        return not any(
            _is_met(acl, operation, PermissionType.DENY)
            for named in (literal, prefixed)
            for rules in named.values()
            for acl in _of(rules, principal, host)
        )


_K = TypeVar("_K")
_LINK: Final = "%"


def _kept(decisions: dict[_K, bool], key: _K, decision: bool) -> bool:
    if len(decisions) >= _REMEMBERED_MAX:
        decisions.clear()
    decisions[key] = decision
    return decision


def _key(acl: Acl) -> tuple[str, str]:
    return acl.principal, WILDCARD if acl.host == WILDCARD else normal_host(acl.host)


def _of(rules: _Rules, principal: str, host: str) -> Iterator[Acl]:
    """The ACLs of a principal and those of everybody, at this host and at any.

    An address with its link is denied what the address is denied, and not allowed what that is: on another link it is
    another machine.
    """
    for who in {principal, ANYBODY}:
        for where in (host, WILDCARD):
            if found := rules.get((who, where)):
                yield from found
        if _LINK in host:
            for acl in rules.get((who, unscoped(host)), ()):
                if acl.permission is PermissionType.DENY:
                    yield acl


def _is_met(
    acl: Acl, operation: AclOperation, permission: PermissionType, others: frozenset[AclOperation] = _NOT_GIVEN
) -> bool:
    return acl.permission is permission and (
        acl.operation is AclOperation.ALL or acl.operation is operation or acl.operation in others
    )
