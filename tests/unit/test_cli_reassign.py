"""`coterie topics reassign` against a cluster in memory: what it plans, asks for, waits for and refuses."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from actors.cli import calls, reassign
from actors.cli.main import cli
from actors.client import TopicPartition
from actors.client.admin_types import PartitionReassignment
from tests.unit.fake_admin import FakeAdmin


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    """Three brokers; all partitions are on brokers 0 and 1."""
    fake = FakeAdmin()
    fake.add_topic("orders", 3)
    fake.add_topic("__consumer_offsets", 1, internal=True)
    monkeypatch.setattr(calls, "connect", fake.connect)
    monkeypatch.setattr(reassign, "_POLL_SECONDS", 0.0)
    return fake


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["topics", "reassign", *arguments])


def replicas(cluster: FakeAdmin, topic: str = "orders") -> list[tuple[int, ...]]:
    return [each.replicas for each in cluster.topics[topic].partitions]


def test_a_plan_is_shown_and_nothing_done(cluster: FakeAdmin) -> None:
    done = run("orders")
    assert done.exit_code == 0
    head, *shown = done.stdout.splitlines()
    assert head.split() == ["TOPIC", "PARTITION", "REPLICAS", "NEW-REPLICAS"]
    assert all(line.split()[2] == "0,1" for line in shown)
    assert "add --execute" in done.stderr
    assert run("orders", "--dry-run").stderr == ""
    assert (cluster.moves, replicas(cluster)) == ({}, [(0, 1)] * 3)


def test_what_was_shown_is_done_and_waited_for(cluster: FakeAdmin) -> None:
    planned = json.loads(run("orders", "--replication-factor", "3", "--format", "json").stdout)
    done = run("orders", "--replication-factor", "3", "--execute", "--format", "json")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == planned
    assert "3 partitions under way" in done.stderr
    assert [list(each) for each in replicas(cluster)] == [row["new_replicas"] for row in planned]
    assert sorted(each[0] for each in replicas(cluster)) == [0, 1, 2]
    assert cluster.elected == [TopicPartition("orders", index) for index in range(3)]
    assert replicas(cluster, "__consumer_offsets") == [(0, 1)]


def test_brokers_that_are_not_named_are_emptied(cluster: FakeAdmin) -> None:
    assert run("--all-topics", "--brokers", "1,2", "--execute").exit_code == 0
    assert {frozenset(each) for each in replicas(cluster) + replicas(cluster, "__consumer_offsets")} == {
        frozenset((1, 2))
    }


def test_nothing_moves_off_a_broker_that_is_down_unless_asked_for(cluster: FakeAdmin) -> None:
    cluster.brokers = (1, 2)
    refused = run("orders", "--execute")
    assert (refused.exit_code, cluster.moves) == (1, {})
    assert "broker 0 holds replicas and is not there" in refused.stderr
    assert run("orders", "--brokers", "1,2", "--execute").exit_code == 0
    assert {frozenset(each) for each in replicas(cluster)} == {frozenset((1, 2))}


def test_moves_under_way_to_where_partitions_should_be_are_waited_for(cluster: FakeAdmin) -> None:
    """A command that was ended can be given again."""
    assert run("orders", "--brokers", "1,2", "--execute").exit_code == 0
    cluster.moves = {TopicPartition("orders", 0): PartitionReassignment((*replicas(cluster)[0], 0), (), (0,))}
    cluster._place(TopicPartition("orders", 0), (*replicas(cluster)[0], 0))
    done = run("orders", "--brokers", "1,2", "--execute")
    assert "nothing to move" in done.stderr
    assert "1 partition under way" in done.stderr
    assert cluster.moves == {}


def test_moves_are_called_off(cluster: FakeAdmin) -> None:
    cluster.moves = {TopicPartition("orders", index): PartitionReassignment((2, 0, 1), (2,), (0,)) for index in (1, 2)}
    done = run("orders", "--cancel", "--execute", "--format", "json")
    assert [row["new_replicas"] for row in json.loads(done.stdout)] == [[0, 1], [0, 1]]
    assert cluster.moves == {}


def test_a_refusal_is_told(cluster: FakeAdmin) -> None:
    cluster.brokers = (0, 1, 9)
    done = run("orders", "--execute")
    assert done.exit_code == 1
    assert "1 partition of " in done.stderr
    assert "broker 9 is full" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        ([], 2, "say which topics"),
        (["orders", "--all-topics"], 2, "say which topics"),
        (["orders", "--dry-run", "--execute"], 2, "contradict"),
        (["orders", "--cancel", "--brokers", "1"], 2, "--cancel goes with neither"),
        (["orders", "--brokers", "1,x"], 2, "'1,x' is not ID,ID"),
        (["orders", "--brokers", "1,7"], 2, "broker 7 is not there; these are: 0, 1, 2"),
        (["nothing"], 1, "there is no topic nothing"),
        (["orders", "--replication-factor", "4"], 1, "orders-0: 4 replica(s) on 3 broker(s)"),
        (["orders", "--brokers", "1"], 1, "orders-0: 2 replica(s) on 1 broker(s)"),
    ],
)
def test_what_cannot_be_is_refused(cluster: FakeAdmin, arguments: list[str], code: int, why: str) -> None:
    done = run(*arguments, "--execute") if "--dry-run" not in arguments else run(*arguments)
    assert done.exit_code == code
    assert why in done.stderr
    assert cluster.moves == {}
