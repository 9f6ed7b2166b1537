"""Orders to a cluster in a child process: broken off, in forks, with wrong arguments, to a child that has gone."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import pytest

import coterie.testing
from actors.client import Consumer
from actors.one_process import orders
from actors.one_process.asking import coordinator_served
from actors.one_process.starting import ClusterProcess
from coterie.testing import Cluster, OrderError
from placement.hashing import partition_for_group
from tests.support.one_process import program, runs, wait_until

INF, NAN = float("inf"), float("nan")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with coterie.testing.cluster() as made:
        yield made


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where clusters have their files, of which none may be left. Its name is short: there are sockets in it."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as made:
        yield Path(made)


class BrokenOffError(Exception):
    """As pytest-timeout's signal raises one."""


# --- orders that are broken off


def _advance_on_and_on(cluster: Cluster) -> NoReturn:
    while True:
        cluster.advance(1200)


def test_orders_after_one_that_a_signal_broke_off_have_their_own_answers(cluster: Cluster) -> None:
    def alarm(*_: object) -> None:
        raise BrokenOffError

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(BrokenOffError):
            _advance_on_and_on(cluster)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert cluster.create_topic("after") == "after"
    with pytest.raises(OrderError, match="no API 'Fetsh'"):
        cluster.refuse("Fetsh", "NOT_COORDINATOR")
    assert cluster.leave_alone() == 0
    assert cluster.lose_leader("after") == 0


# --- forks of the program


FORKS = """
import os, sys
import coterie.testing

def forked(work):
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.waitpid(pid, 0)

def ask():
    try:
        print(cluster.create_topic("of-the-fork"))
    except coterie.testing.OrderError as error:
        print(error)

with coterie.testing.cluster() as cluster:
    forked(ask)
    print(cluster.create_topic("of-the-program"), flush=True)
    forked(cluster.close)
    print(os.path.exists(sys.argv[1]), len(os.listdir(sys.argv[1])), cluster.create_topic("later"))
"""


def test_a_fork_takes_no_answers_and_ends_no_cluster(folder: Path) -> None:
    with program(FORKS, str(folder), TMPDIR=str(folder)) as started:
        said = started.communicate()[0].splitlines()
    assert "asked by the process that started it" in said[0]
    assert said[1:] == ["of-the-program", "True 1 later"]
    assert list(folder.iterdir()) == []


HELD = """
import os
from actors.one_process.starting import ClusterProcess

process = ClusterProcess(1, {}, 30.0, None)
reading, writing = os.pipe()
pid = os.fork()
if not pid:
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
process.close()
print(process.status, os.path.exists(process.folder))
os.close(writing)
os.waitpid(pid, 0)
"""


def test_a_child_is_not_killed_to_be_closed_while_a_fork_has_the_socket(folder: Path) -> None:
    with program(HELD, TMPDIR=str(folder)) as started:
        assert started.communicate()[0] == "0 False\n"


def test_a_child_is_not_killed_to_be_closed_while_it_carries_out_an_order() -> None:
    process = ClusterProcess(1, {}, 30.0, None)
    begun = threading.Event()
    errors: list[str] = []

    def work() -> None:
        try:
            while True:
                process.ask(orders.MoveClock(1200.0))
                begun.set()
        except OrderError as error:
            errors.append(str(error))

    asking = threading.Thread(target=work)
    asking.start()
    assert begun.wait(30)
    process.close()
    asking.join()
    assert process.status == 0
    assert errors == ["the cluster is closed"]


# --- wrong arguments


