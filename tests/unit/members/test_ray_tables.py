"""The tables of a read task: the same cut each time, whatever the fetches were."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from actors.members.ray_datasource import evenly


def tables(*lengths: int) -> list[pa.Table]:
    ends = [0, *itertools.accumulate(lengths)]
    return [pa.table({"offset": list(range(at, end))}) for at, end in itertools.pairwise(ends)]


@given(st.lists(st.integers(0, 12), max_size=8), st.integers(1, 7))
def test_rows_come_in_order_in_tables_of_the_same_size(lengths: list[int], rows: int) -> None:
    cut = list(evenly(tables(*lengths), rows))
    total = sum(lengths)
    assert [at for table in cut for at in table["offset"].to_pylist()] == list(range(total))
    assert [table.num_rows for table in cut] == [rows] * (total // rows) + [total % rows] * (total % rows > 0)


def test_a_table_is_given_on_as_soon_as_it_is_full() -> None:
    fetched = iter(tables(3, 3, 3))
    assert next(evenly(fetched, 4)).num_rows == 4
    assert next(fetched)["offset"].to_pylist() == [6, 7, 8], "nobody has asked for the third one yet"
