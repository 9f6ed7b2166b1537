"""Brokers take other listeners, certificates and another secret while clients write and read: nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography import x509

from actors.cluster import Cluster, ClusterError
from tests.ray.support import topic, wait_until
from tests.ray.traffic import Member, Writer
from tests.support.certificates import chain_of, key_of
from tests.support.tls_world import install

CA, ANOTHER = trustme.CA(), trustme.CA()
HOSTS = ("127.0.0.1", "localhost")
PASSWORD = "pa$$word of the tests"
SOON = {"heartbeat.interval.ms": 300}  # a member hears of a rebalance by its heartbeat


def leaf(authority: trustme.CA = CA, until: datetime | None = None) -> trustme.LeafCert:
    return authority.issue_cert(*HOSTS, organization_unit_name="brokers", not_after=until)


class Pool:
    """Counts the connections of librdkafka that have ended. It opens a connection only when it needs one."""

    def __init__(self) -> None:
        self.ended = 0
        self.told = threading.Event()
        self.settings = {"statistics.interval.ms": 200, "stats_cb": self._note}

    def _note(self, text: str) -> None:
        self.ended = sum(broker["disconnects"] for broker in json.loads(text)["brokers"].values())
        self.told.set()


def serial(address: str) -> int:
    """The serial number of the certificate that a new connection is shown, whoever has signed it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain) as connection:
        shown = connection.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown).serial_number


def serial_of(certificate: trustme.LeafCert) -> int:
    return x509.load_pem_x509_certificate(certificate.cert_chain_pems[0].bytes()).serial_number


def refused(address: str) -> bool:
    host, _, port = address.partition(":")
    try:
        socket.create_connection((host, int(port))).close()
    except ConnectionRefusedError:
        return True
    return False


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    sys.stdout.write(f"{what} took {time.monotonic() - begun:.1f} s\n")


def put(path: Path, text: str) -> None:
    """Put a file in the place of another, as a whole."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def problems(cluster: Cluster) -> list[str]:
    """For each broker, the reason why it does not use the certificate in its file."""
    return [str(broker["load"]["tls"][0]["problem"]) for broker in cluster.status()["brokers"]]


def add_user(servers: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion("ann", info, PASSWORD.encode())
    admin = AdminClient({"bootstrap.servers": servers})
    (answer,) = admin.alter_user_scram_credentials([upsertion]).values()
    answer.result(30)


@pytest.mark.conformance("XG-11", "XE-06")
def test_from_plaintext_to_sasl_ssl_new_certificates_and_a_new_secret_under_load(
    start: Callable[..., Cluster], name: str, tmp_path: Path
) -> None:
    data, trust = tmp_path / "data", tmp_path / "trust.pem"
    CA.cert_pem.write_to_path(trust)
    login: dict[str, Any] = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(trust)}
    login |= {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "ann", "sasl.password": PASSWORD}
    with (
        start(brokers=3, data_dir=data, coterie_certificates_check_ms="100") as cluster,
        contextlib.ExitStack() as stack,
    ):
        plain = cluster.bootstrap_servers
        topic(plain, name, 3, factor=3, min_insync_replicas="2")
        add_user(plain)
        former = Member(plain, f"{name}-g", name, **SOON)
        writer = stack.enter_context(Writer(plain, name))
        stack.enter_context(former)
        wait_until(lambda: len(former.values) > 100, what="traffic")

        # A second listener, beside the first.
        with pytest.raises(ClusterError, match=r"broker 0 does not start: .*TLS needs a certificate"):
            cluster.roll(
                {
                    "listeners": "SASL_SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
                    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                }
            )
        first = leaf()
        with timed("a second listener"):
            cluster.roll({"ssl.keystore.location": install(tmp_path, first)})
        secure = cluster.bootstrap_servers
        assert not set(secure.split(",")) & set(plain.split(","))

        # The clients move.
        pool = Pool()
        moved = Member(secure, f"{name}-g", name, **login, **SOON)
        stack.callback(moved.client.close)
        stack.enter_context(moved)
        later = stack.enter_context(Writer(secure, name, **login, **pool.settings))
        wait_until(lambda: len(later.acknowledged) > 100, what="a writer that has moved")
        writer.end()
        wait_until(lambda: moved.changes and moved.values, what="a member that has moved")
        former.end()
        former.client.close()
        # A coordinator that restarts before the next generation keeps a member that left until its session ends: so
        # does Kafka's.
        wait_until(lambda: moved.changes[-1] == ("assigned", 3), what="a member that has all")

        # The first listener goes.
        with timed("the first listener's end"):
            cluster.roll({"listeners": "SASL_SSL://127.0.0.1:0"})
        assert cluster.bootstrap_servers == secure
        assert all(map(refused, plain.split(",")))

        # Other certificates, good and bad, while the same connections go on.
        count = len(later.acknowledged)
        wait_until(lambda: len(later.acknowledged) > count + 100, what="traffic")
        pool.told.clear()
        assert pool.told.wait(60)
        before = pool.ended
        expired, one, other = leaf(until=datetime(2020, 1, 1, tzinfo=UTC)), leaf(), leaf()
        bad = {
            "has expired": key_of(expired) + chain_of(expired),
            "does not belong": key_of(one) + chain_of(other),
        }
        for made in (leaf(), leaf(ANOTHER), leaf()):
            install(tmp_path, made)
            for address in secure.split(","):
                wait_until(lambda address=address, made=made: serial(address) == serial_of(made), what="the new one")
            for problem, text in bad.items():
                put(tmp_path / "keys.pem", text)
                wait_until(lambda problem=problem: all(problem in said for said in problems(cluster)), what=problem)
                assert {serial(address) for address in secure.split(",")} == {serial_of(made)}
        install(tmp_path, leaf())
        pool.told.clear()
        assert pool.told.wait(60)
        assert pool.ended == before, "no connection broke"

        # Another secret; and a controller that dies has what was changed.
        secret = (data / "secret").read_text()
        with timed("a new secret"):
            cluster.roll(new_secret=True)
        assert (data / "secret").read_text() != secret
        assert not list(data.glob("secret.*"))
        pid = cluster.status()["controller_pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: _controller_pid(cluster) not in (None, pid), what="another controller")
        wait_until(lambda: all(each["pid"] for each in cluster.status()["brokers"]), what="its brokers")
        cluster.restart_brokers(0)
        assert all(map(refused, plain.split(",")))

        later.end()
        wait_until(lambda: former.values | moved.values >= writer.acknowledged | later.acknowledged, what="all records")
        assert (writer.failed, later.failed) == (0, 0)
        assert former.errors | moved.errors == set()


def _controller_pid(cluster: Cluster) -> int | None:
    with contextlib.suppress(Exception):  # it is being replaced
        return int(cluster.status()["controller_pid"])
    return None
