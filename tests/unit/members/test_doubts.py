"""A member tells its pool of noted records that do not come again. Nothing runs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from actors.links.member_deaths import Committed, Note, Notes, Span
from actors.members.pools.deaths import Deaths
from actors.members.pools.handling.doubts import Doubts
from actors.members.pools.handling.work import Work
from tests.support.member import T0, T1, record

OLD, NEW = b"o" * 16, b"n" * 16


class Member:
    """A member that reads topics of these ids, and its pool's notes after it was told."""

    def __init__(self, topic_id: bytes, *noted: Span) -> None:
        self.topic_id = topic_id
        self.deaths = Deaths(Note(span, 3, "it was gone") for span in noted)
        self.said: list[Committed] = []
        self.doubts = Doubts(Notes(1, self.deaths.notes.notes), lambda _: self.topic_id)
        self.doubts.report_to(self.hear)

    def hear(self, said: Committed) -> None:
        self.said.append(said)
        self.deaths.passed(said)

    @property
    def left(self) -> Iterable[Span]:
        return [note.span for note in self.deaths.notes.notes]

    def doubted(self) -> bool:
        return bool(self.doubts.of(Work.of(T0, [record(7)])))


@pytest.mark.parametrize("noted", [OLD, NEW, b""])
@pytest.mark.parametrize("read", [OLD, NEW, b""])
def test_records_are_doubted_by_the_notes_of_their_own_topic_alone(noted: bytes, read: bytes) -> None:
    assert Member(read, Span("t", 0, 7, 8, noted)).doubted() == (noted == read)


def test_the_first_commit_in_a_topic_made_anew_ends_what_is_noted_of_the_old_one_above_it() -> None:
    other = Span("t", 1, 7, 8, OLD)
    member = Member(NEW, Span("t", 0, 7, 8, OLD), other)
    member.doubts.committed({T0: 1})
    assert member.left == [other]


def test_a_commit_below_what_is_noted_is_not_told() -> None:
    member = Member(OLD, Span("t", 0, 7, 8, OLD))
    member.doubts.committed({T0: 7, T1: 9})
    assert member.said == []


@pytest.mark.parametrize("polled", [OLD, b""])
def test_a_topic_that_was_made_anew_ends_what_is_noted_of_its_partitions_at_once(polled: bytes) -> None:
    """Before anything of it was read: it may be empty for long."""
    other = Span("t", 1, 7, 8, OLD)
    member = Member(polled, Span("t", 0, 7, 8, OLD), other)
    member.doubts.recreated([T0])
    assert member.left == [other]
