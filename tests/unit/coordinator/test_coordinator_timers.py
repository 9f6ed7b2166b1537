"""At most one timer a key: whatever is armed, moved and cancelled, each fires once, when it was last set to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.timers import Timer, Timers
from tests.support.examples import examples

KEYS = 4
step = st.one_of(
    st.tuples(st.just("arm"), st.integers(0, KEYS - 1), st.integers(1, 30)),
    st.tuples(st.just("cancel"), st.integers(0, KEYS - 1), st.just(0)),
    st.tuples(st.just("pass"), st.just(0), st.integers(0, 20)),
)


@examples(200)
@given(st.lists(step, max_size=60))
def test_each_key_has_one_timer(steps: list[tuple[str, int, int]]) -> None:
    now = 0
    timers = Timers()
    keyed = [Timer(lambda _: None) for _ in range(KEYS)]
    set_to: dict[int, int] = {}
    for what, key, ms in [*steps, ("pass", 0, 1_000)]:
        if what == "arm":
            timers.arm(keyed[key], now + ms)
            set_to[key] = now + ms
        elif what == "cancel":
            keyed[key].cancel()
            set_to.pop(key, None)
        else:
            now += ms
            fired = [keyed.index(timer) for timer in timers.pop_due(now)]
            assert sorted(fired) == sorted(key for key, due in set_to.items() if due <= now)
            assert [set_to[key] for key in fired] == sorted(set_to[key] for key in fired)
            set_to = {key: due for key, due in set_to.items() if due > now}
        assert timers.next_due_ms() == min(set_to.values(), default=None)


@pytest.mark.conformance("D-14")
def test_a_timer_cancelled_after_it_came_due_does_nothing() -> None:
    timers, fired = Timers(), []
    second = Timer(lambda now: fired.append("second"))
    first = Timer(lambda now: (fired.append("first"), second.cancel()))
    timers.arm(first, 10)
    timers.arm(second, 10)
    for timer in timers.pop_due(10):
        timer.action(None)  # type: ignore[arg-type]
    assert fired == ["first"]
