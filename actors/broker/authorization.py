"""The rights of a broker's clients: the authorizer with the ACLs of the last image, and the log of its decisions.

A broker without `authorizer.class.name` has an `AllowAll`. The rights that each request needs are in the handlers
(`handlers/authorization.py`), and for those that go to shards in `handlers/group_requests`, which `entrance/routing`
asks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from actors.broker.audit import Audit, audit
from actors.broker.connections.connection import Connection
from actors.security.acl import Acl, AclOperation, ResourceType
from actors.security.authorizer import Authorizer
from actors.settings import BrokerConfig
from actors.settings.authorization import super_users
from actors.wire.operations import CLUSTER_OPERATIONS, GROUP_OPERATIONS, TOPIC_OPERATIONS
from placement.metadata import ClusterMetadata

log = logging.getLogger(__name__)

_CLEARED_MAX: Final = 64
"""Notes of one connection. A member has one group, and a tool that looks at all of them needs each only once."""
_LONG_NAME: Final = 256
"""Of a group, in bytes. Longer ones are not noted: a client makes them up."""

_ALL: Final = {
    ResourceType.TOPIC: TOPIC_OPERATIONS,
    ResourceType.GROUP: GROUP_OPERATIONS,
    ResourceType.CLUSTER: CLUSTER_OPERATIONS,
}

AclRows = Mapping[bytes, tuple[Any, ...]]


class Authorization:
    """Decides for a broker's clients. `update` takes over the ACLs of an image."""

    checks: Final = True
    """True if something may be denied. Where each request comes along, this is looked at, and nothing is called."""

    def __init__(self, authorizer: Authorizer, audit_log: Audit) -> None:
        self.edition: object | None = object()
        """The ACLs that are in force: another object with each change of them. None: nothing is checked."""
        self.rules = authorizer
        """The decisions by these ACLs."""
        self._audit = audit_log
        self._rows: AclRows = {}
        self._acls: dict[bytes, Acl] = {}

    @classmethod
    def of(cls, config: BrokerConfig, metadata: ClusterMetadata, now: Callable[[], float]) -> Authorization | AllowAll:
        """That of a broker with these settings."""
        if not config.text("authorizer.class.name"):
            return ALLOW_ALL
        made = cls(
            Authorizer(
                (),
                super_users(config.text("super.users") or ""),
                allow_everyone=config.boolean("allow.everyone.if.no.acl.found"),
            ),
            Audit(now, config.integer("coterie.audit.max.bytes.per.principal")),
        )
        made.update(metadata.acls)
        return made

    def update(self, acls: AclRows) -> None:
        """These are all ACLs from now on. An ACL never changes under its id."""
        if acls is self._rows:  # an image without ACLs: they are as they were
            return
        added = {each: Acl.of_row(row) for each, row in acls.items() if each not in self._acls}
        removed = [self._acls.pop(each) for each in self._acls.keys() - acls.keys()]
        self._acls |= added
        self._rows = acls
        if added or removed:
            # Before the change, so that what was noted by the former ones ends even if it fails.
            self.edition = object()
            self.rules.change(added.values(), removed)
            log.info("%d ACLs: %d came and %d went", len(acls), len(added), len(removed))

    def tick(self) -> None:
        """Have the log say what it has left out, if it is time."""
        self._audit.tick()

    def close(self) -> None:
        """Have the log say what it has left out."""
        self._audit.close()

    @property
    def acls(self) -> Iterable[Acl]:
        """All that there are."""
        return self._acls.values()

    def allows(self, by: Connection, operation: AclOperation, resource_type: ResourceType, name: str, api: int) -> bool:
        """True if a client may do this with a resource. It asks for it in a request of this API."""
        principal, host = by.principal, by.peer
        asked = (principal, host, operation, resource_type, name)
        allowed = self.rules.allows(*asked)
        if not allowed or audit.isEnabledFor(logging.DEBUG):
            self._audit.decided(*asked, api, allowed, lambda: self.rules.rule(*asked))
        return allowed

    def would_allow(self, by: Connection, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """As `allows`, to leave something out of a list: that is no denial, and is not logged."""
        return self.rules.allows(by.principal, by.peer, operation, resource_type, name)

    def clear(
        self, by: Connection, operation: AclOperation, resource_type: ResourceType, api: int, name: bytes
    ) -> None:
        """A client may make requests of this API about a resource: it need not be asked again by this `edition`.

        If it may do the same with every resource of this type, this goes for the whole API. Nothing is noted while the
        log has what is allowed. The note is the connection's, and ends when the ACLs change or the client is somebody
        else.
        """
        if audit.isEnabledFor(logging.DEBUG):
            return
        cleared = by.cleared
        if self.rules.allows_all(by.principal, by.peer, operation, resource_type):
            cleared[api] = self.edition
            return
        if len(name) > _LONG_NAME:
            return
        if len(cleared) >= _CLEARED_MAX:
            cleared.clear()
        cleared[api, name] = self.edition

    def allows_all_topics(self, by: Connection, operation: AclOperation) -> bool:
        """True if it is certain that a client may do this with every topic, so that names need not be looked at."""
        return self.rules.allows_all(by.principal, by.peer, operation, ResourceType.TOPIC)

    def allows_any_topic(self, by: Connection, operation: AclOperation) -> bool:
        """True if there may be a topic that a client may do this with."""
        return self.rules.allows_any_topic(by.principal, by.peer, operation)

    def operations(self, by: Connection, resource_type: ResourceType, name: str) -> int:
        """The bit field of what a client may do with a resource."""
        return self.rules.operations(by.principal, by.peer, resource_type, name)


class AllowAll:
    """A broker without an authorizer: everybody may do everything, and nothing is logged."""

    checks: Final = False
    edition: Final = None

    def update(self, acls: AclRows) -> None: ...

    def tick(self) -> None: ...

    def close(self) -> None: ...

    @property
    def acls(self) -> Iterable[Acl]:
        return ()

    def allows(self, by: Connection, operation: AclOperation, resource_type: ResourceType, name: str, api: int) -> bool:
        return True

    def would_allow(self, by: Connection, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        return True

    def clear(
        self, by: Connection, operation: AclOperation, resource_type: ResourceType, api: int, name: bytes
    ) -> None: ...

    def allows_all_topics(self, by: Connection, operation: AclOperation) -> bool:
        return True

    def allows_any_topic(self, by: Connection, operation: AclOperation) -> bool:
        return True

    def operations(self, by: Connection, resource_type: ResourceType, name: str) -> int:
        return _ALL[resource_type]


ALLOW_ALL: Final = AllowAll()
