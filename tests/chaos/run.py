"""A chaos run: load from several clients, a fault every few seconds, then peace, and the verdict over the history."""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from actors.client import Admin, Consumer, ConsumerRecord, TopicPartition
from actors.client.admin.types import NewTopic
from actors.client.errors import KafkaError
from placement.hashing import partition_for_group
from tests.chaos import pooled
from tests.chaos.faults import Tormentor
from tests.chaos.history import History, Outcome, judge, percentile
from tests.chaos.load import Committer, ConfluentSender, Load, OwnSender
from tests.chaos.members import CLASSIC, CONSUMER, ConfluentMember, OwnMember, Role
from tests.chaos.on_hosts import HostTormentor, cluster_on_hosts
from tests.chaos.ownership import OwnershipWatcher
from tests.compat.peers import coterie

TOPIC = "chaos"
OF_OWN, OF_CONFLUENT = Role("own-members"), Role("confluent-members")
OF_CONSUMERS = Role("consumer-members", (CONSUMER,))
"""A group of the consumer protocol (KIP-848)."""
MIXED = "mixed-members"
STAYS_CLASSIC = Role(MIXED)
CHANGES_OVER = (Role(MIXED, (CONSUMER, CLASSIC), 23.0), Role(MIXED, (CLASSIC, CONSUMER), 37.0))
"""At times all members of their group are classic, so it becomes a classic group, and a consumer group again."""
OF_CLIENTS = (OF_OWN.group, OF_CONFLUENT.group, OF_CONSUMERS.group, MIXED)
GROUPS = (*OF_CLIENTS, pooled.GROUP)
"""Those that handle every record."""
PARTITIONS = 6
OFFSETS_PARTITIONS = 50
SAFE = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
}
"""The settings under which nothing acknowledged may be lost, whatever processes are killed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`seconds` of faults, each after a pause of `pause_s`; `committers` groups that only commit."""

    seconds: float
    seed: int = 0
    committers: int = 50
    pause_s: tuple[float, float] = (2.0, 6.0)
    faults: tuple[str, ...] = ()
    """Exactly these, one after another, instead of a random choice for `seconds`."""
    heal_s: float = 120.0


def run(
    plan: Plan,
    folder: Path,
    say: Callable[[str], object] = lambda text: None,
) -> Outcome:
    """Torment a cluster in `folder`; its history stands there afterwards. Raises if a client fails or nothing heals."""
    history = History(folder / "history.jsonl")
    with contextlib.closing(history), coterie(folder, port=free_base_port(), config=SAFE) as cluster:
        pool = pooled.Deployments(cluster.data_dir, folder / "pool", TOPIC)
        tormentor = Tormentor(cluster, history, plan.seed, pool.deploy)
        _run(plan, history, cluster.bootstrap_servers, GROUPS, tormentor, say, pool.deploy)
        pool.tell(history)
        _read_back(history, cluster.bootstrap_servers)
    return judge(history.read())


def run_on_hosts(
    plan: Plan,
    folder: Path,
    say: Callable[[str], object] = lambda text: None,
) -> Outcome:
    """The same for a cluster on four hosts, with three controllers. There is no pool."""
    history = History(folder / "history.jsonl")
    with contextlib.closing(history), cluster_on_hosts(folder) as cluster:
        tormentor = HostTormentor(cluster, history, plan.seed, TOPIC)
        _run(plan, history, cluster.servers, OF_CLIENTS, tormentor, say)
        _read_back(history, cluster.servers)
    return judge(history.read())


def _run(
    plan: Plan,
    history: History,
    servers: str,
    groups: tuple[str, ...],
    tormentor: Tormentor | HostTormentor,
    say: Callable[[str], object],
    begun: Callable[[], object] = lambda: None,
) -> None:
    """Load, faults and peace. `begun` is called once the load has begun."""
    say(f"brokers at {servers}; history in {history.path}")
    with Admin(bootstrap_servers=servers) as writer, Admin(bootstrap_servers=servers) as reader:
        _make_topic(writer)
        loads, committers = _loads(plan, history, servers, groups, writer, reader)
        for load in loads:
            load.start()
        begun()
        _wait(lambda: _all_commit(history, plan.committers), plan.heal_s, "every group's first commit")
        _torment(plan, tormentor, say)
        tormentor.heal()
        history.note("peace")
        _heal(plan, history, servers, groups, loads, committers, say)


