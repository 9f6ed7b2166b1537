"""Fill the holes in this process's heaps, so that what it forks has its new objects side by side, on pages of its own.

A process that has imported a lot has freed a lot in between. A forked one that puts its objects into these holes writes
to a page for each few of them, and every page that is written is copied. The objects that fill them are never freed:
they cost this process a few MiB, and each of those that it forks 3.6 MiB less.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

_LARGEST_OF_PYTHON = 512  # larger ones Python takes from the C library
_LARGEST = 4096
_STEP = 16
_ROW_BYTES = 4096
_LEAST_ROW = 4
_FILLED_MAX = 16 << 20
"""More than that is no hole: an allocator whose blocks never lie side by side would be asked for ever."""


def fill() -> None:
    """Fill the holes of Python's own heap, and of the C library's."""
    _fill(ctypes.pythonapi.PyObject_Malloc, range(_STEP, _LARGEST_OF_PYTHON + 1, _STEP))
    _fill(ctypes.CDLL(None).malloc, range(_LARGEST, 0, -_STEP))  # the largest first: a smaller one may break them up


def _fill(allocate: Callable[[int], int], sizes: range) -> None:
    allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]  # type: ignore[attr-defined]
    filled = 0
    for size in sizes:
        row, last = 0, 0
        while row < max(_ROW_BYTES // size, _LEAST_ROW):  # then they come from where nothing has been before
            if (filled := filled + size) > _FILLED_MAX:
                return
            block = allocate(size) or 0
            row = row + 1 if 0 < block - last <= size + _STEP else 0
            last = block
