"""The rows of the table that are about ACLs, and what stands in them."""

from __future__ import annotations

from typing import Final

from actors.settings.kinds import Setting, SettingType

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_AUTHORIZERS: Final = (
    STANDARD_AUTHORIZER,
    "kafka.security.authorizer.AclAuthorizer",  # the name of the years with ZooKeeper: the same rules
)


def super_users(text: str) -> tuple[str, ...]:
    """The principals in a value of `super.users`, which stand between semicolons: names of users have commas."""
    return tuple(user for part in text.split(";") if (user := part.strip()))


def _known_authorizer(name: str) -> str | None:
    return None if name in ("", *_AUTHORIZERS) else f"must be empty or {_AUTHORIZERS[0]}"


def _principals(text: str) -> str | None:
    for user in super_users(text):
        kind, _, name = user.partition(":")
        if not kind or not name:
            return f"{user!r} is no Type:name, such as User:admin"
    return None


AUTHORIZATION: Final = (
    Setting(
        name="authorizer.class.name",
        type=SettingType.STRING,
        default="",
        doc="`org.apache.kafka.metadata.authorizer.StandardAuthorizer` has ACLs checked. Empty: everybody may do "
        "everything. All brokers of a cluster have the same value.",
        check=_known_authorizer,
    ),
    Setting(
        name="super.users",
        type=SettingType.STRING,
        default="",
        doc="Users whom no ACL limits, such as `User:admin;User:CN=ops,O=acme`, with `;` between them.",
        check=_principals,
    ),
    Setting(
        name="allow.everyone.if.no.acl.found",
        type=SettingType.BOOLEAN,
        default=False,
        doc="If true, everybody may do everything with a resource that no ACL of anybody applies to.",
    ),
)
