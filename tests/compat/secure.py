"""Secure brokers: Apache Kafka and Coterie with TLS, logins and an authorizer, and the settings to reach them.

`SECURE_KINDS` are the kinds that the tests run against.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from actors.client import Admin
from actors.security.acl import AclOperation, PatternType
from tests.compat.apache_kafka import QUICK_JAVA, ApacheKafka
from tests.compat.peers import coterie, free_ports
from tests.support.acls import GROUP, TOPIC, allowed
from tests.support.authority import Authority, Pem
from tests.support.tokens import AUDIENCE, ISSUER, everything

SECURE_KINDS: Final = ("kafka", "coterie")
ADMIN, ALICE, BOB, CAROL = "admin", "alice", "bob", "carol"
PASSWORDS: Final = {
    ADMIN: "the admin's secret",
    ALICE: "alice = secret",
    BOB: "nothing allowed",
    CAROL: "what is allowed to carol",
}
"""Users by name. The admin may do everything, the others what ACLs let them."""
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ALLOWED_URLS: Final = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="
"""The option of a JVM that has a Kafka or its client read keys or tokens there."""
BROKERS: Final = 3
SESSION_MS: Final = 4_000
"""Lifetime of a login on the listener on which logins expire.

librdkafka logs in again in the last tenth of it, so a busy machine needs this long.
"""

_LISTENERS: Final = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "TOKENS": "SASL_PLAINTEXT",
}
"""Security protocols by listener."""
_SECURITY: Final = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Login:
    """The login of one user, in the spellings of all clients: by a password, or by a certificate in SSL."""

    servers: str
    protocol: str
    cafile: str
    user: str
    password: str
    mechanism: str
    own: Pem

    def librdkafka(self) -> dict[str, str]:
        found = {"bootstrap.servers": self.servers, "security.protocol": self.protocol}
        return found | self._chosen(
            {"ssl.ca.location": self.cafile},
            {"sasl.mechanism": self.mechanism, "sasl.username": self.user, "sasl.password": self.password},
            {"ssl.certificate.location": self.own.certificate, "ssl.key.location": self.own.key},
        )

    def python(self) -> dict[str, Any]:
        """As kafka-python has it, and our own clients."""
        found = {"bootstrap_servers": self.servers, "security_protocol": self.protocol}
        sasl = {"mechanism": self.mechanism, "plain_username": self.user, "plain_password": self.password}
        return found | self._chosen(
            {"ssl_cafile": self.cafile},
            {f"sasl_{key}": text for key, text in sasl.items()},
            {"ssl_certfile": self.own.certificate, "ssl_keyfile": self.own.key},
        )

    def java(self) -> dict[str, str]:
        """As Kafka's clients and tools have it."""
        found = {"bootstrap.servers": self.servers, "security.protocol": self.protocol}
        module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
        jaas = f'{_SECURITY}.{module} required username="{self.user}" password="{self.password}";'
        return found | self._chosen(
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.cafile},
            {"sasl.mechanism": self.mechanism, "sasl.jaas.config": jaas},
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.own.both},
        )

    def go(self) -> dict[str, str]:
        """As tests/compat/goclients has it."""
        return {"servers": self.servers} | self._chosen(
            {"cafile": self.cafile},
            {"mechanism": self.mechanism, "user": self.user, "password": self.password},
            {"certificate": self.own.certificate, "key": self.own.key},
        )

    def _chosen(self, trust: dict[str, str], sasl: dict[str, str], own: dict[str, str]) -> dict[str, str]:
        """The settings among these that the protocol needs."""
        found = trust if self.protocol.endswith("SSL") else {}
        return found | (own if self.protocol == "SSL" else sasl)


@dataclass(frozen=True)
class SecurePeer:
    """A running cluster: the bootstrap servers of each listener, whom to trust, and users' certificates."""

    kind: str
    servers: Mapping[str, str]
    cafile: str
    certificates: Mapping[str, Pem]
    expiring: str = "SASL_PLAINTEXT"
    """The listener on which a login ends after two seconds."""

    @property
    def plain(self) -> str:
        """The bootstrap servers of the listener without logins; all brokers."""
        return self.servers["PLAINTEXT"]

    def settings(
        self, user: str = ADMIN, mechanism: str = "SCRAM-SHA-256", protocol: str = "SASL_SSL"
    ) -> dict[str, Any]:
        """The settings of a client of ours that logs in as this user."""
        return self.login(user, mechanism, protocol).python()

    def login(self, user: str, mechanism: str = "SCRAM-SHA-256", protocol: str = "SASL_SSL") -> Login:
        own = self.certificates[user if protocol == "SSL" else ADMIN]
        return Login(self.servers[protocol], protocol, self.cafile, user, PASSWORDS[user], mechanism, own)


