"""Answers leave a connection in request order, whoever makes them and whenever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.broker.connections.slots import SlotQueue


def answer_of(number: int) -> bytes:
    return b"answer %d" % number


@given(st.permutations(range(8)), st.lists(st.booleans(), min_size=8, max_size=8))
def test_answers_leave_in_request_order_however_they_are_made(order: list[int], take_after: list[bool]) -> None:
    queue = SlotQueue()
    slots = [queue.open(i, 12, 4, i) for i in range(8)]
    left: list[bytes] = []
    for number, take in zip(order, take_after, strict=True):
        slots[number].finish(answer_of(number))
        if take:
            left += queue.take()
    left += queue.take()
    assert left == [answer_of(i) for i in range(8)]
    assert len(queue) == 0


@given(st.lists(st.one_of(st.just("open"), st.integers(0, 20)), max_size=60))
def test_what_has_left_is_always_the_longest_answered_beginning(steps: list[str | int]) -> None:
    queue = SlotQueue()
    opened = []
    answered: set[int] = set()
    left: list[bytes] = []
    for step in steps:
        if step == "open":
            opened.append(queue.open(0, 0, 0, len(opened)))
        elif isinstance(step, int) and step < len(opened) and step not in answered:
            opened[step].finish(answer_of(step))
            answered.add(step)
        left += queue.take()
        expected = 0
        while expected in answered:
            expected += 1
        assert left == [answer_of(i) for i in range(expected)]
        assert len(queue) == len(opened) - expected


def test_an_answer_in_parts_takes_its_turn_whole_and_counts_with_all_its_bytes() -> None:
    queue = SlotQueue()
    first, second, third = (queue.open(i, 0, 0, i) for i in range(3))
    second.finish([b"its head, ", b"its records"])
    third.finish(b"the next")
    assert (queue.take(), queue.ready_bytes) == ([], 29)
    first.finish([b"one"])
    assert queue.take() == [b"one", b"its head, ", b"its records", b"the next"]
    assert queue.ready_bytes == 0


def test_an_answer_is_given_out_once() -> None:
    queue = SlotQueue()
    queue.open(1, 0, 0, 0).finish(b"once")
    assert queue.take() == [b"once"]
    assert queue.take() == []


def test_clearing_returns_only_the_slots_that_are_still_owed_an_answer() -> None:
    queue = SlotQueue()
    first, second, third = (queue.open(i, 0, 0, i) for i in range(3))
    second.finish(b"made, but its turn never came")
    assert queue.clear() == [first, third]
    assert queue.take() == []
    assert len(queue) == 0


def test_a_slot_remembers_the_request_it_was_opened_for() -> None:
    queue = SlotQueue("the connection")
    slot = queue.open(7, 11, 9, 1234)
    assert (slot.id, slot.api_key, slot.version, slot.correlation_id) == (7, 11, 9, 1234)
    assert slot.queue.connection == "the connection"
