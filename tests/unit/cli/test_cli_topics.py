"""`coterie topics` against a cluster in memory: what it asks for, prints and exits with."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner, Result

from actors.cli import calls
from actors.cli.main import cli
from actors.cli.reset import Log
from actors.client import TopicPartition
from actors.client.admin.types import NewTopic
from actors.client.errors import ClusterAuthorizationError
from tests.support.fake_admin import FakeAdmin


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()
    fake.add_topic("orders", 2)
    fake.add_topic("__consumer_offsets", 1, internal=True)
    monkeypatch.setattr(calls, "connect", fake.connect)
    return fake


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["topics", *arguments])


def test_list_prints_names_alone(cluster: FakeAdmin) -> None:
    assert run("list").stdout == "__consumer_offsets\norders\n"
    assert run("list", "--exclude-internal").stdout == "orders\n"
    assert cluster.bootstrap == "127.0.0.1:9092"


def test_list_as_json_has_partition_counts(cluster: FakeAdmin) -> None:
    assert json.loads(run("list", "--format", "json", "--bootstrap-server", "a:1").stdout)[1] == {
        "topic": "orders",
        "partitions": 2,
    }
    assert cluster.bootstrap == "a:1"


def test_describe_shows_settings_and_partitions(cluster: FakeAdmin) -> None:
    cluster.configs["orders"] = {"retention.ms": "5", "cleanup.policy": "compact"}
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    cluster.sizes = {0: {first: 1_234_567, second: 0}, 1: {first: 99, second: 99}}
    assert run("describe", "orders").stdout.splitlines() == [
        "Topic: orders  TopicId: MDEyMzQ1Njc4OWFiY2RlZg  PartitionCount: 2  ReplicationFactor: 2  Size: 1.2 MB  "
        "Configs: cleanup.policy=compact,retention.ms=5",
        "TOPIC   PARTITION  LEADER  REPLICAS  ISR  SIZE",
        "orders  0          0       0,1       0,1  1.2 MB",
        "orders  1          0       0,1       0,1  0 bytes",
    ]
    found = json.loads(run("describe", "orders", "--format", "json").stdout)[0]
    assert (found["size_bytes"], found["partitions"][0]["replica_sizes"]) == (1_234_567, {"0": 1_234_567, "1": 99})


def test_describe_says_why_sizes_are_not_known(cluster: FakeAdmin) -> None:
    cluster.no_sizes = ClusterAuthorizationError("describing the log directories of broker 0")
    done = run("describe", "orders")
    assert done.stdout.splitlines()[-1] == "orders  1          0       0,1       0,1  -"
    assert done.stderr.startswith("sizes are not known: describing the log directories of broker 0")


@pytest.mark.conformance("XE-31")
@pytest.mark.parametrize("form", ["table", "json"])
def test_describe_says_that_a_secret_is_set_and_no_more(cluster: FakeAdmin, form: str) -> None:
    cluster.configs["orders"] = {"wings.key": None}
    assert re.search(r"wings\.key\W+\[hidden\]", run("describe", "orders", "--format", form).stdout)


def test_describe_as_json_is_one_object_a_topic(cluster: FakeAdmin) -> None:
    found = json.loads(run("describe", "--topic", "orders", "--format", "json").stdout)
    assert [each["topic"] for each in found] == ["orders"]
    assert found[0]["partitions"][1] == {
        "topic": "orders",
        "partition": 1,
        "leader": 0,
        "replicas": [0, 1],
        "isr": [0, 1],
        "size_bytes": None,
        "replica_sizes": {},
    }


def test_describe_can_show_only_what_is_amiss(cluster: FakeAdmin) -> None:
    cluster.add_topic("behind", 1, isr=(0,))
    cluster.add_topic("lost", 1)
    cluster.unled("lost")
    lagging = json.loads(run("describe", "--under-replicated-partitions", "--format", "json").stdout)
    assert [each["topic"] for each in lagging] == ["behind", "lost"]
    leaderless = json.loads(run("describe", "--unavailable-partitions", "--format", "json").stdout)
    assert [(each["topic"], each["partitions"][0]["leader"]) for each in leaderless] == [("lost", None)]


@pytest.mark.parametrize("verb", [["describe"], ["alter", "--partitions", "3"], ["delete"]])
def test_topic_that_is_not_there_is_an_error(cluster: FakeAdmin, verb: list[str]) -> None:
    result = run(*verb, "nothing")
    assert (result.exit_code, result.stderr) == (1, "coterie: there is no topic nothing\n")


def test_create_asks_for_what_was_said(cluster: FakeAdmin) -> None:
    result = run("create", "a", "--topic", "b", "--partitions", "3", "--config", "retention.ms=5")
    assert result.stdout == "Created topic a.\nCreated topic b.\n"
    assert cluster.created == [NewTopic(name, 3, -1, {}, {"retention.ms": "5"}) for name in ("a", "b")]


def test_create_with_an_assignment(cluster: FakeAdmin) -> None:
    assert run("create", "a", "--replica-assignment", "0:1,1:2").exit_code == 0
    assert cluster.created[0].replica_assignments == {0: (0, 1), 1: (1, 2)}


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a", "--partitions", "0"],
        ["a", "--config", "x"],
        ["a", "--replica-assignment", "0:x"],
        ["a", "--replica-assignment", "0:0"],
        ["a", "--replica-assignment", "0:1,2"],
        ["a", "--replica-assignment", "0", "--partitions", "1"],
    ],
)
def test_create_with_wrong_usage_creates_nothing(cluster: FakeAdmin, arguments: list[str]) -> None:
    assert run("create", *arguments).exit_code == 2
    assert cluster.created == []


def test_create_of_what_is_there_fails_unless_allowed(cluster: FakeAdmin) -> None:
    refused = run("create", "orders")
    assert (refused.exit_code, refused.stderr) == (1, "coterie: creating topic orders: TOPIC_ALREADY_EXISTS (36)\n")
    assert run("create", "orders", "--if-not-exists").stdout == "Topic orders is there already.\n"


def test_alter_changes_settings_and_partitions(cluster: FakeAdmin) -> None:
    cluster.configs["orders"] = {"segment.ms": "5"}
    result = run("alter", "orders", "--partitions", "4", "--config", "retention.ms=7", "--delete-config", "segment.ms")
    assert result.stdout == "Altered topic orders.\n"
    assert cluster.configs["orders"] == {"retention.ms": "7"}
    assert len(cluster.topics["orders"].partitions) == 4


def test_alter_of_nothing_is_wrong_usage(cluster: FakeAdmin) -> None:
    assert run("alter", "orders").exit_code == 2


def test_delete_removes_what_is_there(cluster: FakeAdmin) -> None:
    result = run("delete", "orders", "nothing", "--if-exists")
    assert (result.exit_code, result.stdout) == (0, "Deleted topic orders.\n")
    assert "orders" not in cluster.topics


@pytest.fixture
def orders(cluster: FakeAdmin) -> FakeAdmin:
    """The two partitions of `orders` have records 2 to 9 and 0 to 4."""
    cluster.logs = {TopicPartition("orders", 0): Log(2, 10), TopicPartition("orders", 1): Log(0, 5)}
    return cluster


def test_records_are_deleted_before_an_offset(orders: FakeAdmin) -> None:
    result = run("delete-records", "orders:0", "--before-offset", "7")
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        ["TOPIC   PARTITION  LOW-WATERMARK  STATUS", "orders  0          7              Successful"],
    )
    assert list(orders.logs.values()) == [Log(7, 10), Log(0, 5)]


def test_minus_one_deletes_all_records_of_all_partitions(orders: FakeAdmin) -> None:
    found = json.loads(run("delete-records", "orders", "--before-offset", "-1", "--format", "json").stdout)
    assert [(each["partition"], each["low_watermark"]) for each in found] == [(0, 10), (1, 5)]


def test_an_offset_beyond_the_end_of_one_partition_is_said_of_it_alone(orders: FakeAdmin) -> None:
    result = run("delete-records", "orders", "--before-offset", "7", "--format", "json")
    found = [(each["low_watermark"], each["status"]) for each in json.loads(result.stdout)]
    assert (result.exit_code, found) == (1, [(7, "Successful"), (None, "orders-1")])


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["orders"], 2, "--before-offset"),
        (["--before-offset", "1"], 2, "TOPIC"),
        (["orders", "--before-offset", "-2"], 2, "--before-offset"),
        (["orders:x", "--before-offset", "1"], 1, "'orders:x' is not TOPIC or TOPIC:PARTITION,PARTITION"),
        (["nothing", "--before-offset", "1"], 1, "there is no topic nothing"),
        (["orders:2", "--before-offset", "1"], 1, "there is no partition orders-2"),
    ],
)
def test_records_that_are_not_clearly_named_stay(orders: FakeAdmin, arguments: list[str], code: int, why: str) -> None:
    result = run("delete-records", *arguments)
    assert (result.exit_code, why in result.stderr) == (code, True)
    assert list(orders.logs.values()) == [Log(2, 10), Log(0, 5)]
