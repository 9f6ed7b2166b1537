"""The log of a quorum: what has committed stays, what has not is dropped with its leader, and alone nothing waits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.controller.metadata import frames
from actors.controller.metadata.commits import Commit, NotControllerError
from actors.controller.metadata.file import MetadataLogError
from actors.controller.metadata.frames import Content, Entry, packed
from actors.controller.metadata.log import MetadataLog
from actors.controller.metadata.quorum_log import QuorumLog, found, new_cluster
from actors.controller.metadata.voter_file import open_voter_file
from actors.log.files import FileWriter
from actors.quorum.durable import State
from actors.quorum.elections import Tuning
from actors.quorum.log import Entry as QuorumEntry
from actors.quorum.messages import Append, InstallSnapshot
from placement.metadata import ClusterMetadata
from placement.records import (
    ClusterRecord,
    ControllerEpochRecord,
    FeatureLevelRecord,
    RemoveTopicRecord,
)
from tests.support.controller_world import controller
from tests.support.log_helpers import FullDisk
from tests.support.quorum_world import QuorumWorld, ids, quorum_worlds
from tests.support.runtime_helpers import FakeBroker

FULL = OSError(28, "no space left on this disk")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Callable[..., QuorumWorld]]:
    with quorum_worlds(tmp_path) as make:
        yield make


def alone(path: Path, writer: FileWriter | None = None, snapshot_every: int = 10_000) -> QuorumLog:
    """The log of the one voter of a new cluster, or what is there of it."""
    file = open_voter_file(path, lambda: "directory", writer or FileWriter())
    found(file, 0, new_cluster())
    return QuorumLog(file, 0, Tuning(lambda: 0.0), lambda: 100.0, snapshot_every=snapshot_every)


def told_of(commit: Commit) -> list[str]:
    heard: list[str] = []
    commit.then(lambda: heard.append("committed"), lambda: heard.append("dropped"))
    return heard


# --- one voter alone ---


@pytest.mark.conformance("N-C-05")
def test_alone_a_change_has_committed_before_append_returns(world: Callable[..., QuorumWorld]) -> None:
    w = world(1)
    log = w.logs[1]
    assert log.leads
    assert log.confirms()
    assert log.append(ids(7), log.next_epoch).done
    assert w.ids() == {1: (7, 7)}
    assert (log.deadline(), w.sent, w.changes) == (math.inf, [], [])


class Counting(FileWriter):
    """Counts what costs time."""

    def __init__(self) -> None:
        self.calls = 0

    def write(self, fd: int, buffers: Sequence[Any], position: int) -> int:
        self.calls += 1
        return super().write(fd, buffers, position)

    def fsync(self, fd: int) -> None:
        self.calls += 1
        super().fsync(fd)


@pytest.mark.conformance("N-C-05")
def test_alone_a_change_writes_and_syncs_as_often_as_in_a_log_of_one_node(tmp_path: Path) -> None:
    one, other = Counting(), Counting()
    today, quorum = MetadataLog(tmp_path / "1" / "metadata.log", one), alone(tmp_path / "2" / "metadata.log", other)
    one.calls = other.calls = 0
    for number in range(10):
        today.append(ids(number), today.next_epoch)
        quorum.append(ids(number), quorum.next_epoch)
    today.close()
    quorum.close()
    assert one.calls == other.calls == 20


@pytest.mark.conformance("N-C-01")
def test_all_records_of_a_change_are_there_again_or_none(tmp_path: Path) -> None:
    path = tmp_path / "metadata.log"
    log = alone(path)
    log.append(ids(1), log.next_epoch)
    size = path.stat().st_size
    log.append([*ids(2), *ids(3)], log.next_epoch)
    log.close()
    whole = path.read_bytes()
    for cut in range(size, len(whole) + 1):
        path.write_bytes(whole[:cut])
        again = alone(path)
        again.close()
        assert again.committed.next_producer_id == (3 if cut == len(whole) else 1)
        assert again.committed == again.decided


@pytest.mark.conformance("N-C-01")
def test_a_disk_that_refuses_a_change_ends_the_log_and_another_goes_on_with_what_is_there(tmp_path: Path) -> None:
    path, disk, changed = tmp_path / "metadata.log", FullDisk(), []
    file = open_voter_file(path, lambda: "directory", disk)
    found(file, 0, new_cluster())
    log = QuorumLog(file, 0, Tuning(lambda: 0.0), lambda: 100.0, changed=lambda: changed.append(log.leads))
    log.append(ids(1), log.next_epoch)
    disk.fsync_error = FULL
    with pytest.raises(OSError, match="disk"):
        log.append(ids(2), log.next_epoch)
    disk.fsync_error = None
    assert (log.decided.next_producer_id, log.committed.next_producer_id) == (1, 1)
    assert (log.leads, log.confirms(), changed) == (False, False, [False])
    with pytest.raises(NotControllerError):
        log.append(ids(3), log.next_epoch)
    log.close()
    again = alone(path)
    again.append(ids(4), again.next_epoch)
    again.close()
    assert (log.committed.next_producer_id, again.committed.next_producer_id) == (1, 4)


def test_a_disk_that_refuses_the_beginning_has_no_log_opened(tmp_path: Path) -> None:
    path, disk = tmp_path / "metadata.log", FullDisk()
    alone(path).close()
    file = open_voter_file(path, lambda: "directory", disk)
    disk.fsync_error = FULL
    with pytest.raises(OSError, match="disk"):
        QuorumLog(file, 0, Tuning(lambda: 0.0), lambda: 100.0)
    file.close()


def test_records_that_cannot_be_applied_leave_no_trace(tmp_path: Path) -> None:
    log = alone(tmp_path / "metadata.log")
    with pytest.raises(KeyError):
        log.append([*ids(1), RemoveTopicRecord("no such topic")], log.next_epoch)
    log.append(ids(2), log.next_epoch)
    log.close()
    again = alone(tmp_path / "metadata.log")
    again.close()
    assert (again.committed.next_producer_id, again.committed.version) == (2, 1)


@pytest.mark.conformance("N-C-01")
def test_after_so_many_entries_a_snapshot_takes_their_place(tmp_path: Path) -> None:
    path = tmp_path / "metadata.log"
    log, sizes = alone(path, snapshot_every=10), []
    for number in range(100):
        log.append(ids(number), log.next_epoch)
        sizes.append(path.stat().st_size)
    log.close()
    assert max(sizes) < sizes[0] + 10 * 100
    again = alone(path, snapshot_every=10)
    again.close()
    assert again.committed == log.committed
    assert again.committed.version == 100


def test_a_beginning_is_written_once_and_the_quorum_counts_on_from_its_epoch(tmp_path: Path) -> None:
    path = tmp_path / "metadata.log"
    metadata = ClusterMetadata("moved here", controller_epoch=6, version=40)
    for epoch in (7, 8):
        file = open_voter_file(path, lambda: "directory")
        found(file, 0, metadata.image())
        log = QuorumLog(file, 0, Tuning(lambda: 0.0), lambda: 100.0)
        log.close()
        assert log.committed.cluster_id == "moved here"
        assert (log.committed.version, log.next_epoch) == (40, epoch)


def test_a_file_with_a_record_that_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "metadata.log"
    log = alone(path)
    log.append([ControllerEpochRecord(1, "9.9")], log.next_epoch)
    log.close()
    newer = packed(Entry(1, 1, tuple(ids(1))), 4).replace(b"producer_ids", b"nothing_here")
    file = open_voter_file(path, lambda: "directory")
    file.write([State(1), QuorumEntry(file.read().log.last_index + 1, 1, newer)])
    with pytest.raises(MetadataLogError, match=r"'nothing_here', version 0, .* Coterie 9\.9 wrote it, and this is"):
        QuorumLog(file, 0, Tuning(lambda: 0.0), lambda: 100.0)
    file.close()


async def test_a_controller_has_the_epoch_of_its_quorum(tmp_path: Path) -> None:
    """This holds even if an earlier controller ended before it could begin."""
    alone(tmp_path / "metadata.log").close()
    log = alone(tmp_path / "metadata.log")
    async with controller(tmp_path, log=log) as c:
        broker = await FakeBroker(0).register(c.port)
        assert broker.epoch == 0
        assert (c.server.epoch, c.metadata.controller_epoch, log.next_epoch) == (2, 2, 2)


# --- several voters ---


def test_a_change_is_decided_at_once_and_commits_when_a_majority_has_it(world: Callable[..., QuorumWorld]) -> None:
    w = world(3)
    log = w.elected()
    leader = w.leader
    heard = told_of(log.append(ids(7), log.next_epoch))
    assert (w.ids()[leader], heard) == ((7, 0), [])
    w.run(1)
    assert w.ids() == {1: (7, 7), 2: (7, 7), 3: (7, 7)}
    assert heard == ["committed"]
    for node in set(w.logs) - {leader}:
        with pytest.raises(NotControllerError):
            w.logs[node].append(ids(8), log.next_epoch)


@pytest.mark.conformance("N-E-04")
def test_an_entry_that_a_follower_cannot_read_ends_its_log(
    world: Callable[..., QuorumWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be behind for ever, and no word of it. Its node ends, and says why."""
    w = world(3)
    log = w.elected()
    followers = {node: each for node, each in w.logs.items() if each is not log}
    w.changes.clear()

    def of_a_newer_release(content: Content, level: int) -> bytes:
        return packed(content, level).replace(b"producer_ids", b"nothing_here")

    with monkeypatch.context() as newer:
        newer.setattr(frames, "packed", of_a_newer_release)
        log.append(ids(7), log.next_epoch)
    w.run(1)
    assert log.committed.next_producer_id == 7
    for each in followers.values():
        assert isinstance(each.failure, MetadataLogError)
        assert "'nothing_here'" in str(each.failure)
        assert (each.committed.next_producer_id, each.deadline()) == (0, math.inf)
    assert followers.keys() <= {node for node, _, _ in w.changes}, "their nodes are told"


