"""Credentials of what runs elsewhere: by reference, so that no plan, no task and no actor's argument has a secret."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.client import TopicPartition
from actors.client.errors import ConfigurationError, UnsupportedVersionError
from actors.client.records import OffsetRange
from actors.members.pools.handler_member import MemberLoop, MemberSpec
from actors.members.ranges.group import RangeMemberSpec, await_settled
from actors.members.ranges.member import RangeMember
from actors.members.ranges.ray_data import read_group
from spark_bridge import worker
from spark_bridge.options import sink_options, source_options
from spark_bridge.source import RangeTask, Reading
from spark_bridge.write import WriteRows
from tests.support.authority import Authority
from tests.support.secure_broker import SecureBroker, secure_broker
from tests.support.waiting import wait_until

PASSWORD = "swordfish"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecureBroker]:
    authority = Authority(tmp_path)
    (tmp_path / "password").write_text(PASSWORD)
    (tmp_path / "password").chmod(0o600)
    with secure_broker(authority.server("127.0.0.1"), {"alice": PASSWORD}) as made:
        made.topic("t")
        yield made


@pytest.fixture
def options(tmp_path: Path) -> dict[str, str]:
    return {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.cafile": str(tmp_path / "authority.pem"),
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.plain.username": "alice",
        "kafka.sasl.password.file": str(tmp_path / "password"),
    }


def settings(options: dict[str, str]) -> dict[str, Any]:
    return source_options(options, streaming=True).reader_settings


@pytest.fixture(autouse=True)
def as_a_worker() -> Iterator[None]:
    yield
    worker.close_readers()
    gc.unfreeze()  # this process collects its garbage as ever


def sent(task: Any) -> Any:
    """A task after its way to an executor, where it has no secret."""
    data = pickle.dumps(task)
    assert PASSWORD.encode() not in data
    return pickle.loads(data)


@pytest.mark.conformance("XE-51")
def test_a_task_that_reads_has_a_path_and_logs_in_where_it_runs(broker: SecureBroker, options: dict[str, str]) -> None:
    broker.append("t", 0, b"a", b"b")
    reading = Reading(broker.bootstrap_servers, consumer_options=settings(options))
    task = sent(RangeTask([OffsetRange("t", 0, 0, 2)], reading))
    numbers = pa.RecordBatch.from_pydict({"id": pa.array([0], pa.int64())})
    assert [row["value"] for batch in task([numbers]) for row in batch.to_pylist()] == [b"a", b"b"]
    assert broker.logins


@pytest.mark.conformance("XE-51")
def test_a_task_that_writes_has_a_path_and_logs_in_where_it_runs(broker: SecureBroker, options: dict[str, str]) -> None:
    client = dict(sink_options(options).client)
    task = sent(WriteRows("t", {**client, "bootstrap_servers": broker.bootstrap_servers}))
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"x", b"y"], pa.binary())})
    assert sum(row["records"] for batch in task(iter([rows])) for row in batch.to_pylist()) == 2
    assert broker.ends[TopicPartition("t", 0)] == 2


@pytest.mark.conformance("XE-35")
def test_a_member_of_a_pool_and_its_dead_letters_log_in(broker: SecureBroker, options: dict[str, str]) -> None:
    broker.topic("dead")
    broker.append("t", 0, b"a")
    spec = MemberSpec(
        ("t",), "g", broker.bootstrap_servers, max_retries=0, dead_letter_topic="dead", options=settings(options)
    )

    def fails(record: Any) -> None:
        raise ValueError

    member = MemberLoop(sent(spec), fails)
    running = threading.Thread(target=member.run)
    running.start()
    try:
        wait_until(lambda: broker.ends[TopicPartition("dead", 0)])
    finally:
        member.stop()
        running.join()
    assert broker.ends[TopicPartition("dead", 0)] == 1


@pytest.mark.conformance("XE-35")
def test_a_range_member_and_who_waits_for_it_log_in(broker: SecureBroker, options: dict[str, str]) -> None:
    spec = sent(RangeMemberSpec("g", broker.bootstrap_servers, ("t",), options=settings(options)))
    member = RangeMember(spec)
    try:
        # The broker of the test cannot describe groups: to say so, it has let both in.
        with pytest.raises(UnsupportedVersionError, match="the broker has no DescribeGroups"):
            await_settled(lambda: [member.holding()], spec, [TopicPartition("t", 0)], 30)
    finally:
        member.stop()


@pytest.mark.conformance("XE-35")
@pytest.mark.parametrize("name", ["sasl_plain_password", "ssl_keydata"])
def test_a_secret_does_not_go_to_rays_tasks(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name} does not travel to Ray's tasks: name .*file"):
        read_group("t", "g", bootstrap_servers="h:1", **{name: PASSWORD})
