"""`coterie acls`: the options of kafka-acls, as verbs. acl_options.py makes ACLs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from actors.cli import calls, options, output
from actors.cli.acl_options import Given, added, listed, notes, removed, shown

if TYPE_CHECKING:
    from actors.security.acl import Acl

COLUMNS: Final = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
F = TypeVar("F", bound=Callable[..., Any])

_TO_ADD: Final = ("literal", "prefixed")
_TO_FIND: Final = ("literal", "prefixed", "any", "match")


@click.group()
def acls() -> None:
    """List, add and remove ACLs: who may do what."""


def _resources(patterns: tuple[str, ...]) -> Callable[[F], F]:
    """The options that name resources."""

    def decorate(command: F) -> F:
        for option in (
            click.option(
                "--resource-pattern-type",
                "pattern",
                type=click.Choice(patterns, case_sensitive=False),
                default="literal",
                show_default=True,
                help="How names are meant."
                + (" match: every ACL that applies to the name." if "match" in patterns else ""),
            ),
            click.option(
                "--transactional-id",
                "transactional_ids",
                multiple=True,
                metavar="ID",
                help="A producer's id; * is all.",
            ),
            click.option("--cluster", is_flag=True, help="The cluster itself."),
            click.option("--group", "groups", multiple=True, metavar="GROUP", help="A group; * is all."),
            click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="A topic; * is all."),
        ):
            command = option(command)
        return command

    return decorate


def _rules(command: F) -> F:
    """The options that say who may do what."""
    for option in (
        click.option("--consumer", is_flag=True, help="What a consumer needs: give --topic and --group."),
        click.option("--idempotent", is_flag=True, help="With --producer: its id, too, for brokers before Kafka 3.0."),
        click.option("--producer", is_flag=True, help="What a producer needs: give --topic."),
        click.option(
            "--operation", "operations", multiple=True, metavar="NAME", help="READ, WRITE, ...; ALL if not given."
        ),
        click.option(
            "--deny-host", "deny_hosts", multiple=True, metavar="ADDRESS", help="From where not; * if not given."
        ),
        click.option(
            "--allow-host", "allow_hosts", multiple=True, metavar="ADDRESS", help="From where; * if not given."
        ),
        click.option("--deny-principal", "deny", multiple=True, metavar="TYPE:NAME", help="Who may not: User:NAME."),
        click.option(
            "--allow-principal", "allow", multiple=True, metavar="TYPE:NAME", help="Who may: User:NAME, or User:*."
        ),
    ):
        command = option(command)
    return command


@acls.command("list")
@_resources(_TO_FIND)
@click.option("--principal", "principals", multiple=True, metavar="TYPE:NAME", help="Only the ACLs of this one.")
@options.admin_options
def list_acls(
    bootstrap_server: str, timeout_ms: int, output_format: str, principals: tuple[str, ...], **given: Any
) -> None:
    """List ACLs: all, or those of the resources named.

    With --resource-pattern-type match, all are listed that apply to a resource of the name.
    """
    filters = listed(Given(**given), principals)
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        found = [acl for wanted in filters for acl in admin.describe_acls(wanted)]
    _emit(found, output_format)


@acls.command()
@_resources(_TO_ADD)
@_rules
@options.admin_options
def add(bootstrap_server: str, timeout_ms: int, output_format: str, **given: Any) -> None:
    """Add ACLs.

    Everything else is denied to who is no super user, once brokers have an authorizer. To deny an operation denies that
    one alone: who may not READ may still DESCRIBE, unless this is denied, too.
    """
    wanted = added(Given(**given))
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        admin.create_acls(wanted)
    _emit(wanted, output_format)
    for text in notes(wanted):
        output.note(text)


@acls.command()
@_resources(_TO_FIND)
@_rules
@click.option("--force", is_flag=True, help="Do not ask.")
@options.admin_options
def remove(bootstrap_server: str, timeout_ms: int, output_format: str, force: bool, **given: Any) -> None:
    """Remove ACLs: those that `add` with the same options makes; without a principal, all of the resources named."""
    filters = removed(Given(**given))
    with calls.connect(bootstrap_server, timeout_ms) as admin:
        if not force:
            found = list(dict.fromkeys(acl for wanted in filters for acl in admin.describe_acls(wanted)))
            if not found:
                output.note("there are no such ACLs")
                return
            for acl in found:
                output.note(shown(acl))
            click.confirm(f"Remove {output.plural(len(found), 'ACL')}?", abort=True, err=True)
        gone = admin.delete_acls(filters)
    _emit([acl for each in gone.values() if isinstance(each, list) for acl in each], output_format)


def _emit(found: Iterable[Acl], output_format: str) -> None:
    rows = [
        {
            "resource_type": acl.resource_type.name,
            "resource_name": acl.name,
            "pattern_type": acl.pattern.name,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation.name,
            "permission_type": acl.permission.name,
        }
        for acl in sorted(dict.fromkeys(found), key=lambda acl: acl.row)
    ]
    output.emit(rows, COLUMNS, output_format)
