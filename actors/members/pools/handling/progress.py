"""The progress of a member in each partition: up to the first piece of work that is not done. No I/O.

A piece is done when its handler has returned, or its dead letter is stored, and when all that it produced is
acknowledged. Pieces may end in any order; what may be committed never passes one that has not ended.

Records are counted when they are done, `handled` or `dead_letters`, and on their way to a commit: those that commits
have been about to cover are `committing`; those whose partitions went before that are `again`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile

from actors.client import TopicPartition
from actors.links.member_counts import Done
from actors.members.pools.handling.spec import OutputError
from actors.members.pools.handling.work import Work, done_with
from actors.runtime.process import error_text


class Progress:
    """The work of the partitions held, in the order of offsets; any thread may begin and drop."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._begun: dict[TopicPartition, deque[Work]] = {}
        self._upto: dict[TopicPartition, int] = {}
        self._uncommitted: dict[TopicPartition, Done] = {}
        self.handled = 0
        """The number of records that were handled."""
        self.dead_letters = 0
        """The number of records that were set aside."""
        self.committing = Done()
        """The records that all commits have covered, if they have succeeded."""
        self.again = Done()
        """Those of them that come again, perhaps at others: their partitions went before a commit."""
        self.failure: OutputError | None = None
        """The first output that could not be written: the member has to stop."""

    def begin(self, work: Work) -> None:
        """This work is next in its partition."""
        with self._lock:
            self._begun.setdefault(work.partition, deque()).append(work)

    def end(self, work: Work, *, set_aside: bool = False) -> None:
        """This work is done, says any thread. It counts before a commit may cover it."""
        work.set_aside = set_aside
        done = done_with((work,))
        with self._lock:
            self.handled += done.handled
            self.dead_letters += done.dead_letters
            if work.forgotten:
                self.again += done
            work.handled = True

    def drop(self, work: Work) -> None:
        """This work is not to be done; its records may begin again."""
        with self._lock:
            self._begun[work.partition].remove(work)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions have or get other owners."""
        with self._lock:
            for partition in partitions:
                self._upto.pop(partition, None)
                self.again += self._uncommitted.pop(partition, Done()) + _given_up(self._begun.pop(partition, ()))

    def committable(self) -> dict[TopicPartition, int]:
        """The offset of each partition up to which everything is done."""
        with self._lock:
            for partition, begun in self._begun.items():
                passed = []
                while begun and begun[0].handled and self._acknowledged(begun[0]):
                    passed.append(begun.popleft())
                if passed:
                    self._upto[partition] = passed[-1].next_offset
                    self._uncommitted[partition] = self._uncommitted.get(partition, Done()) + done_with(passed)
            return dict(self._upto)

    def commits(self) -> bool:
        """All that is committable is about to be committed. Returns whether that is more than before."""
        with self._lock:
            more = sum(self._uncommitted.values(), Done())
            self._uncommitted.clear()
            self.committing += more
        return more.records > 0

    def settle(self, timeout_s: float) -> None:
        """Wait until the outputs of what was handled are acknowledged, or for so many seconds."""
        deadline = self._monotonic() + timeout_s
        for work in self._handled():
            for sent in work.sent:
                try:
                    sent.get(max(0.0, deadline - self._monotonic()))
                except Exception:  # `committable` looks at it
                    return

    def _handled(self) -> Iterator[Work]:
        with self._lock:
            found = [list(takewhile(lambda work: work.handled, begun)) for begun in self._begun.values()]
        return (work for some in found for work in some)

    def _acknowledged(self, work: Work) -> bool:
        if not all(sent.is_done for sent in work.sent):
            return False
        try:
            for sent in work.sent:
                sent.get(0)
        except Exception as error:  # a bug of the producer's thread ends its batches, too
            self.failure = self.failure or _failed(work, error)
            return False
        return True


def _given_up(begun: Iterable[Work]) -> Done:
    """Those of these that are done. The others are marked: they may still end. The lock is held."""
    done = []
    for work in begun:
        if work.handled:
            done.append(work)
        else:
            work.forgotten = True
    return done_with(done)


def _failed(work: Work, error: Exception) -> OutputError:
    topic, partition = work.partition
    what = f"{type(error).__name__}: {error_text(error)}"
    made = OutputError(f"what was produced from {topic}-{partition} offset {work.first} is not written: {what}")
    made.__cause__ = error
    return made
