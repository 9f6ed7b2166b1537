"""The coterie command against real brokers, ours and others'."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from actors.cli.main import cli
from actors.client import Admin, TopicPartition
from actors.wire.messages import FindCoordinatorRequest
from tests.compat.peers import ROOT, Peer
from tests.compat.raw import Raw, await_topics, find_coordinator
from tests.compat.support import against, wait_until

brokers = against("kfake", "kafka", "coterie")


def coterie(kafka: Peer, *arguments: str, stdin: bytes | None = None, code: int = 0) -> Result:
    """Run the command; fails unless it exits with `code`."""
    environment = {"COTERIE_BOOTSTRAP_SERVER": kafka.bootstrap_servers}
    result = CliRunner().invoke(cli, arguments, input=stdin, env=environment)
    assert result.exit_code == code, f"coterie {' '.join(arguments)}: {result.output}"
    return result


def rows(kafka: Peer, *arguments: str) -> Any:
    return json.loads(coterie(kafka, *arguments, "--format", "json").stdout)


def create(kafka: Peer, topic: str, partitions: int) -> None:
    """Create a topic and wait until its partitions have leaders, as every broker knows: any may be asked next."""
    coterie(kafka, "topics", "create", topic, "--partitions", str(partitions), "--replication-factor", "1")
    await_topics(kafka.bootstrap_servers, {topic: partitions})
    wait_until(lambda: led(kafka, topic) == partitions, what="leaders")


def led(kafka: Peer, topic: str) -> int:
    described = rows(kafka, "topics", "describe", topic)[0]["partitions"]
    return sum(partition["leader"] is not None for partition in described)


def offsets(kafka: Peer, group: str) -> dict[int, tuple[int | None, int]]:
    """Committed offset and lag of each partition."""
    described = rows(kafka, "groups", "describe", group)
    return {row["partition"]: (row["current_offset"], row["lag"]) for row in described}


@contextlib.contextmanager
def consumer(kafka: Peer, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`coterie consume` in a process of its own."""
    command = [sys.executable, "-m", "actors.cli.main", "consume", *arguments]
    command += ["--bootstrap-server", kafka.bootstrap_servers]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield child
    finally:
        child.kill()
        child.communicate(timeout=30)


@brokers
def test_topic_is_created_shown_altered_and_deleted(kafka: Peer, name: str) -> None:
    create(kafka, name, 2)
    assert name in coterie(kafka, "topics", "list").stdout.split()
    coterie(kafka, "topics", "create", name, code=1)
    assert "is there already" in coterie(kafka, "topics", "create", name, "--if-not-exists").stdout

    coterie(kafka, "topics", "alter", name, "--partitions", "3", "--config", "retention.ms=86400000")
    await_topics(kafka.bootstrap_servers, {name: 3})  # the setting was changed before
    assert led(kafka, name) == 3
    described = rows(kafka, "topics", "describe", name)[0]
    assert described["partition_count"] == 3
    assert described["configs"]["retention.ms"] == "86400000"
    coterie(kafka, "topics", "alter", name, "--delete-config", "retention.ms")
    changed = lambda: rows(kafka, "topics", "describe", name)[0]["configs"]  # noqa: E731
    wait_until(lambda: "retention.ms" not in changed(), what="the setting to go")

    coterie(kafka, "topics", "delete", name)
    wait_until(lambda: name not in coterie(kafka, "topics", "list").stdout.split(), what="the topic to go")
    await_topics(kafka.bootstrap_servers, {name: 0})
    assert f"there is no topic {name}" in coterie(kafka, "topics", "delete", name, code=1).stderr


