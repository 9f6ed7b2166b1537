"""A queue that no address can fill for the others."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.entrance.fair_queue import FairQueue


def test_addresses_take_turns() -> None:
    queue: FairQueue[str] = FairQueue(10)
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        assert queue.put(item[0], item) is None
    assert [queue.take() for _ in range(len(queue))] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    with pytest.raises(StopIteration):
        queue.take()


def test_the_newest_of_the_busiest_gives_way() -> None:
    queue: FairQueue[str] = FairQueue(3)
    for item in ("a1", "a2", "a3"):
        queue.put("a", item)
    assert queue.put("a", "a4") == "a4"
    assert queue.put("b", "b1") == "a3"
    assert queue.put("b", "b2") == "b2", "of equals who came last"
    assert [queue.take() for _ in range(len(queue))] == ["a1", "b1", "a2"]


@given(st.integers(1, 8), st.lists(st.sampled_from("aaaaabc-")))
def test_nothing_is_lost_and_who_has_few_keeps_them(most: int, steps: list[str]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue(most)
    waiting: set[tuple[str, int]] = set()
    for number, step in enumerate(steps):
        if step == "-":
            if waiting:
                waiting.remove(queue.take())
            continue
        counts = Counter(address for address, _ in waiting)
        waiting.add((step, number))
        refused = queue.put(step, (step, number))
        if refused is not None:
            assert len(waiting) == most + 1
            waiting.remove(refused)
            assert counts[refused[0]] + (refused[0] == step) == max((counts + Counter(step)).values())
        assert len(queue) == len(waiting) <= most
    assert {queue.take() for _ in range(len(queue))} == waiting