def _common(folder: Path, authority: Authority) -> dict[str, str]:
    """The settings that both kinds have."""
    keys = folder / "keys.json"
    keys.write_bytes(everything())
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{ADMIN};User:anne",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.sign("localhost", "127.0.0.1").both,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.cafile,
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "3",
    }


def _peer(kind: str, servers: Mapping[str, str], authority: Authority) -> SecurePeer:
    """The running cluster, after alice gets all rights on topics and groups of her name, and carol describes these."""
    names: dict[str, Any] = {"name": "alices-", "pattern": PatternType.PREFIXED}
    rights = [allowed(AclOperation.ALL, each, by=f"User:{ALICE}", **names) for each in (TOPIC, GROUP)]
    rights.append(allowed(AclOperation.DESCRIBE, GROUP, by=f"User:{CAROL}", **names))
    with Admin(bootstrap_servers=servers["PLAINTEXT"]) as admin:
        admin.create_acls(rights)
    certificates = {name: authority.sign("localhost", common_name=name) for name in (ADMIN, ALICE)}
    return SecurePeer(kind, servers, authority.cafile, certificates)


@contextlib.contextmanager
def secure_kafka(folder: Path) -> Iterator[SecurePeer]:
    """Run Apache Kafka with a listener of each kind, all users, and the StandardAuthorizer."""
    authority = Authority(folder)
    logins = "".join(f' user_{name}="{password}"' for name, password in PASSWORDS.items())
    protocols = [*(":".join(pair) for pair in _LISTENERS.items()), "CONTROLLER:PLAINTEXT"]
    settings = _common(folder, authority) | {"listener.security.protocol.map": ",".join(protocols)}
    for name in ("sasl_ssl", "sasl_plaintext"):
        prefix = f"listener.name.{name}"
        settings[f"{prefix}.plain.sasl.jaas.config"] = f"{_SECURITY}.plain.PlainLoginModule required{logins};"
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            settings[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{_SECURITY}.scram.ScramLoginModule required;"
    prefix, bearer = "listener.name.tokens.oauthbearer", f"{_SECURITY}.oauthbearer"
    settings |= {
        f"{prefix}.sasl.server.callback.handler.class": f"{bearer}.OAuthBearerValidatorCallbackHandler",
        f"{prefix}.sasl.jaas.config": f"{bearer}.OAuthBearerLoginModule required;",
        f"{prefix}.connections.max.reauth.ms": "3600000",
    }
    allowed = ALLOWED_URLS + settings["sasl.oauthbearer.jwks.endpoint.url"]
    kafka = ApacheKafka(
        folder, config=settings, listeners=[*_LISTENERS][1:], users=PASSWORDS, java=[*QUICK_JAVA, allowed]
    )
    kafka.format()
    try:
        kafka.start()
        servers = {name: f"localhost:{port}" for name, port in kafka.listeners.items()}
        yield _peer("kafka", servers | {"PLAINTEXT": kafka.bootstrap_servers}, authority)
    finally:
        kafka.stop()


@contextlib.contextmanager
def secure_coterie(folder: Path) -> Iterator[SecurePeer]:
    """Run three brokers of Coterie with the same listeners, users and rights."""
    authority = Authority(folder)
    ports = dict(zip(_LISTENERS, free_ports(len(_LISTENERS), BROKERS), strict=True))
    options = []
    for name, password in PASSWORDS.items():
        path = folder / f"password-{name}"
        path.touch(0o600)
        path.write_text(password)
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            options += ["--add-scram", f"{mechanism}=[name={name},password-file={path}]"]
    settings = _common(folder, authority) | {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(map(":".join, _LISTENERS.items())),
    }
    with coterie(folder, brokers=BROKERS, port=None, config=settings, more=options):
        servers = {name: f"localhost:{port}" for name, port in ports.items()}
        everywhere = [f"127.0.0.1:{ports['PLAINTEXT'] + number}" for number in range(BROKERS)]
        yield _peer("coterie", servers | {"PLAINTEXT": ",".join(everywhere)}, authority)


@contextlib.contextmanager
def secure_peer(kind: str, folder: Path) -> Iterator[SecurePeer]:
    """Run the secure peer called `kind`. Raises UnavailableError where it cannot run."""
    start = {"kafka": secure_kafka, "coterie": secure_coterie}[kind]
    with start(folder) as peer:
        yield peer
