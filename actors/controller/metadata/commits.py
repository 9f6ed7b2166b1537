"""The decided and the committed metadata, and what waits in between. Without I/O."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto

from actors.links.not_controller import NotControllerError
from placement.metadata import ClusterMetadata
from placement.records import MetadataImage, Record

__all__ = ["Commit", "DecidedMetadata", "NotControllerError"]


class _State(Enum):
    DECIDED = auto()
    """It may commit, or be dropped."""
    COMMITTED = auto()
    DROPPED = auto()


class Commit:
    """The outcome of records that were appended: all commit or none. `index` is that of the record after them."""

    def __init__(self, index: int) -> None:
        self.index = index
        self._state = _State.DECIDED
        self._then: list[tuple[Callable[[], None], Callable[[], None] | None]] = []

    @property
    def done(self) -> bool:
        """True if the records have committed."""
        return self._state is _State.COMMITTED

    def then(self, committed: Callable[[], None], dropped: Callable[[], None] | None = None) -> None:
        """Have `committed` called when the records have, in this turn if they have already; or `dropped`."""
        match self._state:
            case _State.DECIDED:
                self._then.append((committed, dropped))
            case _State.COMMITTED:
                committed()
            case _State.DROPPED if dropped is not None:
                dropped()

    async def wait(self) -> None:
        """Wait until the records have committed. Raises NotControllerError if they are dropped."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def dropped() -> None:
            if not waiting.done():
                waiting.set_exception(NotControllerError("the controller was replaced before the change was committed"))

        self.then(lambda: None if waiting.done() else waiting.set_result(None), dropped)
        await waiting

    def end(self, *, committed: bool) -> list[Exception]:
        """The records have committed, or never will. Only the metadata they belong to calls this.

        All who wait are called. Exceptions that they raise, which are bugs, are returned.
        """
        self._state = _State.COMMITTED if committed else _State.DROPPED
        then, self._then = self._then, []
        errors: list[Exception] = []
        for on_commit, on_drop in then:
            call = on_commit if committed else on_drop
            try:
                if call is not None:
                    call()
            except Exception as error:  # whatever it is: others that wait have nothing to do with it
                errors.append(error)
        return errors


class DecidedMetadata:
    """The metadata with all that was decided, the metadata with all that has committed, and the records in between.

    Both are the same while nothing waits. It is what a log's records are applied to (`log.Applied`).
    """

    def __init__(self, metadata: ClusterMetadata) -> None:
        self.committed = metadata
        self.decided = metadata.copy()
        self._pending: deque[tuple[Commit, tuple[Record, ...]]] = deque()

    def decide(self, records: Sequence[Record]) -> Commit:
        """Apply records to the decided metadata. If one cannot be applied, which is a bug, none is, and it raises."""
        try:
            self.decided.apply_all(records)
        except BaseException:  # a bug: some of the records may have been applied
            self._decide_again()
            raise
        commit = Commit(self.decided.version)
        self._pending.append((commit, tuple(records)))  # the list is the caller's
        return commit

    @property
    def end(self) -> Commit:
        """The commit of all that has been decided so far; already done if nothing waits."""
        if self._pending:
            return self._pending[-1][0]
        commit = Commit(self.committed.version)
        commit.end(committed=True)
        return commit

    @property
    def pending(self) -> Sequence[tuple[Commit, tuple[Record, ...]]]:
        """The commits of all that was decided and has not committed, oldest first, each with its records."""
        return tuple(self._pending)

    def commit(self, index: int) -> None:
        """All records below this index have committed. All who wait are told; what the first raises, is raised then."""
        errors: list[Exception] = []
        while self._pending and self._pending[0][0].index <= index:
            commit, records = self._pending.popleft()
            self.committed.apply_all(records)
            errors += commit.end(committed=True)
        if errors:
            raise errors[0]

    def take_back(self) -> None:
        """Forget the records that were decided last, which could not be appended. Nobody waits for them yet."""
        self._pending.pop()
        self._decide_again()

    def snapshot(self) -> MetadataImage:
        """All that has committed."""
        return self.committed.image()

    def restore(self, image: MetadataImage) -> None:
        """Begin anew with a snapshot, before anything is decided."""
        self.committed = ClusterMetadata.of_image(image)
        self.decided = self.committed.copy()

    def drop(self) -> None:
        """Forget all records that have not committed, for another controller has begun. It raises as `commit` does."""
        pending, self._pending = self._pending, deque()
        self._decide_again()
        errors = [error for commit, _ in pending for error in commit.end(committed=False)]
        if errors:
            raise errors[0]

    def _decide_again(self) -> None:
        self.decided = self.committed.copy()
        for _, records in self._pending:
            self.decided.apply_all(records)