def free_base_port() -> int:
    """A port with two free neighbours: brokers come back where their clients know them."""
    while True:
        base = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in range(base, base + 3):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return base


def _make_topic(admin: Admin) -> None:
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3), NewTopic(pooled.DEAD_LETTERS, 1, 3)])


def _loads(
    plan: Plan, history: History, servers: str, groups: tuple[str, ...], writer: Admin, reader: Admin
) -> tuple[list[Load], list[Committer]]:
    names = _in_different_partitions(plan.committers)
    committers = [Committer(name, history, servers, TOPIC, writer, reader) for name in names]
    loads: list[Load] = [
        ConfluentSender("confluent", history, servers, TOPIC),
        OwnSender("own", history, servers, TOPIC),
        *(OwnMember(f"own-{n}", history, servers, TOPIC, OF_OWN) for n in range(3)),
        *(ConfluentMember(f"confluent-{n}", history, servers, TOPIC, OF_CONFLUENT) for n in range(3)),
        *(OwnMember(f"own-consumer-{n}", history, servers, TOPIC, OF_CONSUMERS) for n in range(2)),
        *(ConfluentMember(f"confluent-consumer-{n}", history, servers, TOPIC, OF_CONSUMERS) for n in range(2)),
        OwnMember("own-classic", history, servers, TOPIC, STAYS_CLASSIC),
        OwnMember("own-changing", history, servers, TOPIC, CHANGES_OVER[0]),
        ConfluentMember("confluent-changing", history, servers, TOPIC, CHANGES_OVER[1]),
        OwnershipWatcher("watcher", history, servers, set(groups)),
        *committers,
    ]
    return loads, committers


def _in_different_partitions(count: int) -> list[str]:
    """Names of groups that hash to partitions 0, 1, 2, … of `__consumer_offsets`, so that as many shards live."""
    found: list[str] = []
    for number in itertools.count():
        if len(found) == count:
            return found
        name = f"register-{number}"
        if partition_for_group(name, OFFSETS_PARTITIONS) == len(found) % OFFSETS_PARTITIONS:
            found.append(name)
    return found


def _all_commit(history: History, count: int) -> bool:
    return len({event["group"] for event in history.read() if event["event"] == "committed"}) == count


def _torment(plan: Plan, tormentor: Tormentor | HostTormentor, say: Callable[[str], object]) -> None:
    dice = random.Random(plan.seed)
    begun = time.monotonic()
    left = list(plan.faults)
    while left if plan.faults else time.monotonic() - begun < plan.seconds:
        time.sleep(dice.uniform(*plan.pause_s))
        kind = tormentor.by_name(left.pop(0)) if plan.faults else tormentor.strike()
        say(f"{time.monotonic() - begun:7.1f} s  {kind}")
    time.sleep(dice.uniform(*plan.pause_s))


def _heal(
    plan: Plan,
    history: History,
    servers: str,
    groups: tuple[str, ...],
    loads: list[Load],
    committers: list[Committer],
    say: Callable[[str], object],
) -> None:
    """No more faults: every group commits, everything produced is handled, and every load ends without an error."""
    say("no more faults; everything has to come back")
    since = history.now()
    _wait(lambda: _committed_since(history, since) == plan.committers, plan.heal_s, "a commit of every group")
    senders = [load for load in loads if isinstance(load, ConfluentSender | OwnSender)]
    for load in [*senders, *committers]:
        load.stop()
    for load in [*senders, *committers]:
        load.join(150)
    for committer in committers:
        _wait(lambda c=committer: c.read(-1), plan.heal_s, f"the offsets of {committer.name}")
    _await_all_handled(servers, groups, plan.heal_s)
    for load in loads:
        load.stop()
    for load in loads:
        load.join(60)
    history.note("healed")


def _committed_since(history: History, since: float) -> int:
    return len({e["group"] for e in history.read() if e["event"] == "committed" and e["at"] > since})


def _await_all_handled(servers: str, groups: tuple[str, ...], patience_s: float) -> None:
    """Wait until all groups have committed to the topic's ends. Every commit has to move on within the time."""
    done: dict[tuple[str, int], tuple[int, float]] = {}
    while behind := _behind(servers, groups):
        now = time.monotonic()
        for place, offset in behind.items():
            before, since = done.get(place, (None, now))
            if before != offset:
                done[place] = offset, now
            elif now - since > patience_s:
                raise TimeoutError(f"waited {patience_s:.0f} s for {place[0]} to go on from {offset} of {place[1]}")
        time.sleep(0.5)