Call = Callable[[Cluster], object]
WRONG: list[tuple[str, Call]] = [
    ("partitions is a whole number, not '3'", lambda c: c.create_topic(partitions="3")),  # type: ignore[arg-type]
    ("partitions is a whole number, not True", lambda c: c.create_topic(partitions=True)),
    ("partitions is at most", lambda c: c.create_topic(partitions=10**10)),
    ("INVALID_PARTITIONS", lambda c: c.create_topic(partitions=0)),
    ("replicas is at most 32767", lambda c: c.create_topic(replicas=40_000)),
    ("name is no text", lambda c: c.create_topic("\ud800")),
    ("CreateTopic is too long", lambda c: c.create_topic("x" * 200_000)),
    ("INVALID_TOPIC_EXCEPTION", lambda c: c.create_topic("x" * 300)),
    (r"settings\['retention.ms'\] is a text, not \[1\]", lambda c: c.create_topic(settings={"retention.ms": [1]})),  # type: ignore[dict-item]
    ("a name in settings is a text, not 1", lambda c: c.create_topic(settings={1: "x"})),  # type: ignore[dict-item]
    ("settings are a mapping", lambda c: c.create_topic(settings="a=b")),  # type: ignore[arg-type]
    ("group is a text, not None", lambda c: c.kill_coordinator(None)),  # type: ignore[arg-type]
    ("member is a text, not 7", lambda c: c.expel("any", 7)),  # type: ignore[arg-type]
    ("partition is at least 0", lambda c: c.lose_leader("any", -1)),
    ("topic is a text", lambda c: c.lose_leader(b"any")),  # type: ignore[arg-type]
    ("seconds is a number of seconds, not '1'", lambda c: c.delay("Fetch", "1")),  # type: ignore[arg-type]
    ("seconds is from 0 to .* not nan", lambda c: c.delay("Fetch", NAN)),
    ("seconds is from 0 to .* not -5", lambda c: c.delay("Fetch", -5)),
    ("api is a text", lambda c: c.delay(1, 1)),  # type: ignore[arg-type]
    ("times is a whole number, not 1.5", lambda c: c.refuse("Fetch", "NOT_COORDINATOR", times=1.5)),  # type: ignore[arg-type]
    ("times is at least 1", lambda c: c.refuse("Fetch", "NOT_COORDINATOR", times=0)),
    ("NONE is no error", lambda c: c.refuse("Produce", "NONE")),
    ("seconds is from 0 to .* not inf", lambda c: c.advance(INF)),
    ("seconds is from 0 to .* not nan", lambda c: c.advance(NAN)),
    ("seconds is from 0 to .* not -1", lambda c: c.advance(-1)),
    ("seconds is a number of seconds, not None", lambda c: c.advance(None)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("reason", "call"), WRONG)
def test_a_wrong_argument_is_said_and_ends_no_cluster(cluster: Cluster, reason: str, call: Call) -> None:
    with pytest.raises(OrderError, match=reason):
        call(cluster)
    cluster.leave_alone()


def test_settings_of_topics_and_brokers_may_be_numbers_and_truths(folder: Path) -> None:
    settings = {"min.insync.replicas": 1, "auto.create.topics.enable": False, "log.cleaner.min.cleanable.ratio": 0.25}
    with coterie.testing.cluster(settings=settings, within=str(folder)) as other:
        assert other.create_topic("t", settings={"retention.ms": 1000, "unclean.leader.election.enable": True}) == "t"


@pytest.mark.parametrize(
    ("reason", "arguments"),
    [
        ("brokers is at least 1", {"brokers": 0}),
        ("brokers is a whole number, not '1'", {"brokers": "1"}),
        ("start_s is a number of seconds", {"start_s": None}),
        ("start_s is from 0", {"start_s": INF}),
        ("within is the path of a folder, not 7", {"within": 7}),
        (r"settings\['a'\] is a text, not None", {"settings": {"a": None}}),
    ],
)
def test_a_cluster_that_cannot_be_is_said_to_be_so(reason: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(OrderError, match=reason):
        coterie.testing.cluster(**arguments)


def test_a_message_that_cannot_be_read_ends_no_cluster() -> None:
    """Nothing sends one now: what is asked is checked before."""
    process = ClusterProcess(1, {}, 30.0, None)
    try:
        with pytest.raises(OrderError, match=r"Delay.seconds: 'long' is no float"):
            process.ask(orders.Delay("Fetch", "long", 1))  # type: ignore[arg-type]
        assert process.ask(orders.LeaveAlone()) == "0"
    finally:
        process.close()


# --- what the cluster asks itself


def test_orders_use_up_no_rule_and_are_not_met_by_one(cluster: Cluster) -> None:
    before = cluster.leave_alone()
    cluster.refuse("CreateTopics", "NOT_CONTROLLER")
    cluster.delay("DescribeGroups", 600)
    assert cluster.create_topic("in-spite-of-it") == "in-spite-of-it"
    with pytest.raises(OrderError, match="0 members"):
        cluster.expel("nobody", "nobody")
    assert cluster.leave_alone() == before


def test_a_group_that_does_not_exist_has_no_coordinator_to_kill(cluster: Cluster) -> None:
    """Groups share coordinators: the one by which another group is served stays."""
    topic = cluster.create_topic()
    with Consumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id="real") as member:
        wait_until(lambda: member.poll(50) is not None and len(member.assignment()) == 1, what="a member")
        same = next(name for n in count() if _place(name := f"typo-{n}") == _place("real"))
        with pytest.raises(OrderError, match=f"there is no such group|nobody coordinates {same}"):
            cluster.kill_coordinator(same)
        cluster.kill_coordinator("real")


def _place(group: str) -> int:
    return partition_for_group(group, 4)


def test_why_groups_have_no_coordinator_is_said() -> None:
    settings = {"offsets.topic.replication.factor": "3"}
    with pytest.raises(OrderError, match="2 s for a coordinator of groups: COORDINATOR_NOT_AVAILABLE"):
        coterie.testing.cluster(settings=settings, start_s=2).start()


async def test_an_error_that_stays_ends_the_wait_for_a_coordinator(cluster: Cluster) -> None:
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    heard: list[str] = []
    cluster.refuse("FindCoordinator", "COORDINATOR_LOAD_IN_PROGRESS", times=2)
    cluster.refuse("FindCoordinator", "GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(OrderError, match="groups have no coordinator: GROUP_AUTHORIZATION_FAILED"):
        await coordinator_served(host, int(port), heard.append)
    assert [text.partition(":")[0] for text in heard] == ["COORDINATOR_LOAD_IN_PROGRESS"] * 2
    await coordinator_served(host, int(port), heard.append)


# --- a child that has gone


def test_a_cluster_that_was_closed_is_said_to_be_so() -> None:
    cluster = coterie.testing.cluster().start()
    cluster.close()
    cluster.close()
    with pytest.raises(OrderError, match="the cluster is closed"):
        cluster.create_topic()


def test_which_signal_ended_a_child_is_said() -> None:
    with coterie.testing.cluster() as cluster:
        os.kill(cluster.pid, signal.SIGKILL)
        with pytest.raises(OrderError, match="the cluster's process has ended by SIGKILL"):
            cluster.create_topic()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
def test_a_signal_to_the_whole_process_group_leaves_no_file(folder: Path, number: signal.Signals) -> None:
    """As a terminal sends it, and as programs kill each other with all that they have started."""
    code = """
import signal, sys, coterie.testing
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell has its background jobs ignore both
with coterie.testing.cluster() as c:
    print(c.pid, flush=True)
    sys.stdin.read()
"""
    with program(code, new_group=True, TMPDIR=str(folder)) as started:
        assert started.stdout is not None
        child = int(started.stdout.readline())
        os.killpg(started.pid, number)
        started.wait()
        wait_until(lambda: not runs(child), what="the child has ended")
    assert list(folder.iterdir()) == []


# --- how it is started


def test_modules_beside_a_test_do_not_stand_for_those_of_the_standard_library(tmp_path: Path) -> None:
    for name in ("queue", "socket", "dataclasses", "msgpack"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('a module of the tests')")
    code = """
import sys, coterie.testing
sys.path.insert(0, sys.argv[1])
with coterie.testing.cluster() as c:
    print(c.create_topic("t"))
"""
    with program(code, str(tmp_path)) as started:
        assert started.communicate()[0] == "t\n"


def test_it_starts_where_the_working_folder_was_removed(tmp_path: Path) -> None:
    code = """
import os, sys, coterie.testing
os.chdir(sys.argv[1])
os.rmdir(sys.argv[1])
sys.path.insert(0, "")
with coterie.testing.cluster() as c:
    print(c.create_topic("t"))
"""
    (tmp_path / "here").mkdir()
    with program(code, str(tmp_path / "here")) as started:
        assert started.communicate()[0] == "t\n"


def test_passwords_in_settings_are_in_no_list_of_processes() -> None:
    with coterie.testing.cluster(settings={"log.retention.ms": "987654321"}) as other:
        seen = Path(f"/proc/{other.pid}/cmdline").read_bytes()
        assert b"987654321" not in seen
        assert b"987654321".hex().encode() not in seen
