"""The log of what clients were allowed and denied: the logger `coterie.audit`, denials at INFO and the rest at DEBUG.

Nobody fills a disk with it: the same is said once a second, with a count of what was left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from actors.runtime.logs import about
from actors.security.acl import Acl, AclOperation, ResourceType
from actors.wire.api_keys import ApiKey

audit: Final = logging.getLogger("coterie.audit")

_REPEATED_AFTER_SECONDS: Final = 1.0
_LINES_A_SECOND: Final = 1_000
_NAME_MAX: Final = 256


class Audit:
    """Writes the log. `now` is a clock in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._said: dict[tuple[str, AclOperation, ResourceType, str, bool], int] = {}
        """What was said in this second, and how often it was left out since."""
        self._second = now()
        self._lines = self._left_out = 0

    def decided(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        api: int,
        allowed: bool,
        rule: Callable[[], Acl | str],
    ) -> None:
        """Note a decision. `rule` says why, and is called only if a line is written."""
        level = logging.DEBUG if allowed else logging.INFO
        if not audit.isEnabledFor(level):
            return
        if self._now() - self._second >= _REPEATED_AFTER_SECONDS:
            self._next_second()
        key = (principal, operation, resource_type, name[:_NAME_MAX], allowed)
        if key in self._said:
            self._said[key] += 1
            return
        if self._lines >= _LINES_A_SECOND:
            self._left_out += 1
            return
        self._said[key] = 0
        self._lines += 1
        audit.log(
            level,
            "%s %s at %s: %s on %s %s for %s, rule: %s",
            "allowed" if allowed else "denied",
            shown(principal),
            host or "?",
            operation.name,
            resource_type.label,
            shown(name),
            ApiKey(api).label,
            described(rule()),
            extra=about(peer=host or "?"),
        )

    def _next_second(self) -> None:
        """What was left out is said, and what is new is said again."""
        for (principal, operation, resource_type, name, allowed), count in self._said.items():
            if count:
                audit.log(
                    logging.DEBUG if allowed else logging.INFO,
                    "%s %s: %s on %s %s, %d more times",
                    "allowed" if allowed else "denied",
                    shown(principal),
                    operation.name,
                    resource_type.label,
                    shown(name),
                    count,
                )
        if self._left_out:
            audit.info("%d more decisions, which are too many to list", self._left_out)
        self._said.clear()
        self._lines = self._left_out = 0
        self._second = self._now()


def shown(name: str) -> str:
    """A name that a client has made up: in quotes, on one line and not too long."""
    return repr(name if len(name) <= _NAME_MAX else f"{name[:_NAME_MAX]}…")


def described(rule: Acl | str) -> str:
    """What has decided, for people."""
    if isinstance(rule, str):
        return rule
    who = f"{rule.permission.name} {rule.operation.name} of {shown(rule.principal)} at {shown(rule.host)}"
    return f"{who} on {rule.pattern.name} {shown(rule.name)}"
