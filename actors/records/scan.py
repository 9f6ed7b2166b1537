"""Reads records in the way that is faster for so many: a few with `rows`, others with `columns`.

`columns` needs NumPy, which takes a tenth of a second and 20 MiB to import. So it is imported where a batch of many
records is met first, and an event loop leaves that to a thread (`is_imported`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from actors.records.batch import Plain
from actors.records.rows import Row, read_rows

if TYPE_CHECKING:
    from actors.records.columns import Columns

FEW: Final = 24
"""So many records are read faster one by one."""


def rows_of(payload: Plain, count: int) -> Iterator[Row]:
    """The records of a payload, as `rows.read_rows` gives them."""
    if count <= FEW:
        return read_rows(payload, count)
    from actors.records.columns import rows

    return rows(payload, count)


def sliced(payload: Plain, count: int) -> Iterator[tuple[int, Columns]]:
    """`columns.sliced`, for more than a few records."""
    from actors.records import columns

    return columns.sliced(payload, count)


def is_imported() -> bool:
    """True once `columns` is imported."""
    return getattr(sys.modules.get("actors.records.columns"), "IMPORTED", False)
