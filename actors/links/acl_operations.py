"""The calls of brokers to the controller about ACLs, and their results. Codes are Kafka's (`actors.security.acl`)."""

from __future__ import annotations

from dataclasses import dataclass

from actors.links.operations import Operation, Result


@dataclass(frozen=True, slots=True)
class AclEntry:
    """An ACL, as a client writes it: nothing of it has been checked."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


@dataclass(frozen=True, slots=True)
class AclFilterEntry:
    """A filter of ACLs, as a client writes it. None matches all."""

    resource_type: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int


@dataclass(frozen=True, slots=True)
class AclOutcome:
    """The result for an ACL that was to be created."""

    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class CreatedAcls(Result):
    """In the order they were asked for."""

    acls: tuple[AclOutcome, ...]


@dataclass(frozen=True, slots=True)
class CreateAcls(Operation[CreatedAcls]):
    acls: tuple[AclEntry, ...]


@dataclass(frozen=True, slots=True)
class FilteredAcls:
    """The ACLs that one filter has removed."""

    error_code: int
    error_message: str | None
    acls: tuple[AclEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class DeletedAcls(Result):
    """In the order of the filters. An ACL that two filters match is in both."""

    filters: tuple[FilteredAcls, ...]


@dataclass(frozen=True, slots=True)
class DeleteAcls(Operation[DeletedAcls]):
    filters: tuple[AclFilterEntry, ...]


CLASSES: dict[int, type[Operation[Result]] | type[Result]] = {
    116: CreateAcls,
    117: DeleteAcls,
    214: CreatedAcls,
    215: DeletedAcls,
}
"""Tags on the control link, beside those of `operations`."""
