"""A process remembers its events until a Monitor asks: in order, bounded, with a count of lost ones."""

from __future__ import annotations

from actors.links.chronicle import Chronicle
from actors.links.observations import ANSWER_MAX
from actors.links.views import ClassicRebalanceView


def chronicle(kept_max: int = 4_096) -> Chronicle:
    return Chronicle(iter(range(1_000, 1 << 60)).__next__, kept_max)


def test_a_slow_reader_is_told_all_in_order_and_nothing_twice() -> None:
    made = chronicle()
    for number in range(ANSWER_MAX + 5):
        if number % 2:
            made.note("kind", str(number), "text")
        else:
            made.note_rebalance(ClassicRebalanceView(str(number), 0, 1, "why", "m"))
    first = made.since(0, 0)
    assert (first.upto, first.last, first.missed) == (ANSWER_MAX, ANSWER_MAX + 5, 0)
    second = made.since(first.run, first.upto)
    assert (second.upto, second.last, second.missed) == (ANSWER_MAX + 5, ANSWER_MAX + 5, 0)
    numbers = [each.number for told in (first, second) for each in (*told.events, *told.rebalances)]
    assert sorted(numbers) == list(range(1, ANSWER_MAX + 6))
    third = made.since(second.run, second.upto)
    assert (third.upto, third.events, third.rebalances) == (second.upto, (), ())


def test_what_is_kept_no_longer_is_counted() -> None:
    made = chronicle(kept_max=3)
    for number in range(1, 9):
        made.note("kind", str(number), "text")
    told = made.since(made.run, 2)
    assert [event.number for event in told.events] == [6, 7, 8]
    assert told.missed == 3, "3, 4 and 5"
    assert made.since(made.run, 5).missed == 0


def test_to_a_reader_of_another_run_everything_is_new() -> None:
    made = chronicle()
    made.note("kind", "subject", "text")
    told = made.since(made.run - 1, 700)
    assert ([event.number for event in told.events], told.missed) == ([1], 0)
    assert made.since(made.run, 700).upto == 1, "a number that was never given out"
