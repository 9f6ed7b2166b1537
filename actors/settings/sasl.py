"""The broker settings about logins by SASL: by what clients may log in, and how long that may take and holds."""

from __future__ import annotations

from typing import Final

from actors.settings.kinds import Setting, SettingType

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ENABLED_MECHANISMS: Final = "sasl.enabled.mechanisms"


def _check_mechanisms(values: tuple[str, ...]) -> str | None:
    unknown = [value for value in values if value not in SASL_MECHANISMS]
    if unknown:
        return f"{unknown[0]} is not served, only {', '.join(SASL_MECHANISMS)}; nor are there delegation tokens"
    return None


SASL_SETTINGS: Final = (
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
        name="coterie.plain.users.file",
        type=SettingType.STRING,
        default=None,
        nullable=True,
        doc="A file on each Ray node with more users of PLAIN, as Kafka's `sasl.jaas.config` has them: "
        '`user_alice="secret"`. Nobody else may read it. It is read when a broker starts.',
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
)
