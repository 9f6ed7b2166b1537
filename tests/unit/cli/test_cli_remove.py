"""`coterie brokers remove`: what it shows, asks of the cluster, and says while it waits."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from actors.cli.brokers import Progress
from actors.cli.main import cli
from actors.cluster import Cluster
from actors.links.removals import PlannedMove, RemovalOutlook, RemovalStatus

MOVES = (PlannedMove("t", 0, (0, 3), (0, 1)), PlannedMove("t", 4, (3,), (2,)))
UNDER_WAY = RemovalStatus(partitions=40, left=12, under_way=4, begun_ms=0, seconds_left=30.4)


class FakeCluster:
    """A running cluster with this answer to what a removal would mean."""

    bootstrap_servers = "h:9092"

    def __init__(self, outlook: RemovalOutlook) -> None:
        self.outlook = outlook
        self.asked: list[tuple[Any, ...]] = []

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, *_: object) -> None: ...

    def removal(self, broker_id: int) -> RemovalOutlook:
        return self.outlook

    def remove_broker(
        self, broker_id: int, *, throttle: int | None, on_progress: Callable[[RemovalStatus], None]
    ) -> None:
        self.asked.append(("remove", broker_id, throttle))
        on_progress(UNDER_WAY)

    def call_off_removal(self, broker_id: int) -> None:
        self.asked.append(("call off", broker_id))


def remove(monkeypatch: pytest.MonkeyPatch, outlook: RemovalOutlook, *options: str) -> tuple[FakeCluster, Result]:
    cluster = FakeCluster(outlook)
    monkeypatch.setattr(Cluster, "connect", lambda *_, **__: cluster)
    return cluster, CliRunner().invoke(cli, ["brokers", "remove", "3", *options])


def test_it_says_how_far_it_is_and_that_the_broker_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, done = remove(monkeypatch, RemovalOutlook(3, None, MOVES), "--throttle", "1000000")
    assert done.exit_code == 0
    assert cluster.asked == [("remove", 3, 1_000_000)]
    assert done.stdout == "removed 3 bootstrap.servers=h:9092\n"
    assert done.stderr == "broker 3: 12 of 40 partitions left, 4 under way, about 30 s\n"


def test_what_the_cluster_refuses_is_the_error_and_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = RemovalOutlook(3, "topic t has replication factor 4, and 3 brokers would be left")
    for options in ((), ("--dry-run",)):
        cluster, done = remove(monkeypatch, refused, *options)
        assert done.exit_code == 1
        assert "topic t has replication factor 4, and 3 brokers would be left" in done.stderr
        assert cluster.asked == []


def test_a_dry_run_shows_the_moves_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, done = remove(monkeypatch, RemovalOutlook(3, None, MOVES), "--dry-run")
    assert done.stdout.splitlines() == [
        "TOPIC  PARTITION  REPLICAS  NEW-REPLICAS",
        "t      0          0,3       0,1",
        "t      4          3         2",
    ]
    assert "2 partitions to move; nothing was changed" in done.stderr
    assert cluster.asked == []


def test_a_dry_run_is_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    _, done = remove(monkeypatch, RemovalOutlook(3, None, MOVES[:1]), "--dry-run", "--format", "json")
    assert json.loads(done.stdout) == [{"topic": "t", "partition": 0, "replicas": [0, 3], "new_replicas": [0, 1]}]


def test_a_second_call_follows_the_removal_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way = RemovalOutlook(3, None, MOVES, UNDER_WAY)
    cluster, done = remove(monkeypatch, under_way)
    assert (done.exit_code, cluster.asked) == (0, [("remove", 3, None)])
    _, done = remove(monkeypatch, under_way, "--dry-run")
    assert "broker 3 is being removed: 12 of 40 partitions left, 4 under way, about 30 s" in done.stderr


def test_one_that_is_gone_already_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _, done = remove(monkeypatch, RemovalOutlook(3, removed=True))
    assert (done.exit_code, done.stdout) == (0, "removed 3 bootstrap.servers=h:9092\n")


def test_it_can_be_called_off(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, done = remove(monkeypatch, RemovalOutlook(3, None, MOVES, UNDER_WAY), "--cancel")
    assert (done.exit_code, done.stdout, cluster.asked) == (0, "called off: 3 stays\n", [("call off", 3)])
    for other in ("--dry-run", "--throttle=1"):
        cluster, done = remove(monkeypatch, RemovalOutlook(3, None, MOVES, UNDER_WAY), "--cancel", other)
        assert (done.exit_code, cluster.asked) == (2, [])


def test_progress_is_said_every_few_seconds_and_what_it_waits_for_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    shown = Progress(3, lambda: now[0])
    shown(UNDER_WAY)
    for now[0] in (1.0, 4.9):
        shown(UNDER_WAY)
    assert len(capsys.readouterr().err.splitlines()) == 1
    shown(RemovalStatus(40, 12, 4, 0, waits_for="t-0 moves to broker 2, which is away"))
    assert capsys.readouterr().err == (
        "broker 3: 12 of 40 partitions left, 4 under way; t-0 moves to broker 2, which is away\n"
    )
    now[0] = 5.0
    shown(UNDER_WAY)
    assert "about 30 s" in capsys.readouterr().err
    now[0] = 10.0
    shown(UNDER_WAY)
    assert capsys.readouterr().err != ""