def _behind(servers: str, groups: tuple[str, ...]) -> dict[tuple[str, int], int]:
    """The commits that are not at the end, by group and partition; -1 for all that nobody answers for."""
    partitions = [TopicPartition(TOPIC, n) for n in range(PARTITIONS)]
    found: dict[tuple[str, int], int] = {(group, tp.partition): -1 for group in groups for tp in partitions}
    with contextlib.suppress(KafkaError), Consumer(bootstrap_servers=servers) as reader:
        with Admin(bootstrap_servers=servers) as admin:
            ends = reader.end_offsets(partitions, timeout_ms=5000)
            for group in groups:
                offsets = admin.list_consumer_group_offsets(group, partitions, timeout_ms=5000)
                for tp, end in ends.items():
                    offset = offsets[tp].offset if tp in offsets else 0
                    found[group, tp.partition] = offset
                    if offset >= end:
                        del found[group, tp.partition]
    return found


def _read_back(history: History, servers: str) -> None:
    """Note every record the topic holds, and every dead letter."""
    for record in _records_of(servers, [TopicPartition(TOPIC, n) for n in range(PARTITIONS)]):
        history.note("stored", partition=record.partition, offset=record.offset, id=record.value.decode())
    for letter in _records_of(servers, [TopicPartition(pooled.DEAD_LETTERS, 0)]):
        said = dict(letter.headers)
        place = {"partition": int(said["coterie.partition"]), "offsets": [int(said["coterie.offset"])]}
        history.note("set_aside", group=pooled.GROUP, **place)


def _records_of(servers: str, partitions: list[TopicPartition]) -> Iterator[ConsumerRecord]:
    with Consumer(bootstrap_servers=servers, enable_auto_commit=False, auto_offset_reset="earliest") as reader:
        reader.assign(partitions)
        ends = reader.end_offsets(partitions)
        while any(reader.position(tp) < end for tp, end in ends.items()):
            for records in reader.poll(1000, max_records=5000).values():
                yield from records


def _wait(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(0.5)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that stays if the block fails, for whoever wants to see why."""
    folder = Path(tempfile.mkdtemp(prefix="coterie-chaos-"))
    yield folder
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def report(console: Console, outcome: Outcome) -> None:
    """The tables a run ends with."""
    faults = Table(title="From a fault to the first commit of each group, all groups, in seconds")
    for column in ("fault", "times", "p50", "p99", "max"):
        faults.add_column(column, justify="left" if column == "fault" else "right")
    for kind, count in sorted(outcome.faults.items()):
        back = [seconds for each, seconds in outcome.back_after_s if each == kind]
        figures = [percentile(back, share) for share in (0.5, 0.99, 1.0)]
        faults.add_row(kind, str(count), *(f"{figure:.2f}" for figure in figures))
    console.print(faults)
    table = Table(title="Chaos", show_header=False)
    rows = {
        "faults": sum(outcome.faults.values()),
        "records acknowledged (acks=all)": outcome.records_acked,
        "records lost": outcome.records_lost,
        "records a group never handled": outcome.records_unhandled,
        "commits acknowledged": outcome.commits_acked,
        "commits lost": outcome.commits_lost,
        "changes of a group's protocol": outcome.changed_over,
        "commits of members acknowledged": outcome.kept,
        "partitions with two owners at once": outcome.double_owners,
        "records handled while another had the partition": outcome.two_at_once,
        "records set aside that end their process": outcome.set_aside,
        "processes that they have ended": outcome.deaths,
        "false expulsions": outcome.false_expulsions,
        "members that a downgrade left behind": outcome.left_behind,
        "members that lost the answers of two steps": outcome.fallen_behind,
        "members whom nobody answered for a session": outcome.timed_out,
        "longest unavailability of a group": f"{outcome.longest_gap_s:.2f} s",
    }
    for name, value in rows.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else value)
    console.print(table)
    for violation in outcome.violations[:20]:
        console.print(f"[red]VIOLATION[/] {violation}", highlight=False)
