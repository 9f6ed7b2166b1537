"""The proxies that are named: they, and nobody else, are believed in what they say of a caller's address."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Proxies:
    """The proxies before a port: addresses, and networks as `10.0.0.0/8`. Raises ValueError for what is neither."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._networks: tuple[_Network, ...] = tuple(ipaddress.ip_network(each, strict=False) for each in named)

    def has(self, peer: str) -> bool:
        """True if an address is that of a proxy."""
        address = _address(peer)
        return address is not None and any(address in network for network in self._networks)

    def behind(self, peer: str, forwarded: Sequence[str]) -> str:
        """The address of who asks: the last in the headers X-Forwarded-For that is no proxy's, if proxies say it.

        Each proxy adds who asked it, so that what stands before the last stranger is his own word.
        """
        named = [each.strip() for header in forwarded for each in header.split(",")]
        while self.has(peer) and named:
            address = _address(named.pop())
            if address is None:
                break
            peer = str(address)
        return peer


NO_PROXIES: Final = Proxies()


def _address(text: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0].removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
