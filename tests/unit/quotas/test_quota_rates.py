"""Windows, tokens and their tables, in virtual time: SECURITY.md, XD-05 and XD-06."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.quotas.rates import Bucket, Recent, Sampling, Window

BEGIN = 1_000_000.0


@given(
    st.integers(1, 12),
    st.integers(1, 5),
    st.lists(st.tuples(st.floats(0, 4), st.integers(0, 1000)), max_size=40),
)
def test_a_window_has_what_was_used_in_its_samples(count: int, seconds: int, uses: list[tuple[float, int]]) -> None:
    sampling = Sampling(count, seconds)
    window, now, so_far = Window(sampling), BEGIN, []
    for later, amount in uses:
        now += later
        window.record(amount, now)
        so_far.append((int(now // seconds), amount))
        in_window = sum(amount for number, amount in so_far if number > int(now // seconds) - count)
        assert window.room(10.0, now) == pytest.approx(10.0 * sampling.span(now) - in_window)
    assert window.room(10.0, now + sampling.longest + 0.1) > 0


@pytest.mark.conformance("XD-06")
@pytest.mark.parametrize(("count", "seconds", "chunk"), [(11, 1, 100_000), (2, 1, 10_000), (5, 3, 7)])
def test_who_waits_as_told_keeps_to_the_rate(count: int, seconds: int, chunk: int) -> None:
    """Over a long time; the first window may be full at once."""
    rate = chunk * 7.0
    sampling = Sampling(count, seconds)
    window, now, sent = Window(sampling), BEGIN, 0
    end = BEGIN + 20 * sampling.longest
    while now < end:
        window.record(chunk, now)
        sent += chunk
        now += max(window.delay(rate, now), 0.001)
    used = sent / (now - BEGIN)
    assert 0.85 * rate < used < 1.15 * rate


def test_a_delay_is_what_makes_the_window_long_enough() -> None:
    window = Window(Sampling(11, 1))
    window.record(1500, BEGIN)
    assert window.delay(100.0, BEGIN) == 5.0
    assert window.delay(150.0, BEGIN) == 0.0


@pytest.mark.conformance("XD-05")
def test_a_bucket_has_one_burst_and_then_the_rate() -> None:
    bucket = Bucket()
    assert [bucket.take(1, 2, 2, BEGIN) for _ in range(4)] == [0, 0, 0.5, 1.0]
    assert bucket.take(1, 2, 2, BEGIN + 1.5) == 0
    assert bucket.has(1, 2, 2, BEGIN + 1.5) == 0.5
    assert bucket.has(2, 2, 2, BEGIN + 100) == 0, "full again"
    assert bucket.has(3, 2, 2, BEGIN + 100) == 0.5, "and not fuller"


def test_what_is_owed_has_a_bound() -> None:
    bucket = Bucket()
    waits = [bucket.take(1, 1, 1, BEGIN, owed=3) for _ in range(9)]
    assert waits == [0, 1, 2, 3, 3, 3, 3, 3, 3]


def test_without_a_rate_it_is_forever() -> None:
    bucket = Bucket()
    assert bucket.take(1, 0, 0, BEGIN, owed=1) == float("inf")


@pytest.mark.conformance("XD-05")
@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 2)), max_size=60), st.integers(1, 5))
def test_a_table_has_the_latest_and_no_more(uses: list[tuple[int, float]], most: int) -> None:
    table: Recent[int, list[int]] = Recent(list, idle=3.0, most=most)
    now, kept = BEGIN, dict[int, float]()
    for key, later in uses:
        now += later
        known = table.use(key, now)
        assert bool(known) == (key in kept)
        known.append(key)
        kept.pop(key, None)
        kept[key] = now
        latest = list(kept.items())[-most:]
        kept = {each: at for each, at in latest if now - at <= 3.0}
        assert len(table) == len(kept)
