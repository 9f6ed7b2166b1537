"""A Spark job at an Apache Kafka that asks for logins: all that reads, writes and commits has references alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from actors.client import Admin, Producer, TopicPartition
from actors.client.admin.types import NewTopic
from spark_bridge.groups import lag
from spark_bridge.progress_commits import commit_progress
from spark_bridge.read import read_topic
from spark_bridge.stream import GroupStream
from spark_bridge.write import write_topic
from tests.compat.peers import UnavailableError
from tests.compat.secure import ADMIN, PASSWORDS, SecurePeer, secure_kafka
from tests.ray.support import words_of_family
from tests.spark.streams import QUICK, Seen, make_topic, running, send
from tests.spark.support import wait_until
from tests.spark.windowed import windowed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 400


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecurePeer]:
    try:
        with secure_kafka(tmp_path_factory.mktemp("kafka")) as peer:
            yield peer
    except UnavailableError as reason:
        pytest.skip(f"Apache Kafka cannot run here: {reason}")


@pytest.fixture
def options(secure: SecurePeer, tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "password"
    path.touch(0o600)
    path.write_text(PASSWORDS[ADMIN])
    return {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": secure.cafile,
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.username": ADMIN,
        "kafka.sasl.password.file": str(path),
    }


def _shown(spark: SparkSession) -> str:
    """The text that the session's settings and processes show."""
    return "\n".join([json.dumps(spark.sparkContext.getConf().getAll()), *words_of_family()])


@pytest.mark.conformance("XE-50", "XE-51")
def test_a_stream_reads_writes_and_commits_by_reference(
    spark: SparkSession, secure: SecurePeer, topic_name: str, options: dict[str, Any]
) -> None:
    servers, copy = secure.servers["SASL_SSL"], f"{topic_name}-copy"
    with Admin(**secure.settings()) as admin:
        admin.create_topics([NewTopic(topic_name, 4, 1), NewTopic(copy, 1, 1)])
    with Producer(**secure.settings(), linger_ms=5) as producer:
        for number in range(COUNT):
            producer.send(topic_name, b"%d" % number, partition=number % 4)
    plans: list[str] = []

    def then(df: Any, batch: Any) -> None:
        plans.append(df._jdf.queryExecution().toString())
        write_topic(df.select("value"), servers, copy, options=options)

    seen = Seen(then)
    stream = GroupStream(spark, [topic_name], f"g-{topic_name}", servers, QUICK | options).foreach_batch(seen)
    with running(stream.trigger(available_now=True)) as query:
        assert query.await_termination(200)
    assert sorted(map(int, seen.values)) == list(range(COUNT))
    left = {row["lag"] for row in lag(spark, [f"g-{topic_name}"], bootstrap_servers=servers, options=options).collect()}
    assert left == {0}
    copied = read_topic(spark, copy, bootstrap_servers=servers, options=options)
    assert sorted(int(bytes(row["value"])) for row in copied.select("value").collect()) == list(range(COUNT))
    assert plans
    assert PASSWORDS[ADMIN] not in _shown(spark) + "".join(plans)


def test_the_progress_of_spark_s_own_queries_is_committed_by_reference(
    spark: SparkSession,
    servers: str,
    secure: SecurePeer,
    topic_name: str,
    options: dict[str, Any],
    tmp_path: Path,
) -> None:
    """The query reads from brokers without logins. Its group is at the Kafka with logins, which has the topic, too."""
    if "sql-kafka" not in spark.conf.get("spark.jars", ""):
        pytest.skip("Spark's own connector to Kafka cannot be had here")
    make_topic(servers, topic_name)
    send(servers, topic_name, range(COUNT))
    with Admin(**secure.settings()) as admin:
        admin.create_topics([NewTopic(topic_name, 4, 1)])
        with (
            commit_progress(spark, f"g-{topic_name}", secure.servers["SASL_SSL"], options=options) as commits,
            windowed(spark, servers, topic_name, tmp_path / "state"),
        ):
            wait_until(lambda: set(commits.committed.get(f"g-{topic_name}", {}).values()) == {COUNT // 4})
        found = admin.list_consumer_group_offsets(f"g-{topic_name}")
    assert {tp: at.offset for tp, at in found.items()} == {TopicPartition(topic_name, n): COUNT // 4 for n in range(4)}
    assert PASSWORDS[ADMIN] not in _shown(spark)
