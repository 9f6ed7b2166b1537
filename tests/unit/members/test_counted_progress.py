"""What a member counts of its work on the way to a commit. No I/O, no time."""

from __future__ import annotations

from actors.client import TopicPartition
from actors.links.member_counts import Done
from actors.members.handling.delivery import Outcome
from actors.members.handling.order import Counts
from actors.members.handling.progress import Progress
from actors.members.handling.work import Work
from tests.support.member import T0, T1, record


def begun(progress: Progress, *offsets: int, partition: TopicPartition = T0) -> list[Work]:
    works = [Work.of(partition, [record(offset, partition.partition)]) for offset in offsets]
    for work in works:
        progress.begin(work)
    return works


def end(work: Work, *, set_aside: bool = False) -> None:
    work.set_aside = set_aside
    work.handled = True


def test_only_what_a_commit_covers_is_about_to_be_committed() -> None:
    progress = Progress(lambda: 0.0)
    first, second, third = begun(progress, 0, 1, 2)
    end(first, set_aside=True)
    end(third)
    assert progress.committable() == {T0: 1}
    assert progress.commits()
    assert progress.committing == Done(0, 1)
    assert not progress.commits(), "there is nothing new to say"
    end(second)
    progress.committable()
    assert progress.commits()
    assert progress.committing == Done(2, 1)


def test_a_batch_counts_all_its_records() -> None:
    progress = Progress(lambda: 0.0)
    progress.begin(work := Work.of(T0, [record(offset) for offset in range(5)]))
    end(work)
    progress.committable()
    progress.commits()
    assert progress.committing == Done(5)


def test_what_is_done_and_not_committed_comes_again_when_its_partition_goes() -> None:
    progress = Progress(lambda: 0.0)
    committed, behind, waits, after = begun(progress, 0, 1, 2, 3)
    (elsewhere,) = begun(progress, 0, partition=T1)
    for work in (committed, elsewhere):
        end(work)
    progress.committable()
    progress.commits()
    end(behind)
    progress.committable()  # and no commit
    end(after, set_aside=True)
    progress.forget([T0])
    assert (progress.committing, progress.again) == (Done(2), Done(1, 1))
    assert [work.forgotten for work in (committed, behind, waits, after)] == [False, False, True, False]
    progress.forget([T0, T1])
    assert progress.again == Done(1, 1), "what was committed does not come again"


def test_what_ends_after_its_partition_went_comes_again() -> None:
    """It runs in a thread, which nobody can end."""
    progress, counts = Progress(lambda: 0.0), Counts()
    late, left, before = begun(progress, 0, 1, 2)
    end(before)
    progress.forget([T0])
    end(late)
    counts.add(late, Outcome.HANDLED)
    counts.add(left, Outcome.LEFT)
    counts.add(before, Outcome.HANDLED)  # its thread had not come so far
    assert (counts.handled, counts.again, progress.again) == (2, Done(1), Done(1))
