"""The topic of deployed pools in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from actors.members.deployment.book import Book
from actors.members.deployment.records import Deployment, PoolRecord, Record, decode, encode, key_of, keys_of

FIRST = Deployment(
    incarnation="one",
    id="a",
    version=1,
    deployed_at_ms=1000,
    group_id="g",
    topics=("t",),
    size=3,
    autoscale=None,
    bootstrap_servers="h:1",
    settings={},
    at_home=True,
    python="3.11",
    body=b"pickled",
)
"""A version, whose body nobody loads."""


class MemoryTopic:
    """The records of programs and a supervisor, in one order. A reader follows it like `PoolsTopic`."""

    def __init__(self) -> None:
        self._records: list[tuple[bytes, bytes | None]] = []
        self._changed = threading.Condition()

    def write(self, name: str, *records: Record) -> int:
        return self._append((key_of(name, record), encode(record)) for record in records)

    def remove(self, keys: Iterable[bytes]) -> None:
        self._append((key, None) for key in keys)

    def begin_anew(self, name: str, record: Record) -> None:
        """Stop a pool and deploy another one of its name, before anybody reads."""
        with self._changed:
            self.remove(keys_of(name))
            self.write(name, record)

    def _append(self, pairs: Iterable[tuple[bytes, bytes | None]]) -> int:
        with self._changed:
            self._records += pairs
            self._changed.notify_all()
            return len(self._records) - 1

    def pool(self, name: str) -> PoolRecord | None:
        """A pool by all that is written."""
        with self.follow() as following:
            return following.book.pool(name)

    def written(self, kind: type[Record]) -> list[Record]:
        """All records of a kind, the oldest first."""
        with self._changed:
            found = [decode(value) for _, value in self._records if value is not None]
        return [record for record in found if isinstance(record, kind)]

    @contextmanager
    def follow(self, only: str | None = None) -> Iterator[MemoryFollowing]:
        following = MemoryFollowing(self._records, self._changed, only)
        following.poll(0)
        yield following


class MemoryFollowing:
    def __init__(
        self, records: list[tuple[bytes, bytes | None]], changed: threading.Condition, only: str | None
    ) -> None:
        self.book = Book(only)
        self._records = records
        self._changed = changed
        self._position = 0

    def poll(self, timeout_ms: int) -> set[str]:
        with self._changed:
            self._changed.wait_for(lambda: len(self._records) > self._position, timeout_ms / 1000)
            new = list(enumerate(self._records))[self._position :]
        self._position += len(new)
        return {self.book.apply(offset, key, value) for offset, (key, value) in new}
