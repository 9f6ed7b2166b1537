"""The names by which we may be called.

A page of others whose name is made to lead to this machine (DNS rebinding) still calls us by that name. An address is
nobody's name, and is let pass.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence


class OurNames:
    """Our names beside localhost and addresses."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset({"localhost", *(name.lower() for name in names)})

    def has(self, hosts: Sequence[str]) -> bool:
        """True if a request with these Host headers means us."""
        return len(hosts) == 1 and self._is_ours(_without_port(hosts[0]))

    def _is_ours(self, name: str) -> bool:
        return name in self._names or _is_address(name)


def _without_port(host: str) -> str:
    name, separator, port = host.lower().rpartition(":")
    return name if separator and port.isdigit() and not host.endswith("]") else host.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
