"""A member's counts of its work on the way to a commit. No I/O, no time."""

from __future__ import annotations

import threading

import pytest

from actors.client import TopicPartition
from actors.links.member_counts import Done
from actors.members.pools.handling.delivery import Delivery
from actors.members.pools.handling.handler import Handler
from actors.members.pools.handling.output import Writer
from actors.members.pools.handling.progress import Progress
from actors.members.pools.handling.running import Running
from actors.members.pools.handling.spec import MemberSpec
from actors.members.pools.handling.values import Values
from actors.members.pools.handling.work import Work
from tests.support.member import T0, T1, record


def begun(progress: Progress, *offsets: int, partition: TopicPartition = T0) -> list[Work]:
    works = [Work.of(partition, [record(offset, partition.partition)]) for offset in offsets]
    for work in works:
        progress.begin(work)
    return works


def test_only_what_a_commit_covers_is_about_to_be_committed() -> None:
    progress = Progress(lambda: 0.0)
    first, second, third = begun(progress, 0, 1, 2)
    progress.end(first, set_aside=True)
    progress.end(third)
    assert progress.committable() == {T0: 1}
    assert progress.commits()
    assert progress.committing == Done(0, 1)
    assert not progress.commits(), "there is nothing new to say"
    progress.end(second)
    progress.committable()
    assert progress.commits()
    assert progress.committing == Done(2, 1)


def test_a_batch_counts_all_its_records() -> None:
    progress = Progress(lambda: 0.0)
    progress.begin(work := Work.of(T0, [record(offset) for offset in range(5)]))
    progress.end(work)
    progress.committable()
    progress.commits()
    assert progress.committing == Done(5)


def test_what_is_done_and_not_committed_comes_again_when_its_partition_goes() -> None:
    progress = Progress(lambda: 0.0)
    committed, behind, waits, after = begun(progress, 0, 1, 2, 3)
    (elsewhere,) = begun(progress, 0, partition=T1)
    for work in (committed, elsewhere):
        progress.end(work)
    progress.committable()
    progress.commits()
    progress.end(behind)
    progress.committable()  # and no commit
    progress.end(after, set_aside=True)
    progress.forget([T0])
    assert (progress.committing, progress.again) == (Done(2), Done(1, 1))
    assert [work.forgotten for work in (committed, behind, waits, after)] == [False, False, True, False]
    progress.forget([T0, T1])
    assert progress.again == Done(1, 1), "what was committed does not come again"


def test_what_ends_after_its_partition_went_comes_again() -> None:
    """It runs in a thread, which nobody can end."""
    progress = Progress(lambda: 0.0)
    late, _left, before = begun(progress, 0, 1, 2)
    progress.end(before)
    progress.forget([T0])
    progress.end(late)
    assert (progress.handled, progress.again) == (2, Done(2))


def test_what_a_commit_covers_has_been_counted() -> None:
    """A member could commit a piece and stop before the thread that handled it came to count it."""
    spec, progress = MemberSpec(("t",), "g", "host:1"), Progress(lambda: 0.0)
    (work,) = begun(progress, 0)
    writer, running = Writer(spec, lambda **_: None), Running(lambda: 0.0)
    steps = Delivery(spec, Handler(print), Values({}), writer, running, progress).steps(work, threading.Event())
    next(steps)
    assert (progress.committable(), progress.handled) == ({}, 0)
    with pytest.raises(StopIteration):
        steps.send(None)
    assert (progress.committable(), progress.handled) == ({T0: 1}, 1)
