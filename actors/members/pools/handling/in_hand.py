"""The records that a member says it has in hand, before it begins: if its process dies, its pool knows with which ones.

They are told in batches. A message names the records that begin now and the next ones, as many as are handled within
`_AHEAD_SECONDS`: of quick records hundreds, of slow ones one. Records that have ended since are told with the next
message, or a moment later by `look`. No I/O of its own: `tell` sends.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Final, Protocol, TypeAlias

from actors.client import TopicPartition
from actors.links.member_deaths import InHand, Span
from actors.members.pools.handling.work import Work

Ahead: TypeAlias = Callable[[], Iterable[tuple[TopicPartition, int]]]
"""The partitions and offsets of single records that probably begin next, in their order."""

_AHEAD_SECONDS: Final = 0.02
_LATE: Final = 5
_AHEAD_MAX: Final = 1_000
_SPANS_MAX: Final = 32
"""Of one partition in one message; with more, all between the first and the last are said to be in hand."""


class Counts(Protocol):
    """The numbers of records handled and set aside; `Progress`."""

    @property
    def handled(self) -> int: ...
    @property
    def dead_letters(self) -> int: ...


class Declared:
    """The records in hand, as they were told last. Any thread may begin and end. `counts` are those of what is done.

    `topic_id` says of which topic a partition's records are that begin now.
    """

    def __init__(
        self, monotonic: Callable[[], float], counts: Counts, topic_id: Callable[[TopicPartition], bytes]
    ) -> None:
        self._monotonic = monotonic
        self._counts = counts
        self._topic_id = topic_id
        self._tell: Callable[[InHand], None] = _to_nobody
        self._lock = threading.Lock()  # held while it is told, or what was said later might come first
        # These two change without it, in single steps of the interpreter: each record passes here.
        self._now: dict[int, tuple[Work, bytes]] = {}
        self._ahead: set[tuple[TopicPartition, bytes, int]] = set()
        self._said = InHand()
        self._said_s = monotonic()
        self._count = 1

    def report_to(self, tell: Callable[[InHand], None]) -> None:
        """Have this tell it from now on."""
        with self._lock:
            self._tell = tell

    def begin(self, work: Work, ahead: Ahead) -> None:
        """This work begins now. Returns when that was said."""
        topic_id = self._topic_id(work.partition)
        self._now[id(work)] = (work, topic_id)
        place = (work.partition, topic_id, work.first)
        if place in self._ahead and len(work.records) == 1:
            self._ahead.discard(place)
            return
        with self._lock:
            self._ahead = {(each, self._topic_id(each), offset) for each, offset in islice(ahead(), self._how_many())}
            self._say(self._spans())

    def end(self, work: Work) -> None:
        """This work has ended, however it did."""
        self._now.pop(id(work), None)

    @contextlib.contextmanager
    def alone(self, work: Work) -> Iterator[None]:
        """This work, a single record, begins and ends with nothing else in hand; both are said at once."""
        with self._lock:
            self._ahead = set()
            self._now[id(work)] = (work, self._topic_id(work.partition))
            self._say(self._spans(), alone=True)
        try:
            yield
        finally:
            with self._lock:
                del self._now[id(work)]
                self._say(self._spans())

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions have other owners: what was to begin next of them does not."""
        with self._lock:
            self._ahead = {place for place in list(self._ahead) if place[0] not in partitions}

    def look(self) -> None:
        """Say what has ended since the last message. Several times a second, in any thread.

        If they take longer than it seemed, those that have not begun are no more said to be in hand.
        """
        with self._lock:
            if self._monotonic() - self._said_s > _LATE * _AHEAD_SECONDS:
                self._count = 1
                self._ahead = set()  # before it is looked which have begun, or one might be missed
            spans = self._spans()
            if spans != self._said.spans:
                self._say(spans, alone=self._said.alone and bool(spans))

    # --- the lock is held ---

    def _how_many(self) -> int:
        """The number of records to name ahead, by the time for which the last ones have sufficed."""
        now = self._monotonic()
        took, self._said_s = now - self._said_s, now
        fitting = int(self._count * _AHEAD_SECONDS / took) if took > 0 else _AHEAD_MAX
        self._count = max(1, min(2 * self._count, fitting, _AHEAD_MAX))
        return self._count - 1

    def _spans(self) -> tuple[Span, ...]:
        begun = [
            (*work.partition, topic_id, work.first, work.next_offset) for work, topic_id in list(self._now.values())
        ]
        ahead = [(*partition, topic_id, offset, offset + 1) for partition, topic_id, offset in list(self._ahead)]
        return _merged(sorted(begun + ahead))

    def _say(self, spans: tuple[Span, ...], *, alone: bool = False) -> None:
        self._said = InHand(spans, alone, self._counts.handled, self._counts.dead_letters)
        self._tell(self._said)


def _to_nobody(_: InHand) -> None:
    """Nobody has started this member who would want to know."""


def _merged(pieces: Iterable[tuple[str, int, bytes, int, int]]) -> tuple[Span, ...]:
    """Sorted pieces as spans of each partition."""
    found: dict[tuple[str, int, bytes], list[list[int]]] = {}
    for topic, partition, topic_id, first, after in pieces:
        spans = found.setdefault((topic, partition, topic_id), [])
        if spans and first <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], after)
        else:
            spans.append([first, after])
    for place, spans in found.items():
        if len(spans) > _SPANS_MAX:
            found[place] = [[spans[0][0], spans[-1][1]]]
    return tuple(
        Span(topic, partition, first, after, topic_id)
        for (topic, partition, topic_id), spans in found.items()
        for first, after in spans
    )
