"""The share of each client in the audit log: a principal, or an address without one, has so many bytes a minute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from actors.quotas.entities import network_of
from actors.security.acl import ANONYMOUS

_PRINCIPALS_MAX: Final = 1_000
_ADDRESSES_MAX: Final = 64
_OTHERS: Final = "others"


@dataclass(slots=True)
class Account:
    """The bytes that one client may still write in this minute. Allowed and denied decisions are two accounts."""

    who: str
    allowed: bool
    bytes_left: int
    left_out: int = 0
    """Decisions that were not written, because nothing was left."""

    def takes(self, size_bytes: int) -> bool:
        """True if a line of this size is written: then it is paid for."""
        if size_bytes > self.bytes_left:
            self.bytes_left = 0  # so that no other line is made up only to be left out
            return False
        self.bytes_left -= size_bytes
        return True


class Accounts:
    """The accounts of one minute. Of more principals, or addresses, than a thousand and 64 the rest has one together.

    Without that limit, somebody with many addresses would have as many accounts, and push all else out of the files.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._principals: dict[tuple[str, bool], Account] = {}
        self._addresses: dict[tuple[str, bool], Account] = {}

    def of(self, principal: str, host: str, allowed: bool) -> Account:
        """The account of a client: its principal's, or that of its address (of IPv6: its /64) if it has none."""
        if principal != ANONYMOUS:
            return self._in(self._principals, _PRINCIPALS_MAX, principal, allowed)
        return self._in(self._addresses, _ADDRESSES_MAX, f"{principal} at {network_of(host)}", allowed)

    def _in(self, held: dict[tuple[str, bool], Account], most: int, who: str, allowed: bool) -> Account:
        found = held.get((who, allowed))
        if found is None:
            who = who if len(held) < 2 * most else _OTHERS
            found = held.setdefault((who, allowed), Account(who, allowed, self._max_bytes))
        return found

    def closed(self) -> Iterator[Account]:
        """The accounts from which something was left out. A new minute begins: all accounts are new."""
        found = [each for held in (self._principals, self._addresses) for each in held.values() if each.left_out]
        self._principals.clear()
        self._addresses.clear()
        return iter(found)
