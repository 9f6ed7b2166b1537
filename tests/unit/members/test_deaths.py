"""A pool's notes of records that dead processes had in hand. Nothing runs."""

from __future__ import annotations

import random
from collections import Counter

from actors.links.member_deaths import ALONE_AFTER, Committed, InHand, Note, Span
from actors.members.pools.deaths import Deaths

HOW = "killed"


OLD, NEW = b"o" * 16, b"n" * 16


def span(first: int, after: int, partition: int = 0, topic_id: bytes = b"") -> Span:
    return Span("t", partition, first, after, topic_id)


def said(deaths: Deaths) -> list[tuple[int, int, int, str | None]]:
    return [(n.span.first, n.span.next_offset, n.deaths, n.died) for n in deaths.notes.notes]


def test_deaths_count_against_the_records_that_they_have_in_common() -> None:
    deaths = Deaths()
    deaths.count(InHand((span(0, 10),)), HOW)
    deaths.count(InHand((span(8, 20),)), HOW)
    assert said(deaths) == [(0, 8, 1, None), (8, 10, 2, None), (10, 20, 1, None)]
    assert [note.doubted for note in deaths.notes.notes] == [False, True, False]


def test_a_record_is_blamed_when_it_was_alone_in_hand_after_two_deaths() -> None:
    deaths = Deaths()
    for _ in range(ALONE_AFTER):
        deaths.count(InHand((span(0, 10),)), HOW)
    deaths.count(InHand((span(4, 5),), alone=True), HOW)
    assert said(deaths) == [(0, 4, 2, None), (4, 5, 3, HOW), (5, 10, 2, None)]


def test_a_record_that_was_not_to_be_tried_alone_is_not_blamed() -> None:
    """A member of an older version may still go by the earlier notes."""
    deaths = Deaths()
    deaths.count(InHand((span(4, 5),), alone=True), HOW)
    deaths.count(InHand((span(4, 5),), alone=True), HOW)
    assert said(deaths) == [(4, 5, 2, None)]


def test_a_blamed_record_is_told_apart_from_neighbours_that_were_in_hand_as_often() -> None:
    deaths = Deaths([Note(span(0, 4), 3), Note(span(4, 5), 2), Note(span(5, 9), 3)])
    deaths.count(InHand((span(4, 5),), alone=True), HOW)
    assert said(deaths) == [(0, 4, 3, None), (4, 5, 3, HOW), (5, 9, 3, None)]


def test_what_is_committed_is_forgotten() -> None:
    deaths = Deaths()
    deaths.count(InHand((span(0, 10), span(0, 3, 1))), HOW)
    assert deaths.passed(Committed("t", 0, 4))
    assert not deaths.passed(Committed("t", 0, 4))
    assert not deaths.passed(Committed("t", 7, 4))
    assert said(deaths) == [(4, 10, 1, None), (0, 3, 1, None)]
    assert deaths.passed(Committed("t", 0, 10))
    assert deaths.passed(Committed("t", 1, 99))
    assert said(deaths) == []


def test_each_change_has_a_higher_number() -> None:
    deaths = Deaths()
    numbers = [deaths.notes.number]
    deaths.count(InHand((span(0, 10),)), HOW)
    numbers.append(deaths.notes.number)
    deaths.passed(Committed("t", 0, 4))
    numbers.append(deaths.notes.number)
    deaths.forget()
    numbers.append(deaths.notes.number)
    assert numbers == sorted(set(numbers))
    assert said(deaths) == []


def test_notes_that_make_no_sense_are_left_out() -> None:
    kept = Note(span(3, 9), 1)
    assert Deaths([Note(span(9, 3), 1), Note(span(-2, 3), 1), Note(span(3, 9), 0), kept]).notes.notes == (kept,)


def test_any_deaths_are_counted_as_record_by_record() -> None:
    for seed in range(50):
        chance = random.Random(seed)
        deaths, counts = Deaths(), Counter[int]()
        for _ in range(12):
            first = chance.randrange(30)
            after = first + chance.randint(1, 9)
            deaths.count(InHand((span(first, after),)), HOW)
            counts.update(range(first, after))
        assert {offset: n.deaths for n in deaths.notes.notes for offset in range(n.span.first, n.span.next_offset)} == (
            dict(counts)
        ), seed


def test_deaths_over_a_deleted_topics_records_counted_against_those_of_its_namesake() -> None:
    """A good record of the new topic was set aside without being handled."""
    deaths = Deaths([Note(span(0, 9, topic_id=OLD), 2), Note(span(0, 9, 1, OLD), 2)])
    deaths.count(InHand((span(4, 5, topic_id=NEW),), alone=True), HOW)
    assert [(n.span, n.deaths, n.died) for n in deaths.notes.notes] == [
        (span(4, 5, topic_id=NEW), 1, None),
        (span(0, 9, 1, OLD), 2, None),
    ]


def test_what_is_committed_of_a_topic_ends_what_is_noted_of_one_that_had_its_name() -> None:
    kept = [Note(span(5, 9, topic_id=NEW), 1), Note(span(0, 9, 1, OLD), 2)]
    deaths = Deaths([*kept, Note(span(7, 9, topic_id=OLD), 3, HOW)])
    number = deaths.notes.number
    assert deaths.passed(Committed("t", 0, 2, NEW))
    assert deaths.notes.number > number
    assert deaths.notes.notes == tuple(kept)
    assert not deaths.passed(Committed("t", 0, 2, NEW))
