"""A consumer's commits: those that the program waits for, those that it does not, and automatic ones.

Everything here runs in the user's thread. `group.offsets` says what a commit may contain and what its answer means.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from actors.client.consumer.positions import Positions
from actors.client.consumer.user_thread import UserThread
from actors.client.errors import FencedInstanceIdError, KafkaError, WakeupError
from actors.client.group.driver import Driver
from actors.client.net.changes import Changes
from actors.client.net.network import Network
from actors.client.records import OffsetAndMetadata, TopicPartition
from actors.client.settings import ConsumerConfig

log = logging.getLogger(__name__)

Offsets = dict[TopicPartition, OffsetAndMetadata]
CommitCallback = Callable[[Offsets, Exception | None], Any]
Running = concurrent.futures.Future[None]


def whole(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Offsets:
    """The offsets that a program gave, each as OffsetAndMetadata: it may give a number, a tuple, or no epoch."""
    made = {}
    for tp, offset in offsets.items():
        value = OffsetAndMetadata(offset) if isinstance(offset, int) else OffsetAndMetadata(*offset)
        epoch = -1 if value.leader_epoch is None else value.leader_epoch
        made[TopicPartition(*tp)] = value._replace(leader_epoch=epoch)
    return made


class Commits:
    """Starts commits and takes in their outcomes. `run_callbacks` calls the callbacks, and raises if one was fenced."""

    def __init__(
        self,
        config: ConsumerConfig,
        network: Network,
        driver: Driver,
        positions: Positions,
        thread: UserThread,
        changes: Changes,
    ) -> None:
        self._config = config
        self._network = network
        self._driver = driver
        self._positions = positions
        self._thread = thread
        self._changes = changes
        self._ended: deque[Callable[[], None]] = deque()
        self._open: set[Running] = set()
        self._fenced: KafkaError | None = None
        self._due_ms = self._network.now_ms() + config.auto_commit_interval_ms
        self._automatic: Running | None = None

    def consumed(self) -> Offsets:
        """The offsets to commit: all positions, without those in topics that do not exist any more."""
        return self._driver.committable(self._positions.consumed())

    def start(self, offsets: Offsets, *, retry: bool, timeout_ms: int) -> Running:
        """Begin a commit under the present generation. Raises as `group.offsets.make_commit` does."""
        with self._changes.lock:
            commit = self._driver.make_commit(offsets)
        if not offsets:
            done: Running = concurrent.futures.Future()
            done.set_result(None)
            return done
        future = self._network.run(self._driver.commit(commit, offsets, timeout_ms, retry=retry))
        future.add_done_callback(lambda _: self._changes.tell())
        return future

    def commit(self, offsets: Offsets, timeout_ms: int) -> None:
        """Commit and wait; retriable errors are retried until the timeout."""
        self.run_callbacks()
        future = self.start(offsets, retry=True, timeout_ms=timeout_ms)
        late = f"the commit was not answered within {timeout_ms} ms; it may have happened"
        until_ms = self._network.now_ms() + timeout_ms
        self._thread.result(future, until_ms, lambda: late + self._network.outage.because())
        self.run_callbacks()

    # --- without waiting ------------------------------------------------------------------------------------------

    def commit_async(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        """Send a commit once without waiting; a later `run_callbacks` calls `callback(offsets, error)`."""

        def ended(future: Running) -> None:
            error: Any = future.exception() if not future.cancelled() else None
            if isinstance(error, FencedInstanceIdError):
                self._fenced = error
            if callback is not None:
                self._ended.append(lambda: callback(dict(offsets), error))
            self._open.discard(future)
            self._changes.tell()

        future = self.start(offsets, retry=False, timeout_ms=self._config.default_api_timeout_ms)
        self._open.add(future)
        future.add_done_callback(ended)

    @property
    def under_way(self) -> bool:
        """True if a commit of `commit_async` has no answer yet."""
        return bool(self._open)

    def run_callbacks(self) -> None:
        """Call the callbacks of commits that have ended. Raises FencedInstanceIdError if one of them was fenced."""
        while self._ended:
            self._ended.popleft()()
        if self._fenced is not None:
            error, self._fenced = self._fenced, None
            raise error

    # --- automatic commits ----------------------------------------------------------------------------------------

    def start_interval(self) -> None:
        """Begin a new auto_commit_interval_ms."""
        self._due_ms = self._network.now_ms() + self._config.auto_commit_interval_ms

    @property
    def next_ms(self) -> int | None:
        """The time of the next automatic commit (monotonic ms); None while one is under way, or if they are off."""
        return self._due_ms if self._config.enable_auto_commit and self._automatic is None else None

    def commit_if_due(self) -> None:
        """Send the automatic commit if it is due. Failures are retried soon; raises only FencedInstanceIdError."""
        running = self._automatic
        if running is not None:
            if not running.done():
                return
            self._automatic = None
            error = running.exception()
            if error is not None:
                log.warning("auto-commit failed: %s", error)
                if isinstance(error, FencedInstanceIdError):
                    raise error
                if isinstance(error, KafkaError) and error.retriable:
                    self._due_ms = self._network.now_ms() + self._config.retry_backoff_ms
        if not self._config.enable_auto_commit or self._network.now_ms() < self._due_ms:
            return
        self.start_interval()
        offsets = self.consumed()
        if not offsets:
            return
        with contextlib.suppress(KafkaError):
            self._automatic = self.start(offsets, retry=False, timeout_ms=self._config.default_api_timeout_ms)

    def commit_last(self, deadline_ms: int) -> None:
        """Commit before the consumer closes. Failures are logged; raises only WakeupError and FencedInstanceIdError."""
        try:
            self.commit(self.consumed(), max(0, deadline_ms - self._network.now_ms()))
        except KafkaError as error:
            if isinstance(error, WakeupError | FencedInstanceIdError):
                raise
            log.warning("the last commit failed: %s", error)
