"""State that tasks share in one of Spark's Python workers, which is a process that runs one task after another."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from actors.client.consumer.ranges import RangeReader
from actors.settings.secret import cache_key

_IDLE_S: Final = 30.0

_settled: set[int] = set()


def begin_task() -> None:
    """Keep the garbage collector away from what was imported. Every task calls this first.

    Spark's worker collects garbage after each task. With pandas, pyarrow and pyspark loaded that takes longer than
    reading 100,000 records, though modules live as long as the process.
    """
    if os.getpid() not in _settled:
        _settled.add(os.getpid())
        gc.collect()
        gc.freeze()


@dataclass(slots=True, eq=False)
class _Kept:
    """A reader that is kept for the next task of this process, which then need not connect and ask for metadata."""

    key: Hashable
    reader: RangeReader
    pid: int
    timer: threading.Timer | None = None


_kept: list[_Kept] = []
_lock = threading.Lock()


@contextlib.contextmanager
def reader_for(**arguments: Any) -> Iterator[RangeReader]:
    """Within the block, a RangeReader with these arguments: the one that this process has kept, or a new one.

    If the block raises, it is closed. Else it is kept, and closed after half a minute without use.
    """
    key = cache_key(arguments)  # two users never share a connection
    reader = _take(key) or RangeReader(**arguments)
    try:
        yield reader
    except BaseException:  # GeneratorExit, too, of a task that wants no more: it is in the middle of a range
        reader.close()
        raise
    _keep(key, reader)


def _take(key: Hashable) -> RangeReader | None:
    """Take the reader that is kept for this key, if there is one."""
    with _lock:
        for kept in _kept:
            # A forked process has its parent's objects, but not its threads and sockets.
            if kept.key == key and kept.pid == os.getpid():
                _kept.remove(kept)
                if kept.timer is not None:
                    kept.timer.cancel()
                return kept.reader
    return None


def _keep(key: Hashable, reader: RangeReader) -> None:
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


def kept_keys() -> list[Hashable]:
    """The keys of the readers that are kept: their arguments, in which no secret shows."""
    with _lock:
        return [kept.key for kept in _kept]


@atexit.register
def close_readers() -> None:
    """Close the readers that this process has kept."""
    with _lock:
        mine = [each for each in _kept if each.pid == os.getpid()]
        _kept.clear()
    for each in mine:
        _end(each)