def test_a_voter_that_sees_what_the_rules_exclude_votes_no_more(world: Callable[..., QuorumWorld]) -> None:
    """Its log, or another one's, is not what was said to be on disk."""
    w = world(3)
    log = w.elected()
    other = next(each.me for each in w.logs.values() if each is not log)
    w.changes.clear()
    log.on_message(other, log.me, Append(log.next_epoch, 1, (0, 1), (), 1))
    assert isinstance(log.failure, MetadataLogError)
    assert "lead in one epoch" in str(log.failure)
    assert (log.leads, log.deadline()) == (False, math.inf)
    assert [node for node, _, _ in w.changes] == [log.me.id], "its node is told"


def test_a_change_that_is_decided_when_another_has_committed_comes_after_it(world: Callable[..., QuorumWorld]) -> None:
    w = world(3)
    log, then = w.elected(), list[Commit]()
    first, _ = (log.append(ids(number), log.next_epoch) for number in (1, 2))
    first.then(lambda: then.append(log.append(ids(3), log.next_epoch)))
    w.run(1)
    assert w.ids() == {1: (3, 3), 2: (3, 3), 3: (3, 3)}
    assert then[0].done


@pytest.mark.conformance("N-C-04")
def test_a_leader_that_is_cut_off_drops_what_it_had_decided(world: Callable[..., QuorumWorld]) -> None:
    w = world(3)
    old = w.elected()
    node, epoch = w.leader, old.next_epoch
    old.append(ids(1), old.next_epoch)
    w.run(1)
    w.cut = {node}
    w.changes.clear()
    heard = [told_of(old.append(ids(number), old.next_epoch)) for number in (2, 20, 200)]
    assert w.ids()[node] == (200, 1)
    w.run(5)
    assert (heard, w.ids()[node], old.leads) == ([["dropped"]] * 3, (1, 1), False)
    assert w.changes[0][0] == node
    new = w.logs[w.leader]
    assert new.next_epoch > epoch
    new.append(ids(3), new.next_epoch)
    w.cut = set()
    w.run(5)
    assert w.ids() == {1: (3, 3), 2: (3, 3), 3: (3, 3)}


