"""How far a member is in each partition: up to the first piece of work that is not done. No I/O.

A piece is done when its handler has returned, or its dead letter is stored, and when all that it produced is
acknowledged. Pieces may end in any order; what may be committed never passes one that has not ended.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile

from actors.client import TopicPartition
from actors.members.handling.spec import OutputError
from actors.members.handling.work import Work
from actors.runtime.process import error_text


class Progress:
    """The work of the partitions held, in the order of offsets; any thread may begin and drop."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._begun: dict[TopicPartition, deque[Work]] = {}
        self._upto: dict[TopicPartition, int] = {}
        self.failure: OutputError | None = None
        """The first output that could not be written: the member has to stop."""

    def begin(self, work: Work) -> None:
        """This work is next in its partition."""
        with self._lock:
            self._begun.setdefault(work.partition, deque()).append(work)

    def drop(self, work: Work) -> None:
        """This work is not to be done; its records may begin again."""
        with self._lock:
            self._begun[work.partition].remove(work)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions have or get other owners."""
        with self._lock:
            for partition in partitions:
                self._begun.pop(partition, None)
                self._upto.pop(partition, None)

    def committable(self) -> dict[TopicPartition, int]:
        """The offset of each partition up to which everything is done."""
        with self._lock:
            for partition, begun in self._begun.items():
                while begun and begun[0].handled and self._acknowledged(begun[0]):
                    self._upto[partition] = begun.popleft().next_offset
            return dict(self._upto)

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
        except Exception as error:
            self.failure = self.failure or _failed(work, error)
            return False
        return True


def _failed(work: Work, error: Exception) -> OutputError:
    topic, partition = work.partition
    what = f"{type(error).__name__}: {error_text(error)}"
    made = OutputError(f"what was produced from {topic}-{partition} offset {work.first} is not written: {what}")
    made.__cause__ = error
    return made
