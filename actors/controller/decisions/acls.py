"""Decisions about ACLs (KIP-11, KIP-290). As in topics.py, nothing is applied here."""

from __future__ import annotations

import logging
from dataclasses import astuple
from typing import Any

from actors.controller.decisions.decision import Decision, NewId, RefusedError
from actors.links.acl_operations import (
    AclEntry,
    AclFilterEntry,
    AclOutcome,
    CreateAcls,
    CreatedAcls,
    DeleteAcls,
    DeletedAcls,
    FilteredAcls,
)
from actors.security.acl import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    ResourceType,
    is_host,
    is_principal,
)
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from placement.metadata import AclRow, ClusterMetadata
from placement.records import AccessControlEntryRecord, Record, RemoveAccessControlEntryRecord

log = logging.getLogger(__name__)

MOST_CHANGES = 10_000
"""In one call."""
MOST_ACLS = 100_000
MOST_FILTERS = 1_000
"""In one call, because each looks at all ACLs."""


def create_acls(metadata: ClusterMetadata, config: BrokerConfig, asked: CreateAcls, new_id: NewId) -> Decision:
    """Make each ACL that is not there yet, or refuse it."""
    known = {tuple(row) for row in metadata.acls.values()}
    outcomes: list[AclOutcome] = []
    records: list[Record] = []
    for entry in asked.acls:
        try:
            row = _checked(entry).row
            if row not in known:
                _check_room(len(known), len(records))
                known.add(row)
                records.append(AccessControlEntryRecord(_unused_id(metadata, new_id), AclRow(*row)))
                _note("made", row)
        except RefusedError as refusal:
            outcomes.append(AclOutcome(int(refusal.code), str(refusal)))
            continue
        outcomes.append(AclOutcome(0, None))
    return CreatedAcls(tuple(outcomes)), records


def locked_out(metadata: ClusterMetadata, config: BrokerConfig) -> str | None:
    """The reason why nobody could ever do anything in a cluster that starts like this; None if somebody can."""
    if (
        not config.text("authorizer.class.name")
        or config.text("super.users")
        or config.boolean("allow.everyone.if.no.acl.found")
        or metadata.acls
    ):
        return None
    return (
        "with authorizer.class.name and no ACL nobody may do anything, not even make ACLs: set super.users, such as "
        "super.users=User:admin, or allow.everyone.if.no.acl.found=true"
    )


def delete_acls(metadata: ClusterMetadata, config: BrokerConfig, asked: DeleteAcls, new_id: NewId) -> Decision:
    """Remove the ACLs that each filter means. One that two filters mean is removed once."""
    if len(asked.filters) > MOST_FILTERS:
        refused = FilteredAcls(int(ErrorCode.POLICY_VIOLATION), f"more than {MOST_FILTERS} filters in one request")
        return DeletedAcls((refused,) * len(asked.filters)), []
    acls = {acl_id: Acl.of_row(row) for acl_id, row in metadata.acls.items()}
    gone: dict[bytes, Acl] = {}
    results: list[FilteredAcls] = []
    for entry in asked.filters:
        try:
            wanted = _filter(entry)
            found = {acl_id: acl for acl_id, acl in acls.items() if wanted.matches(acl)}
            if len(gone | found) > MOST_CHANGES:
                raise RefusedError(ErrorCode.POLICY_VIOLATION, f"more than {MOST_CHANGES} ACLs would go at once")
        except RefusedError as refusal:
            results.append(FilteredAcls(int(refusal.code), str(refusal)))
            continue
        gone |= found
        results.append(FilteredAcls(0, None, tuple(AclEntry(*acl.row) for acl in found.values())))
    for acl in gone.values():
        _note("removed", acl.row)
    return DeletedAcls(tuple(results)), [RemoveAccessControlEntryRecord(acl_id) for acl_id in gone]


def _filter(entry: AclFilterEntry) -> AclFilter:
    try:
        return AclFilter.of_codes(*astuple(entry))
    except ValueError as error:
        raise _invalid(str(error)) from None


def _checked(entry: AclEntry) -> Acl:
    """The ACL that a client has written. Raises RefusedError."""
    try:
        acl = Acl.of_row(astuple(entry))
    except ValueError as error:
        raise _invalid(str(error)) from None
    for code in (acl.resource_type, acl.pattern, acl.operation, acl.permission):
        if code.name in ("ANY", "MATCH"):
            raise _invalid(f"{type(code).__name__} {code.name} is for filters alone")
    if not acl.name:
        raise _invalid("the name of a resource cannot be empty")
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise _invalid(f"the only cluster is called {CLUSTER_NAME!r}, not {acl.name!r}")
    if not is_principal(acl.principal):
        raise _invalid(f"principal {acl.principal!r} is no Type:name, such as User:ann")
    if not acl.host:
        raise _invalid("the host cannot be empty: * is every host")
    return acl


def _invalid(text: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, text)


def _check_room(known: int, made: int) -> None:
    if known >= MOST_ACLS:
        raise RefusedError(ErrorCode.POLICY_VIOLATION, f"there are {known} ACLs, and no more may be made")
    if made >= MOST_CHANGES:
        raise RefusedError(ErrorCode.POLICY_VIOLATION, f"more than {MOST_CHANGES} ACLs in one request")


def _unused_id(metadata: ClusterMetadata, new_id: NewId) -> bytes:
    while (made := new_id()) in metadata.acls:
        pass
    return made


def _note(what: str, row: tuple[Any, ...]) -> None:
    acl = Acl.of_row(row)
    log.info(
        "an ACL is %s: %s %s by %r at %r on %s %s %r",
        what, acl.permission.name, acl.operation.name, acl.principal, acl.host, acl.pattern.name,
        acl.resource_type.label, acl.name,
    )  # fmt: skip
    if what == "made" and not is_host(acl.host):
        log.warning("the host %r of an ACL is no address: it is nobody's", acl.host)