@pytest.mark.conformance("N-C-04")
def test_a_leader_confirms_nobody_once_it_may_have_been_deposed(world: Callable[..., QuorumWorld]) -> None:
    w = world(3)
    old = w.elected()
    assert old.confirms()
    w.cut = {w.leader}
    w.now += 1.0
    assert not old.confirms()


@pytest.mark.conformance("N-C-04")
def test_a_new_leader_decides_after_all_that_its_log_has(world: Callable[..., QuorumWorld]) -> None:
    """Older entries commit with the first entry of its epoch, and its decisions build on them at once."""
    w = world(3)
    old = w.elected()
    heard = told_of(old.append([ClusterRecord("of the old one")], old.next_epoch))
    w.settle()
    assert heard == ["committed"], "and nobody else has heard of that yet"
    w.cut = {w.leader}
    w.changes.clear()
    w.run(5)
    assert w.changes[-1] == (w.leader, "of the old one", "a cluster")
    new = w.logs[w.leader]
    new.append(ids(9), new.next_epoch)
    w.cut = set()
    w.run(5)
    assert w.ids() == {1: (9, 9), 2: (9, 9), 3: (9, 9)}
    assert {log.committed.cluster_id for log in w.logs.values()} == {"of the old one"}


@pytest.mark.conformance("N-C-01")
def test_one_that_lags_too_far_is_sent_the_whole_of_it(world: Callable[..., QuorumWorld]) -> None:
    w = world(3, snapshot_every=5)
    log = w.elected()
    behind = max(set(w.logs) - {w.leader})
    w.cut = {behind}
    for number in range(20):
        log.append([*ids(number), FeatureLevelRecord("f", number)], log.next_epoch)
        w.run(0.3)
    w.cut = set()
    w.run(5)
    assert any(isinstance(message, InstallSnapshot) for message in w.sent)
    assert w.logs[behind].committed == log.committed
    assert w.logs[behind].committed.features == {"f": 19}


