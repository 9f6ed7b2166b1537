"""The broker settings about TLS, by Kafka's names. Each may be set for one listener alone."""

from __future__ import annotations

from typing import Any, Final

from actors.settings.kinds import MAX_INT, Setting, SettingType

_PEM: Final = "PEM is the only form that is read; errors say how to convert others. Kafka's default is JKS."
_SECRET: Final = "Not among the settings of a cluster, whose values travel through Ray: they name files."


def absolute(path: str | None) -> str | None:
    """The fault in the path of a file that each node has; None if it is right."""
    return None if path is None or path.startswith("/") else "must be an absolute path, the same on each node"


def _text(name: str, default: str | None, doc: str, **more: Any) -> Setting:
    nullable = default is None
    return Setting(
        name=name, type=SettingType.STRING, default=default, nullable=nullable, doc=doc, per_listener=True, **more
    )


def _list(name: str, default: tuple[str, ...], doc: str) -> Setting:
    return Setting(name=name, type=SettingType.LIST, default=default, doc=doc, per_listener=True)


def _flag(name: str, doc: str) -> Setting:
    return Setting(name=name, type=SettingType.BOOLEAN, default=False, doc=doc, per_listener=True)


def _secret(name: str, doc: str) -> Setting:
    return Setting(
        name=name,
        type=SettingType.PASSWORD,
        default=None,
        nullable=True,
        doc=f"{doc} {_SECRET}",
        per_listener=True,
        dynamic=True,
    )


TLS_SETTINGS: Final = (
    _text(
        "ssl.client.auth",
        "none",
        "Clients' certificates: `none`, `requested` (one that is shown must be good), `required`. On a "
        "SASL_SSL listener only the setting with the listener's prefix counts, as in Kafka.",
        choices=("none", "requested", "required"),
    ),
    _list("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), "The versions of TLS that are taken, of these two."),
    _text("ssl.protocol", "TLSv1.3", "The highest version of TLS that is taken."),
    _list(
        "ssl.cipher.suites",
        (),
        "The cipher suites that are taken, in order, by IANA's or OpenSSL's names; all good ones if empty. Of TLS 1.3, "
        "all three or none can be named.",
    ),
    _text("ssl.keystore.type", "PEM", f"The form of the key store. {_PEM}", dynamic=True),
    _flag(
        "coterie.ssl.own.certificates",
        "If true, a broker without a key store makes its certificate itself, anew at each start, signed by an "
        "authority that follows from the cluster's secret. `coterie up --secure` sets it, and writes "
        "`DATA_DIR/ca.pem`, which clients trust.",
    ),
    _list(
        "coterie.ssl.own.names",
        (),
        "More names and addresses for the certificate that a broker makes itself: those by which clients reach it "
        "through a service or a load balancer.",
    ),
    _text(
        "ssl.keystore.location",
        None,
        "A PEM file on the broker's node: its certificate, those that lead to the authority, and the key. It is read "
        "again when it changes.",
        check=absolute,
        dynamic=True,
    ),
    _secret("ssl.keystore.certificate.chain", "The certificates as PEM text."),
    _secret("ssl.keystore.key", "Their key as PEM text."),
    _secret("ssl.key.password", "The password of an encrypted key."),
    _text(
        "coterie.ssl.key.password.file",
        None,
        "A file on the broker's node with what opens an encrypted key.",
        check=absolute,
        dynamic=True,
    ),
    _secret("ssl.keystore.password", "A key store in PEM has none: setting it is an error."),
    _text("ssl.truststore.type", "PEM", f"The form of the trust store. {_PEM}", dynamic=True),
    _text(
        "ssl.truststore.location",
        None,
        "A PEM file on the broker's node with the authorities of clients' certificates. It is read again when it "
        "changes.",
        check=absolute,
        dynamic=True,
    ),
    _secret("ssl.truststore.certificates", "The authorities as PEM text."),
    _secret("ssl.truststore.password", "A trust store in PEM has none: setting it is an error."),
    _text(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "Rules that make a principal of the subject of a client's certificate: DEFAULT, or RULE:pattern/replacement/ "
        "with L or U, separated by commas. A pattern is Java's, as far as it takes linear time (RE2): without "
        "look-around, back references and possessive quantifiers.",
    ),
    _flag("ssl.allow.dn.changes", "If true, a certificate may be replaced by one with another subject."),
    _flag("ssl.allow.san.changes", "If true, a certificate may be replaced by one that lacks alternative names."),
    Setting(
        name="coterie.connection.setup.timeout.ms",
        type=SettingType.INT,
        default=30_000,
        low=1,
        doc="The time that a client has from its connection on to prove who it is. Its bytes do not extend this.",
        per_listener=True,
    ),
    Setting(
        name="coterie.unauthenticated.connections.max",
        type=SettingType.INT,
        default=1000,
        low=1,
        doc="Most connections of a listener whose clients have not proved who they are. Beyond them, the oldest of the "
        "address that holds most of them is closed.",
        per_listener=True,
    ),
    Setting(
        name="coterie.certificates.check.ms",
        type=SettingType.INT,
        default=10_000,
        low=0,
        high=MAX_INT,
        doc="Interval at which the files of key and trust stores are compared with what was read; with 0 only when "
        "IncrementalAlterConfigs sets their location.",
    ),
)
