"""Listeners: where brokers take clients, under which name, and by which security protocol (KIP-103).

A listener's settings stand under `listener.name.` + its name in lower case + `.`, and hold over those without that
prefix (KIP-226).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

from actors.settings.kinds import SettingError

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
LINKS: Final = "coterie.internal.security"
ANY_HOST: Final = ("0.0.0.0", "::", "")
"""Addresses to listen at, to which nobody can connect."""
_CONTROLLER: Final = "CONTROLLER"
_CONTROLLER_NAMES: Final = "controller.listener.names"
_FORM: Final = re.compile(r"([A-Za-z0-9_.-]+)://([^:/\s\[\]]*|\[[0-9a-fA-F:.]+\]):(\d{1,5})")
_PORT_MAX: Final = 65535


class LinkSecurity(StrEnum):
    """The protection of connections between a cluster's processes, beside the proof that both ends know its secret."""

    PROOF = "proof"
    """Nothing. A process that connects in TLS is taken as well: it may have changed already."""
    BOTH = "both"
    """TLS, but who connects without is taken as well: it may have to change yet."""
    TLS = "tls"

    @property
    def encrypts(self) -> bool:
        """True if a process that has this connects to others in TLS."""
        return self is not LinkSecurity.PROOF


class SecurityProtocol(StrEnum):
    """The layers at a connection's beginning: nothing, TLS, SASL, or TLS and then SASL."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def tls(self) -> bool:
        """True if bytes travel under TLS."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def sasl(self) -> bool:
        """True if a client has to log in by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener: its name in upper case, and an address. Port 0 is any free one; an empty host every interface."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int


def check_form(values: Iterable[str]) -> str | None:
    """The fault in the form of listeners, or None: NAME://HOST:PORT, an IPv6 host in brackets."""
    for value in values:
        found = _FORM.fullmatch(value)
        if not found or int(found[3]) > _PORT_MAX:
            return f"{value!r} is not NAME://HOST:PORT"
    return None


def check_map(values: Iterable[str]) -> str | None:
    """The fault of a map of names to protocols, or None."""
    for value in values:
        name, colon, protocol = value.partition(":")
        if not (name.strip() and colon and protocol.strip() in SecurityProtocol.__members__):
            return f"{value!r} is not NAME:PROTOCOL with one of {', '.join(SecurityProtocol)}"
    return None


def listeners_of(values: Mapping[str, Any]) -> tuple[Listener, ...]:
    """The listeners for clients in a broker's settings. Raises SettingError, naming the listener and the setting."""
    found = _parsed(values, LISTENERS)
    if not found:
        raise SettingError(LISTENERS, f"{LISTENERS}={','.join(values[LISTENERS])} names no listener for clients")
    _no_two_alike(found)
    advertised = _parsed(values, ADVERTISED)
    names = {listener.name for listener in found}
    for each in advertised:
        if each.name not in names:
            raise SettingError(ADVERTISED, f"{ADVERTISED} has {each.name}, which {LISTENERS} has not")
        if each.host in ("0.0.0.0", "::"):
            text = f"{ADVERTISED} has {each.name}://{each.host}: nobody can connect to that; name an address"
            raise SettingError(ADVERTISED, text)
    return found


def advertised_of(values: Mapping[str, Any]) -> dict[str, Listener]:
    """The listeners of `advertised.listeners`, by their names."""
    return {listener.name: listener for listener in _parsed(values, ADVERTISED)}


def link_security(values: Mapping[str, Any]) -> LinkSecurity:
    """The protection of the connections between controller and brokers."""
    chosen = values[LINKS]
    if chosen is not None:
        return LinkSecurity(chosen)
    return LinkSecurity.TLS if any(each.protocol.tls for each in listeners_of(values)) else LinkSecurity.PROOF


OWN_STORE: Final = "coterie.internal.ssl.keystore.location"
OWN_TRUST: Final = "coterie.internal.ssl.truststore.location"


