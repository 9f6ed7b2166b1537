"""What our tasks share in one of Spark's Python workers, a process that runs one task after another."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from actors.client.consumer.ranges import RangeReader

_IDLE_S: Final = 30.0

_settled: set[int] = set()


def begin_task() -> None:
    """To be called first in every task of ours.

    Spark's worker collects garbage after each task, and with pandas, pyarrow and pyspark loaded that takes longer
    than reading 100,000 records. What is there at the first task are modules, which live as long as the process: the
    collector need not look at them again and again.
    """
    if os.getpid() not in _settled:
        _settled.add(os.getpid())
        gc.collect()
        gc.freeze()


@dataclass(slots=True, eq=False)
class _Kept:
    """A reader between two tasks of one process: saves the next one connecting and asking for metadata."""

    key: tuple[Any, ...]
    reader: RangeReader
    pid: int
    timer: threading.Timer | None = None


_kept: list[_Kept] = []
_lock = threading.Lock()


@contextlib.contextmanager
def reader_for(**arguments: Any) -> Iterator[RangeReader]:
    """This process's RangeReader with these arguments, or a new one.

    After a failure it is closed; unused, it is closed after half a minute.
    """
    key = tuple(sorted((name, repr(value)) for name, value in arguments.items()))
    reader = _take(key) or RangeReader(**arguments)
    try:
        yield reader
    except BaseException:
        reader.close()
        raise
    _keep(key, reader)


def _take(key: tuple[Any, ...]) -> RangeReader | None:
    """The reader kept for this key, which is nobody else's from now on."""
    with _lock:
        for kept in _kept:
            # A forked process has its parent's objects, but not its threads and sockets.
            if kept.key == key and kept.pid == os.getpid():
                _kept.remove(kept)
                if kept.timer is not None:
                    kept.timer.cancel()
                return kept.reader
    return None


def _keep(key: tuple[Any, ...], reader: RangeReader) -> None:
    kept = _Kept(key, reader, os.getpid())
    kept.timer = threading.Timer(_IDLE_S, _drop, (kept,))
    kept.timer.daemon = True
    with _lock:
        others = [each for each in _kept if each.pid == kept.pid]
        _kept[:] = [kept]
    for each in others:
        _end(each)
    kept.timer.start()


def _drop(kept: _Kept) -> None:
    with _lock:
        if kept not in _kept:
            return
        _kept.remove(kept)
    kept.reader.close()


def _end(kept: _Kept) -> None:
    if kept.timer is not None:
        kept.timer.cancel()
    kept.reader.close()


@atexit.register
def _close_all() -> None:
    with _lock:
        mine = [each for each in _kept if each.pid == os.getpid()]
        _kept.clear()
    for each in mine:
        _end(each)