@brokers
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_what_consume_writes_produce_reads_back(kafka: Peer, name: str, compression: str) -> None:
    create(kafka, name, 2)
    lines = [
        {"key": "a", "value": "1", "headers": [["h", "x"], ["n", None]], "partition": 1},
        {"key": None, "value": None, "headers": [], "partition": 0},
        {"key": {"base64": "/w=="}, "value": "ü\n", "headers": [], "partition": 1},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    produced = coterie(
        kafka, "produce", name, "--format", "json", "--compression-type", compression, stdin=text.encode()
    )
    assert produced.stderr.splitlines() == ["3 records"]
    sizes = [each["size_bytes"] for each in rows(kafka, "topics", "describe", name)[0]["partitions"]]
    assert all(60 < size < 4000 for size in sizes), sizes  # a batch has a header of 61 bytes
    read = coterie(kafka, "consume", name, "--from-beginning", "--max-messages", "3", "--format", "json")
    found = [json.loads(line) for line in read.stdout.splitlines()]
    fields = ("key", "value", "headers", "partition")
    by_partition = sorted(lines, key=lambda line: str(line["partition"]))
    assert sorted(({f: line[f] for f in fields} for line in found), key=lambda x: x["partition"]) == by_partition


@brokers
def test_the_oldest_records_of_a_partition_are_deleted(kafka: Peer, name: str) -> None:
    create(kafka, name, 2)
    lines = [{"value": str(number), "partition": number % 2} for number in range(10)]
    coterie(kafka, "produce", name, "--format", "json", stdin="\n".join(map(json.dumps, lines)).encode())
    deleted = rows(kafka, "topics", "delete-records", f"{name}:1", "--before-offset", "3")
    assert deleted == [{"topic": name, "partition": 1, "low_watermark": 3, "status": "Successful"}]
    read = coterie(kafka, "consume", name, "--from-beginning", "--max-messages", "7")
    assert sorted(read.stdout.split()) == ["0", "2", "4", "6", "7", "8", "9"]
    refused = coterie(kafka, "topics", "delete-records", name, "--before-offset", "99", "--format", "json", code=1)
    assert ["OFFSET_OUT_OF_RANGE (1)" in each["status"] for each in json.loads(refused.stdout)] == [True, True]


@brokers
def test_lines_with_keys_and_headers(kafka: Peer, name: str) -> None:
    create(kafka, name, 1)
    coterie(kafka, "produce", name, "--key-separator", ":", "-H", "from=here", stdin=b"k1:v1\nk2:v2\n")
    read = coterie(
        *(kafka, "consume", name, "--from-beginning", "--max-messages", "2"),
        *("--key-separator", "\\t", "--print-headers"),
    )
    assert read.stdout == "from:here\tk1\tv1\nfrom:here\tk2\tv2\n"
    tail = coterie(kafka, "consume", name, "--partition", "0", "--offset", "1", "--max-messages", "1")
    assert tail.stdout == "v2\n"


@brokers
def test_group_goes_on_where_it_committed(kafka: Peer, name: str) -> None:
    create(kafka, name, 1)
    coterie(kafka, "produce", name, stdin=b"".join(b"%d\n" % i for i in range(10)))
    first = coterie(kafka, "consume", name, "--group", name, "--from-beginning", "--max-messages", "4")
    assert first.stdout.split() == list("0123")
    assert offsets(kafka, name) == {0: (4, 6)}
    second = coterie(kafka, "consume", name, "--group", name, "--from-beginning", "--max-messages", "6")
    assert second.stdout.split() == list("456789")
    assert offsets(kafka, name) == {0: (10, 0)}
    assert {"group": name, "state": "Empty"}.items() <= {
        key: value for row in rows(kafka, "groups", "list") if row["group"] == name for key, value in row.items()
    }.items()


@brokers
def test_living_member_is_shown_and_ctrl_c_lets_it_leave(kafka: Peer, name: str) -> None:
    create(kafka, name, 2)
    with consumer(kafka, name, "--group", name) as child:

        def stable() -> bool:
            found = CliRunner().invoke(
                cli,
                ["groups", "describe", name, "--state", "--format", "json"],
                env={"COTERIE_BOOTSTRAP_SERVER": kafka.bootstrap_servers},
            )
            return found.exit_code == 0 and json.loads(found.stdout)[0]["state"] == "Stable"

        wait_until(stable, what="the group to be stable")
        members = rows(kafka, "groups", "describe", name, "--members")
        assert [(row["client_id"], row["#partitions"]) for row in members] == [("coterie-consume", 2)]
        owners = {row["consumer_id"] for row in rows(kafka, "groups", "describe", name)}
        assert owners == {members[0]["consumer_id"]}
        refused = coterie(kafka, "groups", "reset-offsets", name, "--topic", name, "--to-latest", "--execute", code=1)
        assert "stop them first" in refused.stderr
        coterie(kafka, "groups", "delete", name, code=1)

        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
        assert child.returncode == 130
        assert b"Traceback" not in err
    state = rows(kafka, "groups", "describe", name, "--state")[0]
    assert (state["state"], state["#members"]) == ("Empty", 0)


@brokers
def test_offsets_are_reset_every_way(kafka: Peer, name: str, tmp_path: Path) -> None:
    create(kafka, name, 1)
    lines = [{"value": str(i), "timestamp": 1_700_000_000_000 + i * 1000} for i in range(10)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    coterie(kafka, "produce", name, "--format", "json", stdin=text.encode())

    def reset(*target: str) -> int | None:
        coterie(kafka, "groups", "reset-offsets", name, *target, "--execute")
        return offsets(kafka, name)[0][0]

    assert reset("--topic", name, "--to-offset", "4") == 4  # of a group that did not exist
    assert reset("--all-topics", "--shift-by", "3") == 7
    saved = tmp_path / "offsets.csv"
    export = coterie(kafka, "groups", "reset-offsets", name, "--all-topics", "--to-current", "--export")
    saved.write_text(export.stdout)
    assert saved.read_text() == f"{name},0,7\n"
    assert reset("--topic", f"{name}:0", "--to-earliest") == 0
    assert reset("--all-topics", "--to-latest") == 10
    assert reset("--all-topics", "--to-datetime", "2023-11-14T22:13:25") == 5
    assert reset("--all-topics", "--by-duration", "PT1M") == 10
    assert reset("--all-topics", "--to-offset", "99") == 10
    assert reset("--from-file", str(saved)) == 7
    coterie(kafka, "groups", "reset-offsets", name, "--all-topics", "--to-earliest")
    assert offsets(kafka, name) == {0: (7, 3)}, "a dry run changes nothing"


@brokers
def test_group_and_its_offsets_are_deleted(kafka: Peer, name: str) -> None:
    create(kafka, name, 2)
    coterie(kafka, "groups", "reset-offsets", name, "--topic", name, "--to-latest", "--execute")
    deleted = rows(kafka, "groups", "delete-offsets", name, "--topic", f"{name}:0")
    assert [(row["partition"], row["status"]) for row in deleted] == [(0, "Successful")]
    assert set(offsets(kafka, name)) == {1}
    coterie(kafka, "groups", "delete-offsets", name, "--topic", name)
    assert rows(kafka, "groups", "describe", name, "--state")[0]["state"] == "Empty", "it needs no offsets to live"
    coterie(kafka, "groups", "delete", name)
    gone = coterie(kafka, "groups", "describe", name, code=1)
    assert gone.stderr == f"coterie: Consumer group '{name}' does not exist.\n"


@brokers
def test_which_names_the_coordinator(kafka: Peer, name: str) -> None:
    groups = [f"{name}-{i}" for i in range(6)]  # of one, any broker may be the coordinator by chance
    named = {}
    with Raw(kafka.bootstrap_servers.split(",")[0]) as raw:
        for group in groups:
            find_coordinator(kafka.bootstrap_servers, group)  # from here on it has one
            answer = raw.call(FindCoordinatorRequest(key=group, key_type=0), 2)
            assert answer.error_code == 0
            named[group] = (answer.node_id, answer.host, answer.port)
    found = rows(kafka, "which", *groups)
    assert {row["group"]: (row["coordinator_id"], row["host"], row["port"]) for row in found} == named
    if kafka.kind != "kfake":  # kfake has no offsets topic
        assert all(row["partition"].startswith("__consumer_offsets-") for row in found)


@against("coterie")
@pytest.mark.conformance("A-01")
def test_which_finds_the_partition_of_a_known_group(kafka: Peer) -> None:
    assert rows(kafka, "which", "consume_group")[0]["partition"] == "__consumer_offsets-34"


@against("coterie")
def test_partitions_are_spread_over_brokers_and_get_more_replicas(kafka: Peer, name: str) -> None:
    coterie(kafka, "topics", "create", name, "--replica-assignment", "0,0,0,0,0,0")
    wait_until(lambda: led(kafka, name) == 6, what="leaders")
    lines = [{"key": None, "value": str(number), "headers": [], "partition": number % 6} for number in range(60)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    coterie(kafka, "produce", name, "--format", "json", stdin=text.encode())

    planned = rows(kafka, "topics", "reassign", name, "--replication-factor", "2")
    assert [row["replicas"] for row in planned] == [[0]] * 6
    assert [part["replicas"] for part in partitions(kafka, name)] == [[0]] * 6, "moved by a dry run"
    planned = rows(kafka, "topics", "reassign", name, "--replication-factor", "2", "--execute")
    wait_until(lambda: [part["replicas"] for part in partitions(kafka, name)] == [r["new_replicas"] for r in planned])
    wait_until(lambda: all(part["leader"] == part["replicas"][0] for part in partitions(kafka, name)), what="leaders")
    found = partitions(kafka, name)
    assert sorted(Counter(broker for part in found for broker in part["replicas"]).values()) == [4, 4, 4]
    assert sorted(Counter(part["leader"] for part in found).values()) == [2, 2, 2]

    coterie(kafka, "topics", "reassign", name, "--brokers", "1,2", "--execute")
    wait_until(
        lambda: all(sorted(part["replicas"]) == [1, 2] for part in partitions(kafka, name)), what="0 to be empty"
    )
    assert "nothing to move" in coterie(kafka, "topics", "reassign", name, "--brokers", "1,2", "--execute").stderr
    read = coterie(kafka, "consume", name, "--from-beginning", "--max-messages", "60", "--format", "json")
    assert sorted(int(json.loads(line)["value"]) for line in read.stdout.splitlines()) == list(range(60))


def partitions(kafka: Peer, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows(kafka, "topics", "describe", topic)[0]["partitions"]
    return found


@against("kafka", "coterie")
def test_what_is_where_it_should_be_is_not_moved(kafka: Peer, name: str) -> None:
    create(kafka, name, 1)
    (before,) = partitions(kafka, name)
    brokers = ",".join(map(str, before["replicas"]))
    done = coterie(kafka, "topics", "reassign", name, "--brokers", brokers, "--execute")
    assert (done.stdout, done.stderr) == ("", "nothing to move\n")
    assert "nothing is under way" in coterie(kafka, "topics", "reassign", name, "--cancel", "--execute").stderr
    refused = coterie(kafka, "topics", "reassign", name, "--brokers", brokers, "--replication-factor", "2", code=1)
    assert f"{name}-0: 2 replica(s) do not fit on 1 broker(s)" in refused.stderr
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        place = TopicPartition(name, 0)
        assert admin.list_partition_reassignments() == {}
        assert admin.elect_preferred_leaders([place]) == {place: None}
        assert admin.alter_partition_reassignments({place: before["replicas"]}) == {place: None}
        unknown, nowhere = TopicPartition(name, 7), TopicPartition(f"no-{name}", 0)
        asked = {place: None, unknown: [0], nowhere: [0]}
        errors = admin.alter_partition_reassignments(asked, raise_errors=False)
        assert "NO_REASSIGNMENT_IN_PROGRESS (85)" in str(errors[place])
        assert all("UNKNOWN_TOPIC_OR_PARTITION (3)" in str(errors[each]) for each in (unknown, nowhere))
    assert partitions(kafka, name) == [before]


@against("coterie")
def test_each_line_of_a_clusters_logs_is_an_object_that_names_its_process(kafka: Peer) -> None:
    coterie(kafka, "groups", "describe", "any", code=1)  # the answer comes from a shard, which then has a log
    assert kafka.data_dir is not None
    logs = kafka.data_dir / "logs"
    for name, role in (("controller", "controller"), ("broker-0", "broker"), ("shards-of-0", "shard")):
        lines = [json.loads(line) for line in (logs / f"{name}.log").read_text().splitlines()]
        for line in lines:
            assert {"ts", "level", "logger", "msg"} <= line.keys(), line
            assert (line["cluster"], line["role"]) == ("default", role)
            assert role == "controller" or line["broker"] == 0
    served = wait_until(lambda: _served(logs), what="a shard that serves")
    assert {(line["topic"], line["epoch"] >= 0, line["pid"] > 0) for line in served} == {
        ("__consumer_offsets", True, True)
    }


def _served(logs: Path) -> list[dict[str, Any]]:
    """The lines of the brokers' logs about shards that serve."""
    lines = [json.loads(line) for path in logs.glob("broker-*.log") for line in path.read_text().splitlines()]
    return [line for line in lines if line["logger"] == "actors.broker.coordinators.hub" and "serves" in line["msg"]]
