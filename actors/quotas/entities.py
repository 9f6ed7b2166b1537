"""Entities and their quotas (KIP-546): which there may be, which of them holds for whom, and which a filter finds."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from actors import CoterieError

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

Entity = tuple[tuple[str, str | None], ...]
"""Types and names, sorted. A name of None is the default of that type."""
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Rows = Mapping[Entity, Mapping[str, float]]
"""All quotas, as the metadata has them."""

_OF_CLIENTS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
_WHOLE: Final = {
    PRODUCER_BYTE_RATE: 2**63 - 1,
    CONSUMER_BYTE_RATE: 2**63 - 1,
    CONNECTION_CREATION_RATE: 2**31 - 1,
}
_FRACTION_MAX: Final = 1e-6  # as Kafka rounds


class EntityError(CoterieError, ValueError):
    """An entity, a quota or a filter that cannot be; the text says why."""


class UnknownTypeError(EntityError):
    """A filter names a type of entities that there is not."""


# --- what there may be ---


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """The entity that these types and names are. Raises EntityError."""
    given = list(parts)
    named = dict(given)
    if not given:
        raise EntityError("an entity has a type: user, client-id or ip")
    if len(named) < len(given):
        raise EntityError("an entity has each type once")
    if unknown := named.keys() - {USER, CLIENT_ID, IP}:
        raise EntityError(f"there are no entities of type {min(unknown)!r}, only user, client-id and ip")
    if "" in named.values():
        raise EntityError("the name of an entity cannot be empty; null is the default of all others")
    if IP in named:
        if len(named) > 1:
            raise EntityError("an ip is an entity by itself")
        return ((IP, None if named[IP] is None else address_of(str(named[IP]))),)
    return tuple(sorted(named.items()))


def address_of(text: str) -> str:
    """An address as everybody writes it. Raises EntityError."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise EntityError(f"{text!r} is no address") from None


def check_quota(entity: Entity, key: str, value: float) -> None:
    """Check that an entity may have this quota. Raises EntityError."""
    check_key(entity, key)
    if not 0 < value < float("inf"):
        raise EntityError(f"{key} must be greater than 0")
    if key in _WHOLE:
        if value > _WHOLE[key]:
            raise EntityError(f"{key} is at most {_WHOLE[key]}")
        if abs(value - round(value)) > _FRACTION_MAX:
            raise EntityError(f"{key} is a whole number")


def check_key(entity: Entity, key: str) -> None:
    """Check that entities of this kind have such a quota. Raises EntityError."""
    allowed = (CONNECTION_CREATION_RATE,) if entity[0][0] == IP else _OF_CLIENTS
    if key not in allowed:
        raise EntityError(f"{key!r} is no quota of {' and '.join(kind for kind, _ in entity)}: {', '.join(allowed)}")


# --- which holds ---


@dataclass(frozen=True, slots=True)
class Limit:
    """A quota that holds for somebody, and who shares what it allows: a user, a client id, or both."""

    rate: float
    shared_by: tuple[str | None, str | None]


def limit_of(rows: Rows, key: str, user: str, client_id: str) -> Limit | None:
    """The quota of a client: that of the most specific entity that has one."""
    for names, shared_by in (
        (((CLIENT_ID, client_id), (USER, user)), (user, client_id)),
        (((CLIENT_ID, None), (USER, user)), (user, client_id)),
        (((USER, user),), (user, None)),
        (((CLIENT_ID, client_id), (USER, None)), (user, client_id)),
        (((CLIENT_ID, None), (USER, None)), (user, client_id)),
        (((USER, None),), (user, None)),
        (((CLIENT_ID, client_id),), (None, client_id)),
        (((CLIENT_ID, None),), (None, client_id)),
    ):
        rate = rows.get(names, {}).get(key)
        if rate is not None:
            return Limit(rate, shared_by)
    return None


def address_limit(rows: Rows, peer: str) -> tuple[float, str] | None:
    """The rate at which an address may connect, and what shares it: addresses of IPv6 that begin alike do."""
    address = _address(peer)
    if address is None:
        return None
    for name in (str(address), None):
        rate = rows.get(((IP, name),), {}).get(CONNECTION_CREATION_RATE)
        if rate is not None:
            return rate, _network(address)
    return None


def network_of(peer: str) -> str:
    """The network that shares its limits with an address: the address alone, or for IPv6 all that begin alike (/64)."""
    address = _address(peer)
    return peer if address is None else _network(address)


def _address(peer: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _network(address: _Address) -> str:
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))


# --- which a filter finds ---


class Match(IntEnum):
    """The names of the entities that a filter finds, by Kafka's codes."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2
    """Any name, and the default."""


@dataclass(frozen=True, slots=True)
class Component:
    """A filter's condition on one type of entities."""

    type: str
    match: int
    name: str | None


def found(rows: Rows, components: Iterable[Component], *, strict: bool) -> list[Entity]:
    """The entities that a filter finds; if it is strict, those that have no type beside. Raises EntityError."""
    wanted: dict[str, Component] = {}
    for each in components:
        _check_component(each)
        if each.type in wanted:
            raise EntityError(f"the filter names the type {each.type} twice")
        wanted[each.type] = each
    if IP in wanted and len(wanted) > 1:
        raise EntityError("an ip is an entity by itself")
    return [entity for entity in rows if _fits(dict(entity), wanted, strict)]


def _fits(named: Mapping[str, str | None], wanted: Mapping[str, Component], strict: bool) -> bool:
    if strict and len(named) != len(wanted):
        return False
    return all(each.type in named and _matches(each, named[each.type]) for each in wanted.values())


def _matches(component: Component, name: str | None) -> bool:
    if component.match == Match.SPECIFIED:
        return True
    if component.match == Match.DEFAULT or component.name is None:
        return name is None
    return name == (address_of(component.name) if component.type == IP else component.name)


def _check_component(component: Component) -> None:
    if not component.type:
        raise EntityError("a type of entities cannot be empty")
    if component.type not in (USER, CLIENT_ID, IP):
        raise UnknownTypeError(f"there are no entities of type {component.type!r}, only user, client-id and ip")
    if component.match not in tuple(Match):
        raise EntityError(f"{component.match} is no way to match: 0 is a name, 1 the default, 2 any")
    if component.match == Match.EXACT and component.name is None:
        raise EntityError("a match by name has a name")
    if component.match != Match.EXACT and component.name is not None:
        raise EntityError("only a match by name has a name")
