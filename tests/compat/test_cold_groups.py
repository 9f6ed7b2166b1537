"""The first group of an offsets partition, for clients that do not retry where the broker could have waited."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from placement.hashing import partition_for_group
from tests.compat import peers
from tests.compat.peers import HERE, Coterie, UnavailableError
from tests.compat.raw import create_topics
from tests.compat.support import PATIENT, in_subprocess

RECORDS = 3
# The broker waits for processes that start late on a busy machine.
WAITING = {**PATIENT, "coterie.shard.wait.ms": "60000", "coterie.spare.shards": "0"}


def kafkajs() -> Path:
    """A folder with kafkajs, of the locked version, and our program for it."""
    source, folder = HERE / "kafkajs", peers.cache_dir() / "kafkajs"
    if shutil.which("node") is None:
        raise UnavailableError("node is not installed")
    lock = (source / "package-lock.json").read_text()
    if not (folder / "node_modules" / "kafkajs").exists() or (folder / "package-lock.json").read_text() != lock:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        peers.build(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    shutil.copy(source / "member.js", folder)
    return folder


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coterie]:
    """A cluster whose groups are all cold: one broker, and no shard's process starts before a request needs it."""
    config = {**WAITING, "offsets.topic.replication.factor": "1", "min.insync.replicas": "1"}
    with peers.coterie(tmp_path_factory.mktemp("cold"), brokers=1, config=config) as cluster:
        yield cluster


@functools.cache
def cold_groups(count: int, taken: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Names of groups of as many offsets partitions."""
    found: dict[int, str] = {partition_for_group(name, 50): name for name in taken}
    for number in range(1000):
        name = f"cold-{number}"
        found.setdefault(partition_for_group(name, 50), name)
    return tuple(name for name in found.values() if name not in taken)[:count]


def test_kafkajs_joins_the_first_group_of_a_partition(cold: Coterie) -> None:
    """kafkajs once ended its consumer when a join was answered with COORDINATOR_LOAD_IN_PROGRESS."""
    try:
        folder = kafkajs()
    except UnavailableError as reason:
        pytest.skip(f"kafkajs cannot run here: {reason}")
    create_topics(cold.bootstrap_servers, {"for-kafkajs": 1})
    producer = confluent_kafka.Producer({"bootstrap.servers": cold.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce("for-kafkajs", b"%d" % number)
    assert producer.flush(60) == 0
    (group,) = cold_groups(1)
    command = ["node", str(folder / "member.js"), cold.bootstrap_servers, group, "for-kafkajs", str(RECORDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.stdout, done.stderr
    assert json.loads(done.stdout) == {"records": RECORDS, "troubles": _of_the_topic(done.stdout)}


def _of_the_topic(stdout: str) -> list[str]:
    """The troubles that are allowed: those of `__consumer_offsets` being created, which Kafka causes, too."""
    return [text for text in json.loads(stdout)["troubles"] if "GroupCoordinator" in text and "not available" in text]


def ask_of_a_cold_group(servers: str, what: str, group: str) -> Any:
    """One call of librdkafka's admin client, which does not retry after an error of the coordinator."""
    admin = AdminClient({"bootstrap.servers": servers})
    if what == "describe":
        return admin.describe_consumer_groups([group], request_timeout=90)[group].result().state.name
    if what == "offsets":
        asked = confluent_kafka.ConsumerGroupTopicPartitions(group)
        return len(admin.list_consumer_group_offsets([asked], request_timeout=90)[group].result().topic_partitions)
    try:
        admin.delete_consumer_groups([group], request_timeout=90)[group].result()
    except confluent_kafka.KafkaException as error:
        return error.args[0].name()
    return None


@pytest.mark.parametrize(("what", "answer"), [("describe", "DEAD"), ("offsets", 0), ("delete", "GROUP_ID_NOT_FOUND")])
def test_librdkafkas_admin_client_asks_about_a_cold_group(cold: Coterie, what: str, answer: Any) -> None:
    group = cold_groups(4)[["describe", "offsets", "delete"].index(what) + 1]
    assert in_subprocess(ask_of_a_cold_group, cold.bootstrap_servers, what, group) == answer
