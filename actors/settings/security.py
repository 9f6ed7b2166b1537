"""The broker settings about security, by Kafka's names: listeners and what protects them."""

from __future__ import annotations

from typing import Final

from actors.settings.kinds import Setting, SettingType
from actors.settings.listeners import (
    ADVERTISED,
    LINKS,
    LISTENERS,
    OWN_STORE,
    OWN_TRUST,
    PROTOCOL_MAP,
    LinkSecurity,
    SecurityProtocol,
    check_form,
    check_map,
)
from actors.settings.sasl import SASL_SETTINGS
from actors.settings.tls import TLS_SETTINGS, absolute

LISTENER_SETTINGS: Final = (
    Setting(
        name=LISTENERS,
        type=SettingType.LIST,
        default=("PLAINTEXT://:9092",),
        doc="Addresses at which brokers listen, as NAME://HOST:PORT. An empty host means every interface. The ports "
        "are those of broker 0: broker i has each of them plus i; 0 is any free one. "
        "Listeners for Kafka's controllers are ignored.",
        check=check_form,
    ),
    Setting(
        name=ADVERTISED,
        type=SettingType.LIST,
        default=None,
        nullable=True,
        doc="Addresses that clients are told to connect to, for those listeners that it names; `listeners` if unset. "
        "An empty host is the address of the broker's node.",
        check=check_form,
    ),
    Setting(
        name=PROTOCOL_MAP,
        type=SettingType.LIST,
        default=tuple(f"{protocol}:{protocol}" for protocol in ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")),
        doc=f"The security protocol of each listener's name: one of {', '.join(SecurityProtocol)}.",
        check=check_map,
    ),
)
_STORES: Final = {
    OWN_STORE: "A PEM file on each node with a certificate for the node's address and its key, which controller and "
    "brokers show each other instead of one of their own making. A process that connects looks for the address in it.",
    OWN_TRUST: "A PEM file on each node with the authorities of these certificates.",
}


def _store(name: str, doc: str) -> Setting:
    when = "Both files or none. They are read when a process starts, where the connections are in TLS."
    return Setting(name=name, type=SettingType.STRING, default=None, nullable=True, doc=f"{doc} {when}", check=absolute)


SECURITY_SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        name=LINKS,
        type=SettingType.STRING,
        default=None,
        nullable=True,
        choices=tuple(LinkSecurity),
        doc="The protection of the connections between controller and brokers: `tls`, or `proof` alone, by which both "
        "ends show that they know the cluster's secret, and after which nothing is encrypted. `both` is for a cluster "
        "that changes from one to the other: TLS, but who connects without is taken, too. Unset: `tls` if a listener "
        "uses TLS.",
    ),
    *(_store(name, doc) for name, doc in _STORES.items()),
    Setting(
        name="coterie.debug.core",
        type=SettingType.BOOLEAN,
        default=False,
        doc="If true, controller and brokers, which hold secrets, may leave core dumps.",
    ),
    *SASL_SETTINGS,
    *TLS_SETTINGS,
)
