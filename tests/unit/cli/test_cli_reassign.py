"""`coterie topics reassign` against a cluster in memory: what it plans, asks for, waits for and refuses."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from actors.cli import calls
from actors.cli.main import cli
from actors.client import TopicPartition
from actors.client.errors import KafkaError, NoReassignmentInProgressError
from actors.runtime.environment import Clock
from tests.support.fake_admin import FakeAdmin

ORDERS = [TopicPartition("orders", index) for index in range(3)]
MOVED = [(1, 2), (2, 1), (1, 2)]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    """Three brokers; all partitions are on brokers 0 and 1."""
    fake = FakeAdmin()
    fake.add_topic("orders", 3)
    fake.add_topic("__consumer_offsets", 1, internal=True)
    monkeypatch.setattr(calls, "connect", fake.connect)
    return fake


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["topics", "reassign", *arguments], obj=Clock(sleep=lambda _: None))


def replicas(cluster: FakeAdmin, topic: str = "orders") -> list[tuple[int, ...]]:
    return [each.replicas for each in cluster.topics[topic].partitions]


def test_a_plan_is_shown_and_nothing_done(cluster: FakeAdmin) -> None:
    done = run("orders")
    assert done.exit_code == 0
    head, *shown = done.stdout.splitlines()
    assert head.split() == ["TOPIC", "PARTITION", "REPLICAS", "NEW-REPLICAS"]
    assert all(line.split()[2] == "0,1" for line in shown)
    assert "add --execute" in done.stderr
    assert run("orders", "--dry-run").stderr == "over brokers 0, 1, 2\n"
    assert (cluster.moves, replicas(cluster)) == ({}, [(0, 1)] * 3)


def test_what_was_shown_is_done_and_waited_for(cluster: FakeAdmin) -> None:
    planned = json.loads(run("orders", "--replication-factor", "3", "--format", "json").stdout)
    done = run("orders", "--replication-factor", "3", "--execute", "--format", "json")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == planned
    assert "3 partitions under way" in done.stderr
    assert [list(each) for each in replicas(cluster)] == [row["new_replicas"] for row in planned]
    assert sorted(each[0] for each in replicas(cluster)) == [0, 1, 2]
    assert cluster.elected == ORDERS
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
    assert "broker 0 holds replicas and is not alive" in refused.stderr
    assert run("orders", "--brokers", "1,2", "--execute").exit_code == 0
    assert {frozenset(each) for each in replicas(cluster)} == {frozenset((1, 2))}


def test_moves_under_way_to_where_partitions_should_be_are_waited_for(cluster: FakeAdmin) -> None:
    """A command that was ended can be given again. The old replicas, which still count, make no third one."""
    cluster.moving = False
    for tp, target in zip(ORDERS, MOVED, strict=True):
        cluster.begin(tp, target)
    assert json.loads(run("orders", "--brokers", "1,2", "--format", "json").stdout) == []
    cluster.moving = True
    done = run("orders", "--brokers", "1,2", "--execute")
    assert "nothing to move" in done.stderr
    assert cluster.moves == {}
    assert replicas(cluster) == MOVED
    assert cluster.elected == ORDERS


def test_a_move_that_ends_while_it_is_looked_at_is_looked_at_again(cluster: FakeAdmin) -> None:
    for tp, target in zip(ORDERS, MOVED, strict=True):
        cluster.begin(tp, target)
    done = run("orders", "--brokers", "1,2", "--format", "json")
    assert json.loads(done.stdout) == [], "taken for a partition with more replicas"


def test_moves_are_called_off(cluster: FakeAdmin) -> None:
    cluster.moving = False
    for tp in ORDERS[1:]:
        cluster.begin(tp, (2, 1))
    shown = json.loads(run("orders", "--cancel", "--format", "json").stdout)
    assert [row["new_replicas"] for row in shown] == [[1, 0], [1, 0]]
    cluster.refusals[ORDERS[2]] = NoReassignmentInProgressError("it has ended meanwhile")
    done = run("orders", "--cancel", "--execute")
    assert (done.exit_code, list(cluster.moves)) == (0, [ORDERS[2]])
    cluster.refusals[ORDERS[2]] = KafkaError("only broker 0 is in sync")
    refused = run("orders", "--cancel", "--execute")
    assert refused.exit_code == 1
    assert refused.stderr == "coterie: 1 of 1 partition could not be called off: only broker 0 is in sync\n"


def test_a_refusal_is_told_when_the_others_are_done(cluster: FakeAdmin) -> None:
    cluster.refusals[ORDERS[1]] = KafkaError("no")
    done = run("orders", "--replication-factor", "3", "--execute")
    assert done.exit_code == 1
    assert done.stderr.endswith("coterie: 1 of 3 partitions could not be moved: no\n")
    assert "2 partitions under way" in done.stderr
    assert [len(each) for each in replicas(cluster)] == [3, 2, 3]
    assert cluster.elected == ORDERS


def test_leaders_that_cannot_be_elected_yet_are_told(cluster: FakeAdmin) -> None:
    cluster.not_elected = KafkaError("broker 2 is not in sync")
    done = run("orders", "--execute")
    assert done.exit_code == 0
    assert "3 partitions not led by the first replica yet: broker 2 is not in sync" in done.stderr


def test_what_has_no_leader_is_named_when_all_else_is_done(cluster: FakeAdmin) -> None:
    """Whatever could move it is away: the command would wait for ever."""
    cluster.unled("orders")
    cluster.stuck = {*ORDERS}
    done = run("--all-topics", "--brokers", "1,2", "--execute")
    assert done.exit_code == 1
    assert "3 partitions without a leader cannot be moved, such as orders-0" in done.stderr
    assert "coterie brokers replace" in done.stderr
    assert cluster.moves.keys() == {*ORDERS}, "they go on when a broker is back"
    assert set(replicas(cluster, "__consumer_offsets")[0]) == {1, 2}


def test_a_partition_that_gets_its_leader_late_is_waited_for(cluster: FakeAdmin) -> None:
    cluster.unled("orders")
    assert run("orders", "--brokers", "1,2", "--execute").exit_code == 0, "as many polls as there are partitions"
    assert {frozenset(each) for each in replicas(cluster)} == {frozenset((1, 2))}


def test_so_few_replicas_that_writes_would_be_refused_or_lost_are_not_made(cluster: FakeAdmin) -> None:
    cluster.configs["orders"] = {"min.insync.replicas": "2"}
    assert "min.insync.replicas=2 of orders" in run("orders", "--replication-factor", "1", "--execute").stderr
    cluster.add_topic("behind", 1, isr=(1,))
    refused = run("behind", "--brokers", "0", "--replication-factor", "1", "--execute")
    assert (refused.exit_code, cluster.moves) == (1, {})
    assert "behind-0: broker 0 keeps its replica, which is not in sync" in refused.stderr
    assert run("behind", "--brokers", "1,2", "--replication-factor", "1", "--execute").exit_code == 0


def test_a_factor_given_again_while_partitions_move_is_no_change(cluster: FakeAdmin) -> None:
    """They have more replicas than that meanwhile, some of them not in sync."""
    cluster.brokers = (0, 1, 2, 3, 4)
    cluster.add_topic("grown", 6, isr=(0,))
    planned = json.loads(run("grown", "--replication-factor", "3", "--format", "json").stdout)
    cluster.moving = False
    for row in planned:
        cluster.begin(TopicPartition("grown", row["partition"]), tuple(row["new_replicas"]))
    assert max(map(len, replicas(cluster, "grown"))) > 3
    again = run("grown", "--replication-factor", "3", "--format", "json")
    assert (again.exit_code, json.loads(again.stdout)) == (0, [])


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        ([], 2, "say which topics"),
        (["orders", "--all-topics"], 2, "say which topics"),
        (["orders", "--dry-run", "--execute"], 2, "contradict"),
        (["orders", "--cancel", "--brokers", "1"], 2, "--cancel cannot be given with --brokers"),
        (["orders", "--brokers", "1,x"], 2, "'1,x' is not ID,ID"),
        (["orders", "--brokers", ""], 2, "'' is not ID,ID"),
        (["orders", "--brokers", "1,7"], 2, "broker 7 is not alive; these are: 0, 1, 2"),
        (["nothing"], 1, "there is no topic nothing"),
        (["orders", "--replication-factor", "4"], 1, "orders-0: 4 replica(s) do not fit on 3 broker(s)"),
        (["orders", "--brokers", "1"], 1, "orders-0: 2 replica(s) do not fit on 1 broker(s)"),
    ],
)
def test_what_cannot_be_is_refused(cluster: FakeAdmin, arguments: list[str], code: int, why: str) -> None:
    done = run(*arguments, "--execute") if "--dry-run" not in arguments else run(*arguments)
    assert done.exit_code == code
    assert why in done.stderr
    assert cluster.moves == {}
