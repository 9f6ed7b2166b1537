"""Our clients and commands against secure brokers: TLS, logins, and denied requests."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from actors.cli.main import cli
from actors.client import Admin, Consumer, Producer, TopicPartition
from actors.client.admin.types import ConfigResource, NewTopic
from actors.client.consumer.ranges import RangeReader
from actors.client.errors import (
    AuthenticationError,
    ClusterAuthorizationError,
    GroupAuthorizationError,
    KafkaError,
    SaslAuthenticationError,
    SslAuthenticationError,
    TopicAuthorizationError,
)
from actors.client.records import OffsetRange
from actors.wire.config_resources import ConfigResourceType
from tests.compat.secure import ADMIN, ALICE, BOB, CAROL, MECHANISMS, PASSWORDS, SECURE_KINDS, SecurePeer
from tests.compat.support import wait_until

VALUES = [b"value-%03d" % number * 100 for number in range(300)]
SHORT = {"default_api_timeout_ms": 20_000, "reconnect_backoff_max_ms": 500}


pytestmark = pytest.mark.parametrize("secure", SECURE_KINDS, indirect=True)


def make(secure: SecurePeer, topic: str, partitions: int = 1) -> None:
    with Admin(**secure.settings()) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1)])
        wait_until(lambda: _led(admin, topic) == partitions, what="leaders")


def _led(admin: Admin, topic: str) -> int:
    try:
        (found,) = admin.describe_topics([topic])
    except KafkaError:
        return 0
    return sum(partition.leader >= 0 for partition in found.partitions)


def read(consumer: Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []

    def enough() -> bool:
        found.extend(record.value for some in consumer.poll(100).values() for record in some)
        return len(found) >= count

    wait_until(enough, what=f"{count} records")
    return found


def assert_round_trip(settings: dict[str, Any], topic: str) -> None:
    """Write and read records with a group, and as ranges."""
    with Producer(**settings, linger_ms=5) as producer:
        futures = [producer.send(topic, value) for value in VALUES]
        producer.flush(30)
        assert all(future.succeeded() for future in futures)
    with Consumer(topic, group_id=topic, auto_offset_reset="earliest", **settings) as consumer:
        assert sorted(read(consumer, len(VALUES))) == sorted(VALUES)
        consumer.commit()
    with RangeReader(**settings) as reader:
        rows = sum(batch.num_rows for batch in reader.read([OffsetRange(topic, 0, 0, len(VALUES))]))
    assert rows == len(VALUES)


@pytest.mark.conformance("XF-01", "XF-03", "XG-01")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_records_go_there_and_back(secure: SecurePeer, name: str, mechanism: str, protocol: str) -> None:
    make(secure, name)
    assert_round_trip(secure.settings(ADMIN, mechanism, protocol), name)


@pytest.mark.conformance("XF-01", "XG-01")
def test_a_certificate_is_enough(secure: SecurePeer, name: str) -> None:
    make(secure, name)
    assert_round_trip(secure.settings(protocol="SSL"), name)


@pytest.mark.conformance("XF-01", "XG-01")
def test_a_group_of_three_shares_a_topic_and_what_a_member_leaves_behind(secure: SecurePeer, name: str) -> None:
    make(secure, name, 12)
    settings = {"group_id": name, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 300, **secure.settings()}
    stop, leave = threading.Event(), threading.Event()
    members = [Consumer(name, **settings) for _ in range(3)]
    values: set[bytes] = set()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with members[number] as member:
                while not stop.is_set() and not (number == 0 and leave.is_set()):
                    values.update(record.value for some in member.poll(100).values() for record in some)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        shares = lambda some: sorted(len(member.assignment()) for member in some)  # noqa: E731
        wait_until(lambda: shares(members) == [4, 4, 4], what="three equal shares")
        with Producer(**secure.settings(), linger_ms=5) as producer:
            for value in VALUES:
                producer.send(name, value, key=value)
        wait_until(lambda: len(values) == len(VALUES), what="all records")
        leave.set()
        wait_until(lambda: shares(members[1:]) == [6, 6], what="two equal shares")
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert failures == []


@pytest.mark.conformance("XF-01")
def test_an_admin_changes_and_describes(secure: SecurePeer, name: str) -> None:
    make(secure, name)
    assert_round_trip(secure.settings(), name)
    with Admin(**secure.settings()) as admin:
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        admin.incremental_alter_configs({resource: {"retention.ms": "86400000"}})
        wait_until(lambda: admin.describe_configs([resource])[resource]["retention.ms"].value == "86400000")
        assert name in {group.group_id for group in admin.list_consumer_groups()}
        offsets = admin.list_consumer_group_offsets(name)
        assert sum(each.offset for each in offsets.values()) == len(VALUES)
        wait_until(lambda: admin.describe_consumer_groups([name])[0].state == "Empty")
        admin.delete_consumer_groups([name])
        admin.delete_topics([name])
        ports = {f"localhost:{broker.port}" for broker in admin.describe_cluster().brokers}
        assert secure.servers["SASL_SSL"] in ports


@pytest.mark.conformance("XF-02")
def test_commands_log_in_by_their_file(secure: SecurePeer, name: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.touch(0o600)
    path.write_text(
        f"""
        bootstrap.servers={secure.servers["SASL_SSL"]}
        security.protocol=SASL_SSL
        ssl.truststore.type=PEM
        ssl.truststore.location={secure.cafile}
        sasl.mechanism=SCRAM-SHA-512
        sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
            username="{ADMIN}" password="{PASSWORDS[ADMIN]}";
        """
    )

    def coterie(*arguments: str, stdin: bytes | None = None) -> str:
        result = CliRunner().invoke(cli, [*arguments, "--command-config", str(path)], input=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    coterie("topics", "create", name, "--partitions", "2", "--replication-factor", "1")
    wait_until(lambda: name in coterie("topics", "list").split())
    coterie("produce", name, stdin=b"".join(b"%d\n" % number for number in range(20)))
    read = coterie("consume", name, "--group", name, "--from-beginning", "--max-messages", "20")
    assert sorted(map(int, read.split())) == list(range(20))
    described = json.loads(coterie("groups", "describe", name, "--format", "json"))
    assert sum(row["current_offset"] or 0 for row in described) == 20
    coterie("topics", "delete", name)


@pytest.mark.conformance("XF-06")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_at_once(secure: SecurePeer, mechanism: str) -> None:
    wrong = secure.settings(ADMIN, mechanism) | {"sasl_plain_password": "wrong", **SHORT}
    with (
        Admin(**wrong) as admin,
        pytest.raises(SaslAuthenticationError, match=f"logging in as '{ADMIN}' by {mechanism}"),
    ):
        admin.list_topics()
    with Consumer("t", group_id="g", **wrong) as consumer, pytest.raises(SaslAuthenticationError):
        consumer.poll(20_000)
    with Producer(**wrong) as producer, pytest.raises(SaslAuthenticationError):
        producer.send("t", b"x")


@pytest.mark.conformance("XF-10")
def test_what_does_not_fit_is_told_with_the_setting(secure: SecurePeer, tmp_path: Path) -> None:
    def failure(**settings: Any) -> str:
        with (
            Admin(**{**SHORT, "default_api_timeout_ms": 3_000, **settings}) as admin,
            pytest.raises(KafkaError) as raised,
        ):
            admin.list_topics()
        return str(raised.value)

    tls, plain = secure.servers["SASL_SSL"], secure.servers["PLAINTEXT"]
    trusted = {"ssl_cafile": secure.cafile}
    assert "set security_protocol to SASL_SSL, with sasl_mechanism" in failure(bootstrap_servers=tls)
    assert "security_protocol=PLAINTEXT" in failure(bootstrap_servers=plain, security_protocol="SSL", **trusted)
    login = {k: v for k, v in secure.settings(protocol="SASL_PLAINTEXT").items() if k != "bootstrap_servers"}
    assert "security_protocol may have to be PLAINTEXT" in failure(bootstrap_servers=plain, **login)
    unknown = failure(bootstrap_servers=tls, security_protocol="SSL")
    assert "does ssl_cafile have the right authority" in unknown
    named = tls.replace("localhost", "127.1")  # leads to the same address
    other = failure(bootstrap_servers=named, security_protocol="SSL", **trusted)
    assert "is for localhost, 127.0.0.1, not for 127.1" in other
    shown = failure(bootstrap_servers=secure.servers["SSL"], security_protocol="SSL", **trusted)
    assert "ssl_certfile and ssl_keyfile say what the client shows" in shown


@pytest.mark.conformance("XF-06")
def test_what_is_not_allowed_is_told_by_class_and_name(secure: SecurePeer, name: str) -> None:
    make(secure, name)
    with Admin(**secure.settings()) as admin:
        admin.alter_consumer_group_offsets(name, {TopicPartition(name, 0): 0})
    bob = secure.settings(BOB) | SHORT
    for topic in (name, "there-is-none"):  # the error does not tell if it exists
        with Producer(**bob) as producer, pytest.raises(TopicAuthorizationError) as raised:
            producer.send(topic, b"x")
        assert raised.value.topics == [topic]
        with Consumer(**bob) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            with pytest.raises(TopicAuthorizationError) as raised:
                consumer.poll(20_000)
        assert raised.value.topics == [topic]
        with RangeReader(**bob) as reader, pytest.raises(TopicAuthorizationError) as raised:
            list(reader.read([OffsetRange(topic, 0, 0, 1)]))
        assert raised.value.topics == [topic]
    with Consumer(name, group_id=name, **bob) as consumer:
        seen: set[type] = set()

        def both() -> bool:
            try:
                consumer.poll(500)
            except (TopicAuthorizationError, GroupAuthorizationError) as error:
                seen.add(type(error))
            return len(seen) == 2

        wait_until(both, what="both errors")
    with Admin(**bob) as admin:
        with pytest.raises(TopicAuthorizationError) as raised:
            admin.delete_topics([name])
        assert raised.value.topics == [name]
        with pytest.raises(TopicAuthorizationError) as raised:
            admin.create_topics([NewTopic("bobs", 1, 1)])
        with pytest.raises(TopicAuthorizationError):
            admin.describe_topics([name])
        with pytest.raises(GroupAuthorizationError):
            admin.describe_consumer_groups([name])
        with pytest.raises(GroupAuthorizationError):
            admin.list_consumer_group_offsets(name)
        broker = ConfigResource(ConfigResourceType.BROKER, str(admin.describe_cluster().brokers[0].id))
        with pytest.raises(ClusterAuthorizationError):
            admin.describe_configs([broker])
        with pytest.raises(ClusterAuthorizationError):
            admin.list_partition_reassignments()
        assert admin.list_topics() == []
        assert admin.list_consumer_groups() == []


@pytest.mark.conformance("XC-73")
def test_a_pattern_matches_what_may_be_seen(secure: SecurePeer, name: str) -> None:
    seen, hidden = f"alices-{name}", f"admins-{name}"
    make(secure, seen)
    make(secure, hidden)
    with Producer(**secure.settings()) as producer:
        for topic in (hidden, seen):
            producer.send(topic, topic.encode()).get(30)
    with Consumer(group_id=seen, auto_offset_reset="earliest", **secure.settings(ALICE)) as consumer:
        consumer.subscribe(pattern=f"(alices|admins)-{name}")
        assert read(consumer, 1) == [seen.encode()]
        assert consumer.assignment() == {TopicPartition(seen, 0)}


@pytest.mark.conformance("XC-75")
def test_who_may_see_a_group_sees_its_members_and_the_names_of_topics_that_are_hidden(
    secure: SecurePeer, name: str
) -> None:
    topic = f"alices-{name}"
    make(secure, topic)
    with (
        Consumer(topic, group_id=topic, client_id="alices-own", **secure.settings(ALICE)) as consumer,
        Admin(**secure.settings(CAROL)) as admin,
    ):
        wait_until(lambda: consumer.poll(100) or consumer.assignment(), what="an assignment")
        (group,) = admin.describe_consumer_groups([topic])
        (member,) = group.members
        assert member.client_id == "alices-own"
        assert member.client_host.strip("/") == "127.0.0.1"
        assert member.assignment == (TopicPartition(topic, 0),)
        assert topic in {each.group_id for each in admin.list_consumer_groups()}
        assert admin.list_topics() == []


def test_an_error_of_security_shows_no_secret(secure: SecurePeer) -> None:
    settings = secure.settings() | {"sasl_plain_password": "a wrong secret", **SHORT}
    with Admin(**settings) as admin, pytest.raises(AuthenticationError) as raised:
        admin.list_topics()
    assert "a wrong secret" not in f"{raised.value!r} {raised.value} {raised.value.__cause__!r} {admin.config}"
    assert not isinstance(raised.value, SslAuthenticationError)
