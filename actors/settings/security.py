"""The broker settings about security, by Kafka's names: listeners and what protects them."""

from __future__ import annotations

from typing import Final

from actors.settings.kinds import Setting, SettingType
from actors.settings.listeners import ADVERTISED, LISTENERS, PROTOCOL_MAP, SecurityProtocol, check_form, check_map

LISTENER_SETTINGS: Final = (
    Setting(
        name=LISTENERS,
        type=SettingType.LIST,
        default=("PLAINTEXT://:9092",),
        doc="Where brokers listen, as NAME://HOST:PORT. An empty host means every interface. The ports are those of "
        "broker 0: broker i has each of them plus i; 0 is any free one. Listeners for Kafka's controllers are ignored.",
        check=check_form,
    ),
    Setting(
        name=ADVERTISED,
        type=SettingType.LIST,
        default=None,
        nullable=True,
        doc="What clients are told to connect to, for those listeners that it names; `listeners` if unset. An empty "
        "host is the address of the broker's node.",
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

_LINKS: Final = (
    Setting(
        name="coterie.internal.security",
        type=SettingType.STRING,
        default=None,
        nullable=True,
        choices=("tls", "proof"),
        doc="What protects the connections between controller and brokers: `tls`, or `proof` alone, by which both ends "
        "show that they know the cluster's secret, and after which nothing is encrypted. Unset: `tls` if a listener "
        "uses TLS.",
    ),
)

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ENABLED_MECHANISMS: Final = "sasl.enabled.mechanisms"


def _check_mechanisms(values: tuple[str, ...]) -> str | None:
    unknown = [value for value in values if value not in SASL_MECHANISMS]
    if unknown:
        return f"{unknown[0]} is not served, only {', '.join(SASL_MECHANISMS)}; nor are there delegation tokens"
    return None


_SASL: Final = (
    Setting(
        name=ENABLED_MECHANISMS,
        type=SettingType.LIST,
        default=(),
        doc=f"By what clients of a SASL listener may log in: {', '.join(SASL_MECHANISMS)}. A SASL listener needs at "
        "least one (Kafka's default is GSSAPI).",
        check=_check_mechanisms,
        per_listener=True,
    ),
    Setting(
        name="sasl.server.max.receive.size",
        type=SettingType.INT,
        default=524_288,
        low=1024,
        doc="Longest request of a client that has not logged in yet.",
    ),
    Setting(
        name="connections.max.reauth.ms",
        type=SettingType.LONG,
        default=0,
        doc="How long a login holds; then the client has to log in again on its connection, or is closed (KIP-368). "
        "0: for as long as the connection.",
        per_listener=True,
    ),
    Setting(
        name="connection.failed.authentication.delay.ms",
        type=SettingType.INT,
        default=100,
        low=0,
        doc="How long a client whose login has failed waits for the answer; below connections.max.idle.ms.",
    ),
    Setting(
        name="coterie.connection.setup.timeout.ms",
        type=SettingType.INT,
        default=30_000,
        low=1,
        doc="How long a client may take from its connection to its login, whatever it sends.",
        per_listener=True,
    ),
    Setting(
        name="coterie.unauthenticated.connections.max",
        type=SettingType.INT,
        default=1000,
        low=1,
        doc="Most connections of clients that have not logged in. At one more, the oldest of the address that has most "
        "of them is closed.",
        per_listener=True,
    ),
)
SECURITY_SETTINGS: Final[tuple[Setting, ...]] = (*_SASL, *_LINKS)
