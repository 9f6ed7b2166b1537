"""The log of what clients were allowed and denied: the logger `coterie.audit`, denials at INFO and the rest at DEBUG.

Nobody fills a disk with it. The same is said once a second. Each principal, or address without one, may
fill so many bytes a minute (`coterie.audit.max.bytes.per.principal`). Lines that were left out are counted in a line.
The files are rotated (`actors/runtime/process.py`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from actors.broker.audit_accounts import Account, Accounts
from actors.runtime.logs import AUDIT, about
from actors.security.acl import Acl, AclOperation, ResourceType
from actors.wire.api_keys import ApiKey

audit: Final = logging.getLogger(AUDIT)

_REPEATED_AFTER_SECONDS: Final = 1.0
_ACCOUNT_SECONDS: Final = 60.0
_LINES_A_SECOND: Final = 1_000
_NAME_MAX: Final = 256
_AROUND_BYTES: Final = 256
"""Of a line: its time, level, logger and fields, but for the address."""

MAX_BYTES: Final = 65_536

_Key = tuple[str, str, AclOperation, ResourceType, str, bool]


@dataclass(slots=True)
class _Said:
    """A decision that was said in this second: by whom, how, and how often it was left out since."""

    account: Account
    text: str
    repeated: int = 0


class Audit:
    """Writes the log. `now` is a clock in seconds; `max_bytes` is what a client may take of it in a minute."""

    def __init__(self, now: Callable[[], float], max_bytes: int = MAX_BYTES) -> None:
        self._now = now
        self._max_bytes = max_bytes
        self._accounts = Accounts(max_bytes)
        self._said: dict[_Key, _Said] = {}
        self._second = self._minute = now()
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
        if not audit.isEnabledFor(_level(allowed)):
            return
        self.tick()
        account = self._accounts.of(principal, host, allowed)
        key = (principal, account.who, operation, resource_type, name[:_NAME_MAX], allowed)
        if (said := self._said.get(key)) is not None:
            said.repeated += 1
            return
        if account.bytes_left <= 0:
            account.left_out += 1
            return
        if self._lines >= _LINES_A_SECOND:
            self._left_out += 1
            return
        what = f"{operation.name} on {resource_type.label} {shown(name)}"
        text = f"{_verb(allowed)} {shown(principal)} at {host or '?'}: {what} for {ApiKey(api).label}"
        if self._write(account, f"{text}, rule: {described(rule())}", host or "?"):
            self._said[key] = _Said(account, f"{_verb(allowed)} {shown(principal)}: {what}")
            self._lines += 1
        else:
            account.left_out += 1

    def tick(self) -> None:
        """Say what was left out, if it is time. Called again and again, else that waits for the next decision."""
        now = self._now()
        if now - self._minute >= _ACCOUNT_SECONDS:
            self.close()
        elif now - self._second >= _REPEATED_AFTER_SECONDS:
            self._end_second()

    def close(self) -> None:
        """Say what was left out until now."""
        self._end_second()
        self._end_minute()

    def _end_second(self) -> None:
        """Write how many decisions were repeated or left out; from now on they are written again."""
        for said in self._said.values():
            if said.repeated and not self._write(said.account, f"{said.text}, {said.repeated} more times"):
                said.account.left_out += said.repeated
        if self._left_out:
            audit.info("%d more decisions, which are too many to list", self._left_out)
        self._said.clear()
        self._lines = self._left_out = 0
        self._second = self._now()

    def _end_minute(self) -> None:
        """Everybody may take as much again."""
        for account in self._accounts.closed():
            audit.log(
                _level(account.allowed),
                "%s %s: %d more decisions, beyond coterie.audit.max.bytes.per.principal=%d a minute",
                _verb(account.allowed),
                shown(account.who),
                account.left_out,
                self._max_bytes,
            )
        self._minute = self._now()

    def _write(self, account: Account, text: str, host: str = "") -> bool:
        """Write a line if the account has as much. JSON, where letters are escapes, is the longer form."""
        if not account.takes(len(json.dumps(text)) + len(host) + _AROUND_BYTES):
            return False
        audit.log(_level(account.allowed), "%s", text, extra=about(peer=host) if host else None)
        return True


def _level(allowed: bool) -> int:
    return logging.DEBUG if allowed else logging.INFO


def _verb(allowed: bool) -> str:
    return "allowed" if allowed else "denied"


def shown(name: str) -> str:
    """A name that a client has made up: in quotes, on one line and not too long."""
    return repr(name if len(name) <= _NAME_MAX else f"{name[:_NAME_MAX]}…")


def described(rule: Acl | str) -> str:
    """The rule that has decided, for people."""
    if isinstance(rule, str):
        return rule
    who = f"{rule.permission.name} {rule.operation.name} of {shown(rule.principal)} at {shown(rule.host)}"
    return f"{who} on {rule.pattern.name} {shown(rule.name)}"
