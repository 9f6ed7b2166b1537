"""One poll: it sees to the group and the commits, and looks for records, until there are some or time is up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from actors.client.consumer.commits import Commits
from actors.client.consumer.drain import Drain
from actors.client.consumer.fetcher import Fetcher
from actors.client.consumer.participation import Participation
from actors.client.consumer.positions import PartitionState
from actors.client.consumer.recreation import Recreations
from actors.client.consumer.user_thread import UserThread
from actors.client.errors import IllegalStateError, KafkaTimeoutError
from actors.client.group.member import Subscriber
from actors.client.net.changes import Changes

T = TypeVar("T")

FOREVER_MS = 1 << 40
_LOOK_AGAIN_MS = 1_000  # the pause before looking again for the reason why no records come


class Polling:
    """The loop of `Consumer.poll`, `poll_arrow` and iteration, which differ in how they take fetched records."""

    def __init__(
        self,
        member: Subscriber,
        participation: Participation,
        commits: Commits,
        fetcher: Fetcher,
        drain: Drain,
        thread: UserThread,
        changes: Changes,
        recreations: Recreations,
        without_records: Callable[[], None] = lambda: None,
    ) -> None:
        self._member = member
        self._participation = participation
        self._commits = commits
        self._fetcher = fetcher
        self._drain = drain
        self._thread = thread
        self._changes = changes
        self._recreations = recreations
        self._without_records = without_records

    def poll(self, timeout_ms: int, take: Callable[[], T]) -> T | None:
        """Return the result of `take()`, as soon as it gives one; None after `timeout_ms`. Raises as Consumer.poll."""
        if self._participation.idle:
            raise IllegalStateError("subscribe to topics or assign partitions before polling")
        deadline_ms = self._changes.now_ms() + timeout_ms
        while True:
            seen = self._changes.count
            self._thread.raise_if_woken()
            self.turn(deadline_ms)
            self._fetcher.raise_error()
            if self.may_deliver():
                try:
                    taken = take()
                except BaseException:  # Ctrl-C, too: what was taken and not returned is still to be read
                    self._drain.undo()
                    raise
                if self._drain.drained or not taken:
                    self._drain.drained = False
                    self._fetcher.soon()
                # Decoding takes time. If the session has ended meanwhile, the records may belong to others.
                if taken and self.may_deliver():
                    return taken
                if taken:
                    self._drain.undo()
            self._without_records()
            if self._changes.now_ms() >= deadline_ms:
                return None
            self._changes.wait(seen, min(deadline_ms, self._next_turn()))

    def position(self, state: PartitionState, timeout_ms: int) -> int:
        """Wait for a partition's position. Raises KafkaTimeoutError, and the error because of which it has none."""
        deadline_ms = self._changes.now_ms() + timeout_ms
        self._fetcher.soon()
        while state.position is None:
            seen = self._changes.count
            self._fetcher.raise_error()
            self._drain.meet_error(state)
            if self._changes.now_ms() >= deadline_ms:
                raise KafkaTimeoutError(f"the position of {state.tp} is not known yet")
            self._changes.wait(seen, deadline_ms)
        return state.position

    def may_deliver(self) -> bool:
        """True if records may be handed out: within the session, or without a group."""
        with self._changes.lock:
            return self._member.may_deliver(self._changes.now_ms())

    def _next_turn(self) -> int:
        """The time (monotonic ms) at which there may be something to do, even if nothing arrives until then."""
        times = (self._participation.next_ms, self._commits.next_ms, self._changes.now_ms() + _LOOK_AGAIN_MS)
        return max(self._changes.now_ms() + 1, min((t for t in times if t is not None), default=FOREVER_MS))

    def turn(self, deadline_ms: int) -> None:
        """Do what comes before records: call callbacks of commits, see to the group and its topics, commit."""
        self._commits.run_callbacks()
        with self._changes.lock:
            self._member.poll(self._changes.now_ms())
        self._participation.take_part(deadline_ms)
        self._recreations.meet()
        self._commits.commit_if_due()
