"""The broker settings about logins by SASL: by what clients may log in, and how long that may take and holds."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from actors.settings.kinds import Setting, SettingType

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
ENABLED_MECHANISMS: Final = "sasl.enabled.mechanisms"
EXPECTED_ISSUER: Final = "sasl.oauthbearer.expected.issuer"
EXPECTED_AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
BACKOFF: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
BACKOFF_MAX: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"


def _check_mechanisms(values: tuple[str, ...]) -> str | None:
    unknown = [value for value in values if value not in SASL_MECHANISMS]
    if unknown:
        return f"{unknown[0]} is not served, only {', '.join(SASL_MECHANISMS)}; nor are there delegation tokens"
    return None


def _check_url(value: str | None) -> str | None:
    try:
        found = urlsplit(value or "")
        port = found.port  # raises if it is none
    except ValueError:
        return "must be a URL"
    if found.username is not None or found.password is not None:
        return "must have no user and no password"
    if value is None or (found.scheme == "https" and found.hostname and port != 0):
        return None
    if found.scheme == "file" and found.netloc in ("", "localhost") and found.path.startswith("/"):
        return None
    return "must be https://HOST... or file:///PATH"


_OAUTH: Final = (
    Setting(
        name=JWKS_URL,
        type=SettingType.STRING,
        default=None,
        nullable=True,
        doc="The place of the public keys of those who sign tokens, as a JWK set: https://..., or file:///..., a file "
        "on each Ray node. A listener with OAUTHBEARER needs it. Proxies and redirects are not followed.",
        check=_check_url,
        per_listener=True,
    ),
    Setting(
        name="coterie.oauthbearer.jwks.ca.file",
        type=SettingType.STRING,
        default=None,
        nullable=True,
        doc="A PEM file on each Ray node with the authorities that the certificate of that https address may be of; "
        "the system's if unset.",
        per_listener=True,
    ),
    Setting(
        name="sasl.oauthbearer.jwks.endpoint.refresh.ms",
        type=SettingType.LONG,
        default=3_600_000,
        low=1000,
        doc="Interval at which the keys are read anew. An unknown one in a token has them read, too, once a minute.",
        per_listener=True,
    ),
    Setting(
        name=BACKOFF,
        type=SettingType.LONG,
        default=100,
        low=1,
        doc="Wait before the first new try to read the keys; doubles with each. Those that a broker has go on working.",
        per_listener=True,
    ),
    Setting(
        name=BACKOFF_MAX,
        type=SettingType.LONG,
        default=10_000,
        low=1,
        doc="The longest such wait.",
        per_listener=True,
    ),
    Setting(
        name=EXPECTED_ISSUER,
        type=SettingType.STRING,
        default=None,
        nullable=True,
        doc="The issuer (`iss`) that a token must have. A listener with OAUTHBEARER needs it, or to be told that any "
        "will do.",
        per_listener=True,
    ),
    Setting(
        name="sasl.oauthbearer.allow.unverified.issuer",
        type=SettingType.BOOLEAN,
        default=False,
        doc="If true, tokens of any issuer will do where none is expected.",
        per_listener=True,
    ),
    Setting(
        name=EXPECTED_AUDIENCE,
        type=SettingType.LIST,
        default=(),
        doc="The audience that a token must have (`aud`): one of these. A listener with OAUTHBEARER needs it, or to be "
        "told that tokens for anybody will do.",
        per_listener=True,
    ),
    Setting(
        name="sasl.oauthbearer.allow.unverified.audience",
        type=SettingType.BOOLEAN,
        default=False,
        doc="If true, tokens for anybody will do where no audience is expected.",
        per_listener=True,
    ),
    Setting(
        name="sasl.oauthbearer.sub.claim.name",
        type=SettingType.STRING,
        default="sub",
        doc="The claim of a token that names the user.",
        per_listener=True,
    ),
    Setting(
        name="sasl.oauthbearer.clock.skew.seconds",
        type=SettingType.INT,
        default=30,
        low=0,
        doc="The most that the clocks of broker and issuer may be apart.",
        per_listener=True,
    ),
)

SASL_SETTINGS: Final = (
    Setting(
        name=ENABLED_MECHANISMS,
        type=SettingType.LIST,
        default=(),
        doc=f"Mechanisms by which clients of a SASL listener may log in: {', '.join(SASL_MECHANISMS)}. A SASL listener "
        "needs at least one (Kafka's default is GSSAPI).",
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
        doc="The time for which a login holds; then the client has to log in again on its connection, or is closed "
        "(KIP-368). 0: for as long as the connection.",
        per_listener=True,
    ),
    Setting(
        name="connection.failed.authentication.delay.ms",
        type=SettingType.INT,
        default=100,
        low=0,
        doc="The time that a client whose login has failed waits for the answer; below connections.max.idle.ms.",
    ),
    *_OAUTH,
)
