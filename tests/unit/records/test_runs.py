"""Runs of records that look alike: their sum is that of single records, or left to others; no fault passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.records.errors import CorruptBatchError
from actors.records.rows import read_rows
from actors.records.runs import summary_of_runs
from actors.records.summary import Summary, summary_of
from tests.support.examples import examples
from tests.support.raw_batches import record

UNTIMED = -1_700_000_000_001


def one_by_one(payload: bytes, count: int) -> Summary | None:
    """The summary by the slow way; None for bytes that are no records."""
    try:
        return summary_of(list(read_rows(payload, count)), UNTIMED)
    except CorruptBatchError:
        return None


def agrees(payload: bytes, count: int) -> bool:
    """True if the summary of runs is the same, or None."""
    found = summary_of_runs(payload, count, UNTIMED)
    return found is None or found == one_by_one(payload, count)


def alike(count: int, value: bytes = b"v" * 100, key: bytes | None = None, times: tuple[int, ...] = (0,)) -> bytes:
    return b"".join(record(number, key, value, time=times[number % len(times)]) for number in range(count))


@pytest.mark.parametrize("count", [1, 16, 63, 64, 65, 300, 8191, 8192, 8193, 12_000])
@pytest.mark.parametrize("key", [None, b"", b"key"])
@pytest.mark.parametrize("times", [(0,), (0, 1, 5), (-1, 3), (UNTIMED, 0), (100, 200)])
def test_records_that_look_alike_are_summed_up(count: int, key: bytes | None, times: tuple[int, ...]) -> None:
    payload = alike(count, key=key, times=times)
    assert agrees(payload, count)
    if UNTIMED not in times:  # its delta is long, so that the runs are short
        assert summary_of_runs(payload, count, UNTIMED) is not None
    assert summary_of_runs(bytearray(payload), count, UNTIMED) == summary_of_runs(payload, count, UNTIMED)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(alike(30)[:-1], id="cut off"),
        pytest.param(alike(30) + b"\0", id="a byte more"),
        pytest.param(alike(31), id="a record more"),
        pytest.param(alike(29), id="a record less"),
        pytest.param(alike(10) + alike(20), id="offsets begin anew"),
        pytest.param(b"".join(record(29 - number) for number in range(30)), id="offsets go down"),
        pytest.param(b"".join(record(0) for _ in range(30)), id="offsets stay"),
        pytest.param(alike(29) + record(29, attributes=200), id="attributes"),
        pytest.param(b"".join(record(number, attributes=200) for number in range(30)), id="attributes of all"),
        pytest.param(b"".join(record(number, headers=[(b"h", b"x")]) for number in range(30)), id="headers"),
        pytest.param(b"\xff" * 300, id="no records"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_what_is_wrong_or_not_alike_is_left_to_others(payload: bytes) -> None:
    assert summary_of_runs(payload, 30, UNTIMED) is None


@examples(400)
@given(st.data())
def test_one_changed_byte_is_never_taken_for_right(data: st.DataObject) -> None:
    count = data.draw(st.integers(20, 90))
    times = tuple(data.draw(st.lists(st.integers(-70, 9000), min_size=1, max_size=3)))
    payload = bytearray(
        alike(count, data.draw(st.binary(max_size=40)), data.draw(st.none() | st.binary(max_size=3)), times)
    )
    for _ in range(data.draw(st.integers(0, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    assert agrees(bytes(payload), count)


def test_long_records_are_left_to_others() -> None:
    assert summary_of_runs(alike(30, b"v" * 1000), 30, UNTIMED) is None