@pytest.mark.conformance("N-C-02")
def test_a_node_with_an_empty_disk_is_sent_the_beginning_too(world: Callable[..., QuorumWorld]) -> None:
    w = world(1)
    w.logs[1].append(ids(5), w.logs[1].next_epoch)
    observer = w.open(2)
    w.run(5)
    assert (observer.committed.cluster_id, w.ids()[2], observer.leads) == ("a cluster", (5, 5), False)


@pytest.mark.conformance("N-C-01", "N-C-04")
@pytest.mark.parametrize("seed", range(10))
def test_through_cut_links_and_new_processes_what_was_told_to_have_committed_has(
    world: Callable[..., QuorumWorld], seed: int
) -> None:
    w, chance = world(3, snapshot_every=7), random.Random(seed)
    told: dict[str, list[str]] = {}
    for number in range(60):
        match chance.choice(["append", "append", "append", "cut", "join", "begin anew", "time"]):
            case "append":
                for log in (log for log in w.logs.values() if log.leads):
                    name = f"{number} in {log.next_epoch}"
                    told[name] = told_of(log.append([FeatureLevelRecord(name, number)], log.next_epoch))
            case "cut":
                w.cut = {chance.choice([*w.logs])}
            case "join":
                w.cut = set()
            case "begin anew":
                w.open(chance.choice([*w.logs]))
        w.run(chance.choice([0.0, 0.1, 0.5, 2.0]))
        longest = max((log.committed for log in w.logs.values()), key=lambda metadata: metadata.version)
        for log in w.logs.values():
            assert longest.features.items() >= log.committed.features.items()
    w.cut = set()
    w.run(10)
    last = w.logs[w.leader]
    assert all(log.committed == log.decided == last.committed for log in w.logs.values())
    committed = {name for name, heard in told.items() if "committed" in heard}
    assert committed
    assert last.committed.features.keys() >= committed
