"""`coterie groups` and `coterie which` against a cluster in memory."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from actors.cli import calls
from actors.cli.main import cli
from actors.client import OffsetAndMetadata, TopicPartition
from actors.client.admin.offset_plans import Log
from actors.client.admin.types import GroupDescription, MemberDescription
from actors.cluster import ClusterError
from actors.links.group_status import ClassicStatus, RebalanceEvent
from actors.links.views import GetGroup, GroupView
from actors.runtime.environment import REAL, Clock
from tests.support.fake_admin import HOST, FakeAdmin
from tests.support.fake_views import FakeViews, group_row

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
MEMBER = MemberDescription("m-1", None, "c", "/127.0.0.1", ("t",), (A,), b"", b"")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()
    fake.add_topic("t", 2)
    fake.logs = {A: Log(5, 20), B: Log(0, 10)}
    fake.groups = {
        "busy": GroupDescription("busy", "Stable", "consumer", "range", (MEMBER,), HOST),
        "idle": GroupDescription("idle", "Empty", "consumer", "", (), HOST),
    }
    fake.offsets = {
        "busy": {A: OffsetAndMetadata(12)},
        "idle": {A: OffsetAndMetadata(7), B: OffsetAndMetadata(3, "note", 1)},
    }
    monkeypatch.setattr(calls, "connect", fake.connect)
    return fake


def run(*arguments: str, clock: Clock = REAL.clock) -> Result:
    return CliRunner().invoke(cli, ["groups", *arguments], obj=clock)


def reset(*arguments: str) -> Result:
    return run("reset-offsets", *arguments)


# --- list, describe ---


def test_list_prints_names_alone(cluster: FakeAdmin) -> None:
    assert run("list").stdout == "busy\nidle\n"


def test_list_with_states_is_a_table_of_those_named(cluster: FakeAdmin) -> None:
    assert run("list", "--state").stdout.splitlines() == ["GROUP  STATE", "busy   Stable", "idle   Empty"]
    assert run("list", "--state", "empty,dead").stdout.splitlines() == ["GROUP  STATE", "idle   Empty"]


def test_list_as_json(cluster: FakeAdmin) -> None:
    assert json.loads(run("list", "--format", "json").stdout)[0] == {
        "group": "busy",
        "type": "Classic",
        "protocol": "consumer",
        "state": "Stable",
    }


def test_describe_shows_offsets_and_lag(cluster: FakeAdmin) -> None:
    assert run("describe", "busy").stdout.splitlines() == [
        "GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST        CLIENT-ID",
        "busy   t      0          12              20              8    m-1          /127.0.0.1  c",
    ]


WORKER = MemberDescription("w-1", None, "worker", "/127.0.0.1", (), (), b"x", b"y")


def test_describe_of_a_connect_group_shows_its_members(cluster: FakeAdmin) -> None:
    """Nothing was printed, with exit code 0."""
    cluster.groups["sinks"] = GroupDescription("sinks", "Stable", "connect", "sessioned", (WORKER,), HOST)
    cluster.offsets["sinks"] = {}
    result = run("describe", "sinks")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "GROUP  PROTOCOL-TYPE  STATE   CONSUMER-ID  HOST        CLIENT-ID",
        "sinks  connect        Stable  w-1          /127.0.0.1  worker",
    ]
    (row,) = json.loads(run("describe", "sinks", "--format", "json").stdout)
    assert (row["protocol_type"], row["state"], row["consumer_id"]) == ("connect", "Stable", "w-1")
    for view in ("--members", "--state"):
        assert "connect" in run("describe", "sinks", view).stdout


def test_describe_of_a_connect_group_shows_what_it_has_committed_as_well(cluster: FakeAdmin) -> None:
    cluster.groups["sinks"] = GroupDescription("sinks", "Empty", "connect", "", (), HOST)
    cluster.offsets["sinks"] = {A: OffsetAndMetadata(7)}
    lines = [line.split() for line in run("describe", "sinks").stdout.splitlines()]
    assert lines[1] == ["sinks", "connect", "Empty", "-", "-", "-"]
    assert lines[3][:6] == ["sinks", "t", "0", "7", "20", "13"]


def test_describe_of_an_empty_group_says_so_beside_the_table(cluster: FakeAdmin) -> None:
    result = run("describe", "--group", "idle", "--verbose")
    assert result.stderr == "Consumer group 'idle' has no active members.\n"
    assert result.stdout.splitlines()[2].split() == ["idle", "t", "1", "1", "3", "10", "7", "-", "-", "-", "note"]


def test_describe_members_and_state(cluster: FakeAdmin) -> None:
    assert run("describe", "busy", "--members", "--verbose").stdout.splitlines()[1].split() == [
        *("busy", "m-1", "/127.0.0.1", "c", "1", "t(0)"),
    ]
    assert run("describe", "--all-groups", "--state", "--format", "json").exit_code == 0
    assert run("describe", "busy", "--state").stdout.splitlines() == [
        "GROUP  COORDINATOR      ASSIGNMENT-STRATEGY  STATE   #MEMBERS",
        "busy   host-1:9093 (1)  range                Stable  1",
    ]


class FakeCluster:
    """Stands in for the cluster that `Cluster.connect` finds on Ray."""

    def __init__(self, cluster_id: str, *, has_monitor: bool = True) -> None:
        self.cluster_id = cluster_id
        self.has_monitor = has_monitor

    @contextmanager
    def connect(self, *_: object, **__: object) -> Iterator[FakeCluster]:
        yield self

    def status(self) -> dict[str, str]:
        return {"cluster_id": self.cluster_id}

    def view(self, asked: GetGroup) -> GroupView:
        if not self.has_monitor:
            raise ClusterError("this cluster has no Monitor")
        found: GroupView = FakeViews(groups=(group_row(asked.group_id, lag=12, lag_seconds=3.5),)).view(asked)
        return found

    def group_status(self, group_id: str, broker_id: int) -> ClassicStatus | None:
        assert broker_id == HOST.id
        return (
            ClassicStatus(7, ("m-1",), 250, (RebalanceEvent(0, 6, "leader rejoined", "m-1"),))
            if group_id == "busy"
            else None
        )


def test_a_group_of_another_type_is_described_with_its_type_state_offsets_and_lag(cluster: FakeAdmin) -> None:
    """It did not exist, for DescribeGroups knows classic groups alone."""
    cluster.groups["s"] = GroupDescription("s", "Open", "tiny", "", (), HOST, "tiny")
    cluster.offsets["s"] = {A: OffsetAndMetadata(12)}
    found = run("describe", "s")
    assert found.stdout.splitlines() == [
        "GROUP  TYPE  PROTOCOL-TYPE  STATE",
        "s      tiny  tiny           Open",
        "GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID",
        "s      t      0          12              20              8    -            -     -",
    ]
    assert found.stderr == "Group 's' is of type tiny: its members and what they have cannot be described.\n"
    assert run("describe", "s", "--state").stdout.splitlines()[1].split() == [
        *("s", "tiny", "tiny", "host-1:9093", "(1)", "-", "Open", "-")
    ]
    assert run("describe", "s", "--members").exit_code == 0
    assert run("list", "--type", "tiny").stdout.splitlines()[1].split() == ["s", "Tiny", "Open"]
    refused = reset("s", "--topic", "t", "--to-latest", "--execute")
    assert refused.exit_code == 1
    assert "'s' is Open: stop them first" in refused.output


def test_describe_state_verbose_shows_whom_a_group_waits_for_and_why_it_rebalanced(
    cluster: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.cluster.Cluster.connect", FakeCluster("c").connect)
    assert run("describe", "busy", "--state", "--verbose").stdout.splitlines() == [
        "GROUP  COORDINATOR      ASSIGNMENT-STRATEGY  STATE   #MEMBERS  LAG  LAG-SECONDS  GENERATION  WAITS-FOR  "
        "ENDS-IN-MS",
        "busy   host-1:9093 (1)  range                Stable  1         12   3.5          7           m-1        250",
        "GROUP  REBALANCE                      ENDED-GENERATION  MEMBER  REASON",
        "busy   1970-01-01 00:00:00.000+00:00  6                 m-1     leader rejoined",
    ]
    busy, idle = json.loads(run("describe", "busy", "idle", "--state", "--verbose", "--format", "json").stdout)
    assert (busy["waits_for"], busy["rebalances"][0]["reason"]) == (["m-1"], "leader rejoined")
    assert idle["state"] == "Empty"


def test_describe_state_verbose_says_what_it_can_without_a_monitor(
    cluster: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.cluster.Cluster.connect", FakeCluster("c", has_monitor=False).connect)
    found = run("describe", "busy", "--state", "--verbose")
    assert found.stderr == "The lag in time is not known: this cluster has no Monitor\n"
    assert found.stdout.splitlines()[1].split()[-5:] == ["-", "-", "7", "m-1", "250"]


def test_describe_watch_shows_a_group_again_and_again(cluster: FakeAdmin) -> None:
    looks = 0

    def pause(seconds: float) -> None:
        nonlocal looks
        looks += 1
        cluster.offsets["busy"] = {A: OffsetAndMetadata(7 + looks)}
        if looks == 3:
            raise KeyboardInterrupt

    done = run("describe", "busy", "--watch", "--interval", "0.5", clock=Clock(sleep=pause))
    assert done.exit_code == 130
    offsets = [line.split()[3] for line in done.stdout.splitlines() if line.startswith("busy")]
    assert offsets[-2:] == ["8", "9"]


def test_describe_state_verbose_says_that_only_coterie_knows_more(
    cluster: FakeAdmin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    described = ("describe", "busy", "--state", "--verbose", "--data-dir", str(tmp_path))
    found = run(*described)
    assert "Only Coterie knows" in found.stderr
    assert "no cluster has been started" in found.stderr
    assert found.stdout.splitlines()[1].split()[-7:] == ["Stable", "1", "-", "-", "-", "-", "-"]
    monkeypatch.setattr("actors.cluster.Cluster.connect", FakeCluster("another").connect)
    found = run(*described)
    assert "is not the one of the bootstrap server" in found.stderr
    assert found.stdout.splitlines()[1].split()[-7:] == ["Stable", "1", "-", "-", "-", "-", "-"]


def test_describe_of_a_missing_group_is_an_error(cluster: FakeAdmin) -> None:
    result = run("describe", "busy", "ghost")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "coterie: Consumer group 'ghost' does not exist.\n"


@pytest.mark.parametrize("arguments", [["describe"], ["describe", "a", "--all-groups"], ["delete"], ["delete-offsets"]])
def test_unclear_group_is_wrong_usage(cluster: FakeAdmin, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


# --- delete ---


def test_delete_of_an_empty_group(cluster: FakeAdmin) -> None:
    assert run("delete", "idle").stdout == "Deleted group idle.\n"
    assert "idle" not in cluster.groups


def test_delete_of_a_group_with_members_is_an_error(cluster: FakeAdmin) -> None:
    result = run("delete", "busy")
    assert (result.exit_code, result.stderr) == (1, "coterie: the group still has members: stop them first\n")


def test_delete_offsets_answers_for_each_partition(cluster: FakeAdmin) -> None:
    result = run("delete-offsets", "busy", "--topic", "t:0,1")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "GROUP  TOPIC  PARTITION  STATUS",
        "busy   t      0          the group is subscribed to the topic: stop its members first",
        "busy   t      1          Successful",
    ]
    assert run("delete-offsets", "idle", "--topic", "t").exit_code == 0


# --- reset-offsets ---


def test_reset_is_a_dry_run_unless_executed(cluster: FakeAdmin) -> None:
    result = reset("idle", "--topic", "t", "--to-earliest")
    assert result.stdout.splitlines() == [
        "GROUP  TOPIC  PARTITION  NEW-OFFSET",
        "idle   t      0          5",
        "idle   t      1          0",
    ]
    assert "dry run" in result.stderr
    assert cluster.offsets["idle"][A] == OffsetAndMetadata(7)


@pytest.mark.parametrize(
    ("target", "offsets"),
    [
        (["--to-earliest"], {A: 5, B: 0}),
        (["--to-latest"], {A: 20, B: 10}),
        (["--to-current"], {A: 7, B: 3}),
        (["--to-offset", "8"], {A: 8, B: 8}),
        (["--shift-by", "-1"], {A: 6, B: 2}),
        (["--to-datetime", "1970-01-01T00:00:01"], {A: 15, B: 10}),
        (["--by-duration", "PT1H"], {A: 15, B: 10}),
    ],
)
def test_reset_moves_every_topic_of_a_group(
    cluster: FakeAdmin, target: list[str], offsets: dict[TopicPartition, int]
) -> None:
    cluster.times = {A: 15}
    assert reset("idle", "--all-topics", *target, "--execute").exit_code == 0
    assert {partition: each.offset for partition, each in cluster.offsets["idle"].items()} == offsets


def test_reset_asks_for_the_time_that_was_named(cluster: FakeAdmin) -> None:
    reset("idle", "--all-topics", "--to-datetime", "1970-01-01T00:00:01")
    assert cluster.asked_time_ms == 1000
    reset("idle", "--all-topics", "--by-duration", "PT1H")
    assert cluster.asked_time_ms == pytest.approx(time.time() * 1000 - 3_600_000, abs=60_000)


def test_reset_of_some_partitions_leaves_the_others(cluster: FakeAdmin) -> None:
    assert reset("idle", "--topic", "t:1", "--to-latest", "--execute").exit_code == 0
    assert cluster.offsets["idle"] == {A: OffsetAndMetadata(7), B: OffsetAndMetadata(10)}


def test_reset_outside_the_log_takes_the_nearest_and_warns(cluster: FakeAdmin) -> None:
    result = reset("idle", "--topic", "t:0", "--to-offset", "99", "--dry-run")
    assert result.stderr == "warning: t-0 has offsets 5 to 20: 20 instead of 99\n"


def test_reset_of_a_group_at_work_is_refused_before_anything_moves(cluster: FakeAdmin) -> None:
    result = reset("idle", "busy", "--all-topics", "--to-latest", "--execute")
    assert result.exit_code == 1
    assert "'busy' is Stable with 1 member: stop them first" in result.stderr
    assert cluster.offsets["idle"][A] == OffsetAndMetadata(7)


def test_export_and_import_are_each_others_inverse(cluster: FakeAdmin, tmp_path: Path) -> None:
    saved = tmp_path / "offsets.csv"
    saved.write_text(reset("idle", "--all-topics", "--to-current", "--export").stdout)
    assert saved.read_text() == "t,0,7\nt,1,3\n"
    reset("idle", "--all-topics", "--to-latest", "--execute")
    assert reset("idle", "--from-file", str(saved), "--execute").exit_code == 0
    assert {partition: each.offset for partition, each in cluster.offsets["idle"].items()} == {A: 7, B: 3}


@pytest.mark.parametrize(
    "arguments",
    [
        ["idle", "--topic", "t"],
        ["idle", "--to-latest"],
        ["idle", "--topic", "t", "--all-topics", "--to-latest"],
        ["idle", "--topic", "t", "--to-latest", "--to-earliest"],
        ["idle", "--topic", "t", "--to-latest", "--execute", "--dry-run"],
        ["--topic", "t", "--to-latest"],
        ["idle", "--all-groups", "--topic", "t", "--to-latest"],
    ],
)
def test_unclear_reset_is_wrong_usage(cluster: FakeAdmin, arguments: list[str]) -> None:
    result = reset(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    ("topic", "words"), [("x", "there is no topic x"), ("t:7", "there is no partition t-7"), ("t:x", "is not TOPIC")]
)
def test_reset_of_what_is_not_there_is_an_error(cluster: FakeAdmin, topic: str, words: str) -> None:
    result = reset("idle", "--topic", topic, "--to-latest", "--execute")
    assert (result.exit_code, words in result.stderr) == (1, True)


# --- which ---


def test_which_names_partition_and_coordinator(cluster: FakeAdmin) -> None:
    cluster.add_topic("__consumer_offsets", 50, internal=True)
    result = CliRunner().invoke(cli, ["which", "consume_group"])
    assert result.stdout.splitlines() == [
        "GROUP          PARTITION              COORDINATOR-ID  HOST    PORT",
        "consume_group  __consumer_offsets-34  1               host-1  9093",
    ]


def test_which_without_a_visible_offsets_topic_names_the_coordinator(cluster: FakeAdmin) -> None:
    result = CliRunner().invoke(cli, ["which", "g", "--format", "json"])
    assert json.loads(result.stdout) == [
        {"group": "g", "partition": None, "coordinator_id": 1, "host": "host-1", "port": 9093}
    ]
