"""Settings as Kafka's own tool and librdkafka see them: those described, and those accepted without effect."""

from __future__ import annotations

import re
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AclOperation, AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.compat.drivers import Confluent
from tests.compat.peers import Peer
from tests.compat.remote import CONFIGS, Remote, run_tools

TIMEOUT_S = 120


def kafka_configs(java: Remote, peer: Peer, *arguments: str) -> str:
    """Run kafka-configs.sh and return its output; fails with its errors."""
    (printed,) = run_tools(java, [[CONFIGS, "--bootstrap-server", peer.bootstrap_servers, *arguments]])
    assert printed.status == 0, printed.text
    return printed.text


def described(text: str) -> dict[str, str]:
    """Names and values of the tool's lines: `  NAME=VALUE sensitive=false synonyms={...}`."""
    return dict(re.findall(r"^  ([\w.]+)=(.*) sensitive=\w+ synonyms=", text, re.MULTILINE))


def test_kafkas_tool_describes_a_broker_with_all_of_kafkas_keys(java: Remote, kafka: Peer) -> None:
    text = kafka_configs(java, kafka, "--describe", "--entity-type", "brokers", "--entity-name", "0", "--all")
    values = described(text)
    first = kafka.bootstrap_servers.split(",")[0]
    assert values["advertised.listeners"] == values["listeners"] == f"PLAINTEXT://{first}"
    assert (values["node.id"], values["broker.id"], values["process.roles"]) == ("0", "0", "broker")
    assert (Path(values["log.dirs"]) / "meta.properties").exists()
    assert (values["num.io.threads"], values["log.retention.hours"]) == ("8", "168")
    assert "  ssl.keystore.password=null sensitive=true synonyms={" in text
    assert len(values) > 300


def test_what_librdkafka_sets_without_effect_kafkas_tool_describes(java: Remote, kafka: Peer, name: str) -> None:
    Confluent().create_topic(kafka.bootstrap_servers, name, 1)
    wanted = {"preallocate": "true", "compression.zstd.level": "5"}
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in wanted.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    text = kafka_configs(java, kafka, "--describe", "--entity-type", "topics", "--entity-name", name, "--all")
    values = described(text)
    assert (values["preallocate"], values["compression.zstd.level"], values["local.retention.ms"]) == (
        "true",
        "5",
        "-2",
    )
    assert re.search(r"^  segment\.ms=604800000 .*DEFAULT_CONFIG:log\.roll\.hours=168", text, re.MULTILINE)


def test_kafkas_tool_describes_the_settings_of_a_group(java: Remote, kafka: Peer, name: str) -> None:
    values = described(
        kafka_configs(java, kafka, "--describe", "--entity-type", "groups", "--entity-name", name, "--all")
    )
    assert values["consumer.session.timeout.ms"] == "45000"


def test_librdkafka_is_told_all_operations(kafka: Peer, name: str) -> None:
    Confluent().create_topic(kafka.bootstrap_servers, name, 1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    cluster = admin.describe_cluster(include_authorized_operations=True).result(TIMEOUT_S)
    topics = admin.describe_topics(confluent_kafka.TopicCollection([name]), include_authorized_operations=True)
    everything = {AclOperation.DESCRIBE, AclOperation.ALTER, AclOperation.CREATE}
    assert everything | {AclOperation.CLUSTER_ACTION} <= set(cluster.authorized_operations)
    assert everything | {AclOperation.READ, AclOperation.WRITE} <= set(
        topics[name].result(TIMEOUT_S).authorized_operations
    )
