"""The tables of a read task: the same cut each time, whatever the fetches were."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from actors.members.ranges.ray_datasource import evenly

Row = tuple[bytes | None, bytes | None]

keys = st.one_of(st.none(), st.binary(max_size=3))
rows_of_keys = st.lists(st.tuples(keys, st.one_of(st.none(), st.binary(max_size=30))), max_size=30)


def table(rows: list[Row]) -> pa.Table:
    columns: dict[str, Any] = {
        "key": pa.array([key for key, _ in rows], pa.binary()),
        "value": pa.array([value for _, value in rows], pa.binary()),
    }
    return pa.table(columns)


def size(rows: list[Row]) -> int:
    return sum(len(key or b"") + len(value or b"") for key, value in rows)


def in_pieces(rows: list[Row], cuts: list[int]) -> list[pa.Table]:
    """Slices of one table, as fetches are, and empty ones among them."""
    whole = table(rows)
    ends = sorted(min(cut, len(rows)) for cut in cuts)
    return [whole.slice(at, end - at) for at, end in itertools.pairwise([0, *ends, len(rows)])]


cuts = st.lists(st.integers(0, 30), max_size=6)


@given(rows_of_keys, cuts, cuts, st.integers(1, 8), st.integers(1, 60))
def test_the_cut_depends_on_the_rows_alone(
    rows: list[Row], once: list[int], again: list[int], most: int, most_bytes: int
) -> None:
    first, second = (list(evenly(in_pieces(rows, cut), most, most_bytes)) for cut in (once, again))
    assert [list(zip(*(c.to_pylist() for c in t.columns), strict=True)) for t in first] == [
        list(zip(*(c.to_pylist() for c in t.columns), strict=True)) for t in second
    ]
    assert [t.nbytes for t in first] == [t.nbytes for t in second], "by which Ray Data cuts blocks"


@given(rows_of_keys, cuts, st.integers(1, 8), st.integers(1, 60))
def test_rows_stay_in_order_and_a_table_ends_when_it_is_full(
    rows: list[Row], cut: list[int], most: int, most_bytes: int
) -> None:
    tables = [
        list(zip(t["key"].to_pylist(), t["value"].to_pylist(), strict=True))
        for t in evenly(in_pieces(rows, cut), most, most_bytes)
    ]
    assert [row for each in tables for row in each] == rows
    assert all(each for each in tables)
    assert all(len(each) <= most and size(each[:-1]) < most_bytes for each in tables)
    assert all(len(each) == most or size(each) >= most_bytes for each in tables[:-1])


def test_a_table_is_given_on_as_soon_as_it_is_full() -> None:
    fetched = iter([table([(None, b"%d" % n)] * 3) for n in range(3)])
    assert next(evenly(fetched, 4, 1000)).num_rows == 4
    assert next(fetched)["value"].to_pylist() == [b"2"] * 3, "nobody has asked for the third one yet"
