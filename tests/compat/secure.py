"""Brokers that ask who is there: Apache Kafka and Coterie with TLS, logins and an authorizer, and how to reach them.

`SECURE_KINDS` are the kinds that the tests run against.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.compat.peers import ApacheKafka, coterie, free_ports
from tests.support.authority import Authority, Pem

SECURE_KINDS: Final = ("kafka", "coterie")
ADMIN, ALICE, BOB = "admin", "alice", "bob"
PASSWORDS: Final = {ADMIN: "the admin's secret", ALICE: "alice=secret", BOB: "nothing allowed"}
"""Users by name. The admin may do everything, the others what ACLs let them."""

_LISTENERS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_JAAS: Final = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class SecurePeer:
    """A running cluster: the bootstrap servers of each listener, whom to trust, and a client's certificate."""

    kind: str
    servers: Mapping[str, str]
    cafile: str
    certificate: Pem
    expiring: str = "SASL_PLAINTEXT"
    """The listener on which a login ends after two seconds."""

    def settings(
        self, user: str = ADMIN, mechanism: str = "SCRAM-SHA-256", protocol: str = "SASL_SSL"
    ) -> dict[str, Any]:
        """What a client of ours needs to log in as this user."""
        found: dict[str, Any] = {"bootstrap_servers": self.servers[protocol], "security_protocol": protocol}
        if protocol.endswith("SSL"):
            found["ssl_cafile"] = self.cafile
        if protocol.startswith("SASL"):
            found |= {
                "sasl_mechanism": mechanism,
                "sasl_plain_username": user,
                "sasl_plain_password": PASSWORDS[user],
            }
        return found


def _common(authority: Authority) -> dict[str, str]:
    """The settings that both kinds have."""
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{ADMIN};User:CN={ADMIN}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.sign("localhost", "127.0.0.1").both,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.cafile,
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^.*(CN=[^,]+).*$/$1/",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.connections.max.reauth.ms": "2000",
        "auto.create.topics.enable": "false",
    }


@contextlib.contextmanager
def secure_kafka(folder: Path) -> Iterator[SecurePeer]:
    """Run Apache Kafka with a listener of each kind, all users, and the StandardAuthorizer."""
    authority = Authority(folder)
    logins = "".join(f' user_{name}="{password}"' for name, password in PASSWORDS.items())
    protocols = [*(f"{name}:{name}" for name in _LISTENERS), "CONTROLLER:PLAINTEXT"]
    settings = _common(authority) | {"listener.security.protocol.map": ",".join(protocols)}
    for name in ("sasl_ssl", "sasl_plaintext"):
        prefix = f"listener.name.{name}"
        settings[f"{prefix}.plain.sasl.jaas.config"] = f"{_JAAS}.plain.PlainLoginModule required{logins};"
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            settings[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{_JAAS}.scram.ScramLoginModule required;"
    kafka = ApacheKafka(folder, config=settings, listeners=_LISTENERS[1:], users=PASSWORDS)
    kafka.format()
    try:
        kafka.start()
        servers = {name: f"localhost:{port}" for name, port in kafka.listeners.items()}
        servers["PLAINTEXT"] = kafka.bootstrap_servers
        yield SecurePeer("kafka", servers, authority.cafile, authority.sign("localhost", common_name=ADMIN))
    finally:
        kafka.stop()


@contextlib.contextmanager
def secure_coterie(folder: Path) -> Iterator[SecurePeer]:
    """Run one broker of Coterie with the same listeners, users and rights."""
    authority = Authority(folder)
    ports = dict(zip(_LISTENERS, free_ports(len(_LISTENERS)), strict=True))
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    options = []
    for name, password in PASSWORDS.items():
        path = folder / f"password-{name}"
        path.touch(0o600)
        path.write_text(password)
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            options += ["--add-scram", f"{mechanism}=[name={name},password-file={path}]"]
    settings = _common(authority) | {"listeners": listeners}
    with coterie(folder, brokers=1, port=None, config=settings, more=options):
        servers = {name: f"localhost:{port}" for name, port in ports.items()}
        yield SecurePeer("coterie", servers, authority.cafile, authority.sign("localhost", common_name=ADMIN))


@contextlib.contextmanager
def secure_peer(kind: str, folder: Path) -> Iterator[SecurePeer]:
    """Run the secure peer called `kind`. Raises UnavailableError where it cannot run."""
    start = {"kafka": secure_kafka, "coterie": secure_coterie}[kind]
    with start(folder) as peer:
        yield peer
