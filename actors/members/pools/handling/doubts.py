"""Records that were in hand when processes died, as this member's pool has noted them, and how they are handled.

They are handled one at a time, with nothing else in hand; what is done before and after is committed. One whose process
died even so is not handled any more: it is set aside as a record is that fails at each try.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from actors import CoterieError
from actors.client import TopicPartition
from actors.links.member_deaths import Committed, Note, Notes
from actors.members.pools.handling.commits import Commits
from actors.members.pools.handling.context import StopSignal
from actors.members.pools.handling.delivery import Delivery, Outcome
from actors.members.pools.handling.in_hand import Declared
from actors.members.pools.handling.work import Work, cut

_ALL: Final = (1 << 63) - 1
"""Above every offset."""


class ProcessDiedError(CoterieError):
    """A record has ended the process that handled it each time, at last with nothing else in hand."""


class Doubts:
    """The notes, by partition. Any thread may have it learn; the rest is for the member's.

    `topic_id` says of which topic a partition's records are. Notes of another one that had its name are ignored.
    """

    def __init__(self, notes: Notes, topic_id: Callable[[TopicPartition], bytes]) -> None:
        self.any = False
        """True if anything is noted."""
        self._topic_id = topic_id
        self._lock = threading.Lock()
        self._number = -1
        self._notes: Mapping[TopicPartition, Sequence[Note]] = {}
        self._tell: Callable[[Committed], None] | None = None
        self.learn(notes)

    def report_to(self, tell: Callable[[Committed], None]) -> None:
        """Have this tell what was committed of partitions with notes."""
        self._tell = tell

    def learn(self, notes: Notes) -> None:
        """Take these notes in place of older ones."""
        found: dict[TopicPartition, list[Note]] = {}
        for note in notes.notes:
            found.setdefault(TopicPartition(note.span.topic, note.span.partition), []).append(note)
        with self._lock:
            if notes.number > self._number:
                self._number, self._notes, self.any = notes.number, found, bool(found)

    def of(self, work: Work) -> list[Note]:
        """The notes of records of this work that are doubted."""
        topic_id = self._topic_id(work.partition)
        return [
            note
            for note in self._notes.get(work.partition, ())
            if note.doubted
            and note.span.topic_id == topic_id
            and note.span.first < work.next_offset
            and note.span.next_offset > work.first
        ]

    def parted(self, work: Work, notes: Sequence[Note]) -> list[Work]:
        """The work in pieces: each doubted record alone, the others together as they were."""
        found: list[Work] = []
        start = 0
        for index, piece in enumerate(work.taken_apart()):
            if any(note.span.first <= piece.first < note.span.next_offset for note in notes):
                found.extend(_between(work, start, index))
                found.append(piece)
                start = index + 1
        found.extend(_between(work, start, len(work)))
        return found

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These are the group's offsets now: records below them do not come again."""
        if not self.any or self._tell is None:
            return
        for partition, offset in offsets.items():
            topic_id = self._topic_id(partition)
            spans = [note.span for note in self._notes.get(partition, ())]
            if any(span.first < offset or span.topic_id != topic_id for span in spans):
                self._tell(Committed(*partition, offset, topic_id))

    def recreated(self, partitions: Iterable[TopicPartition]) -> None:
        """The topic of these partitions was deleted: none of its records comes again."""
        self.committed(dict.fromkeys(partitions, _ALL))


def _between(work: Work, start: int, end: int) -> Iterator[Work]:
    if start < end:
        yield Work.of(work.partition, cut(work.records, start, end - start))


class Trial:
    """Handles doubted records, one at a time, in the member's thread. Nothing else is in hand meanwhile."""

    def __init__(self, doubts: Doubts, declared: Declared, delivery: Delivery, commits: Commits) -> None:
        self._doubts = doubts
        self._declared = declared
        self._delivery = delivery
        self._commits = commits

    def pieces(self, work: Work) -> list[Work] | None:
        """The pieces in which it is handled, if records of it are doubted; itself if it is one record. Else None."""
        if not self._doubts.any:  # as nearly always
            return None
        notes = self._doubts.of(work)
        return self._doubts.parted(work, notes) if notes else None

    def deliver(self, work: Work, stop: StopSignal, before_pause: Callable[[], None] | None = None) -> Outcome:
        """Handle a doubted record, or set it aside. Work done is committed before and after. Raises as `deliver`."""
        died = next((note.died for note in self._doubts.of(work) if note.died is not None), None)
        if died is not None:
            outcome = self._delivery.set_aside(work, ProcessDiedError(_TEXT.format(died)))
        else:
            self._commits.at_once()
            with self._declared.alone(work):
                outcome = self._delivery.deliver(work, stop, before_pause)
        self._commits.at_once()
        return outcome


_TEXT = "each process that had this record in hand has died, the last one with nothing else in hand: {}"