@dataclass(frozen=True, slots=True)
class LinkStores:
    """The operator's two PEM files for TLS between the cluster's processes: their certificates, and those they trust.

    Without them each process makes a certificate, which only those that know the cluster's secret can make and check.
    """

    keys: str | None = None
    trusted: str | None = None


def link_stores(values: Mapping[str, Any]) -> LinkStores:
    """The stores of the links between controller and brokers, where these are in TLS. Raises SettingError."""
    keys, trusted = values[OWN_STORE], values[OWN_TRUST]
    if (keys is None) != (trusted is None):
        missing = OWN_TRUST if keys else OWN_STORE
        raise SettingError(missing, f"{OWN_STORE} and {OWN_TRUST} go together: set {missing}, too")
    return LinkStores(keys, trusted)


def prefix_of(listener: str) -> str:
    """The beginning of the settings of one listener."""
    return f"listener.name.{listener.lower()}."


def _parsed(values: Mapping[str, Any], key: str) -> tuple[Listener, ...]:
    protocols = _protocols(values)
    controllers = {name.upper() for name in values.get(_CONTROLLER_NAMES) or ()} | {_CONTROLLER}
    found = []
    for text in values[key] or ():
        match = _FORM.fullmatch(text)
        assert match is not None, "the setting's check looks at the form"
        name = match[1].upper()
        if name in controllers:  # Kafka's own, for its controllers
            continue
        protocol = protocols.get(name)
        if protocol is None:
            raise SettingError(key, f"listener {name} of {key} is not in {PROTOCOL_MAP}: add {name}:PROTOCOL to it")
        found.append(Listener(name, protocol, match[2].strip("[]"), int(match[3])))
    return tuple(found)


def _protocols(values: Mapping[str, Any]) -> dict[str, SecurityProtocol]:
    pairs = (text.partition(":") for text in values[PROTOCOL_MAP])
    return {name.strip().upper(): SecurityProtocol(protocol.strip()) for name, _, protocol in pairs}


def _no_two_alike(found: tuple[Listener, ...]) -> None:
    for index, one in enumerate(found):
        for other in found[:index]:
            if one.name == other.name:
                raise SettingError(LISTENERS, f"{LISTENERS} has {one.name} twice")
            if one.port and one.port == other.port and _meet(one.host, other.host):
                text = f"{other.name} and {one.name} of {LISTENERS} share port {one.port}: give each a port of its own"
                raise SettingError(LISTENERS, text)


def _meet(one: str, other: str) -> bool:
    """True if two hosts may be the same address; one of IPv4 and one of IPv6 are not (KIP-797)."""
    return not (one and other and (":" in one) != (":" in other))


class ListenerConfig:
    """The settings that hold for one listener, and for one of its SASL mechanisms."""

    def __init__(self, values: Mapping[str, Any], listener: str, mechanism: str | None = None) -> None:
        self._values = values
        self._listener = listener
        prefix = prefix_of(listener)
        self._prefixes = (f"{prefix}{mechanism.lower()}.", prefix, "") if mechanism else (prefix, "")

    def for_mechanism(self, mechanism: str) -> ListenerConfig:
        """The settings that hold for a SASL mechanism of this listener."""
        return ListenerConfig(self._values, self._listener, mechanism)

    def __getitem__(self, key: str) -> Any:
        return self._values[self.name_of(key)]

    def name_of(self, key: str) -> str:
        """The name under which the value stands that holds: for error texts."""
        return next((prefix + key for prefix in self._prefixes if prefix and prefix + key in self._values), key)

    def own(self, key: str) -> Any:
        """The value that is set for this listener alone; None if there is none."""
        name = self.name_of(key)
        return None if name == key else self._values[name]

    def integer(self, key: str) -> int:
        """The value of a whole number that is always set."""
        return cast(int, self[key])

    def boolean(self, key: str) -> bool:
        """The value of a setting that is true or false."""
        return cast(bool, self[key])

    def text(self, key: str) -> str | None:
        """The value of a string; None if it is unset."""
        return cast("str | None", self[key])

    def items_of(self, key: str) -> tuple[str, ...]:
        """The value of a list; empty if it is unset."""
        return cast("tuple[str, ...] | None", self[key]) or ()
