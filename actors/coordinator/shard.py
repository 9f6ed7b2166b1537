"""A coordinator shard: one partition of a coordinator's topic, and what is kept in it.

The driver (an actor, or a test) owns the socket, the clock and the log. In each turn it hands over what has
arrived, calls `on_time`, then takes what there is to append and to answer:

    for token, request in arrived:
        shard.handle(token, request, now)
    shard.on_time(now)
    while append := shard.take_records():
        ...                                   # to the log, in this order
    for token, response in shard.take_replies():
        ...

The driver reports the outcome of each append, in their order, by `appended` or `append_refused`, and every move of the
high watermark by `high_watermark`. If an outcome is unknown it calls `forget`. If `needs_reload` is set after any call,
it has the shard load its log again. Every token is answered exactly once, unless it is dropped.

The shard knows nothing of what it coordinates. `Coordinator` says what it needs of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from actors.coordinator.errors import Error
from actors.coordinator.loading import Durable, Loader
from actors.coordinator.metrics import Metrics
from actors.coordinator.records import CorruptRecordError, Records, RecordTypes
from actors.coordinator.runtime import Runtime
from actors.coordinator.turn import Handle, Now, Request, Token
from actors.coordinator.writer import Append, UnexpectedLogEndError, WriteLimits

LATE_TURN_MS = 500
"""A turn that is later than this is our own stall: clients get the time back."""


class ShardState(StrEnum):
    UNLOADED = "Unloaded"
    """Not led here. Ends when loading starts."""
    LOADING = "Loading"
    """Reading its log. Ends when the log has been read and all of it has committed."""
    ACTIVE = "Active"
    """Serving. Ends when leadership goes, or when the outcome of a write is unknown."""
    FAILED = "Failed"
    """Its log could not be read. Ends at the next election."""


_ACTIVE = ShardState.ACTIVE  # to look up an enum's member costs more


class Coordinator(Protocol):
    """A coordinator as its shard hosts it: the requests of its kind, its durable state and its live state.

    It gets a `Runtime`, through which it answers, writes and sets timers. The shard calls it in this order: `adopt`
    when the log has been read, `start` when all of that has committed, then requests' handlers; `forget` at any time.
    """

    record_types: RecordTypes

    @property
    def handlers(self) -> Mapping[type, Handle]:
        """The handler of each type of request while the shard serves."""

    def new_state(self) -> Durable:
        """The durable state of an empty log."""

    def adopt(self, state: Any) -> None:
        """Take a durable state that was loaded. From now on only committed writes change it, by its `replay`."""

    def start(self, now: Now) -> None:
        """All that was loaded has committed: make the live state of it, and begin to serve."""

    def forget(self) -> None:
        """Drop all state, durable and live. Requests that are parked have been answered."""

    def unavailable(self, request: Any, *, loading: bool) -> Any:
        """The answer to a request that comes while the shard does not serve."""

    def give_back(self, ms: int) -> None:
        """This process stood still for so long and heard nobody: move the deadlines of clients on."""


C = TypeVar("C", bound=Coordinator)


class Shard(Generic[C]):
    """One coordinator shard; the module says how to drive it. `make` makes the coordinator that it hosts."""

    def __init__(self, limits: WriteLimits, make: Callable[[Runtime], C]) -> None:
        self.state = ShardState.UNLOADED
        self.epoch = -1
        self.needs_reload = False
        """True if the log differs from what this shard knew. It has dropped its state and has to load again."""
        self.failure = ""
        """The reason why the log could not be read; empty unless the state is Failed."""
        self._runtime = Runtime(limits)
        self.coordinator = make(self._runtime)
        self._handlers = self.coordinator.handlers
        self._loader = self._new_loader()
        self._loading_since_ms: int | None = None
        self._high_watermark = 0
        self._active_from: int | None = None
        """The log end offset that has to commit before the state is Active."""

    def _new_loader(self) -> Loader[Durable]:
        return Loader(self.coordinator.new_state(), self.coordinator.record_types)

    # -- loading and unloading

    def start_loading(self, epoch: int, now: Now | None = None) -> None:
        """Begin to load: this partition is led here at `epoch`. Its log follows by `load`; `now` is for the metrics.

        Raises ValueError for an epoch older than one already seen.
        """
        if epoch < self.epoch:
            raise ValueError(f"epoch {epoch} is older than {self.epoch}")
        self._drop(Error.NOT_COORDINATOR)
        self.epoch = epoch
        self.state = ShardState.LOADING
        self.needs_reload = False
        self._loader = self._new_loader()
        self._loading_since_ms = now.monotonic_ms if now else None
        self._high_watermark = 0

    def load(self, records: Records) -> None:
        """Take the next records of the log, from its start on, including those that have not committed yet."""
        self._load(lambda loader: loader.add(records))

    def load_transactional(self, producer_id: int, records: Records) -> None:
        """As `load`, for the records of a transactional batch: what they say is pending until the marker.

        If the marker never comes, that stays pending until it is deleted: no producer can end a transaction here.
        """
        self._load(lambda loader: loader.add_transactional(producer_id, records))

    def load_marker(self, producer_id: int, *, committed: bool) -> None:
        """As `load`, for the marker that ends a transaction."""
        self._load(lambda loader: loader.add_marker(producer_id, committed))

    def _load(self, take: Callable[[Loader[Durable]], object]) -> bool:
        """Have the loader take something; False if the shard is not, or no longer, loading."""
        if self.state is ShardState.LOADING:
            try:
                take(self._loader)
                return True
            except CorruptRecordError as corrupt:
                self.state, self.failure = ShardState.FAILED, str(corrupt)
        return False

    def finish_loading(self, now: Now, log_end_offset: int, high_watermark: int | None = None) -> None:
        """The log has been read up to `log_end_offset`.

        The shard serves once all of it has committed: at once if no `high_watermark` is given, else when
        that reaches the log's end, so that nothing it answers can be rolled back by another election.
        """
        if not self._load(Loader.finish):
            return
        loader, self._loader = self._loader, self._new_loader()
        self.metrics.records_loaded += loader.records
        self.metrics.unknown_records += loader.unknown_records
        self.coordinator.adopt(loader.state)
        self._runtime.writer.start(loader.state.replay, log_end_offset)
        self._active_from = log_end_offset
        reached = log_end_offset if high_watermark is None else high_watermark
        self._activate(max(reached, self._high_watermark), now)

    def _activate(self, high_watermark: int, now: Now) -> None:
        if self._active_from is None or high_watermark < self._active_from:
            return
        self._active_from = None
        self.state = ShardState.ACTIVE
        if self._loading_since_ms is not None:
            self.metrics.load_time_ms = now.monotonic_ms - self._loading_since_ms
        self.coordinator.start(now)

    def unload(self) -> None:
        """This partition is led elsewhere now: answer NOT_COORDINATOR to all that is parked, and drop everything."""
        self._drop(Error.NOT_COORDINATOR)
        self.state = ShardState.UNLOADED
        self.needs_reload = False

    def forget(self) -> None:
        """The outcome of a write is unknown: answer NOT_COORDINATOR to all that is parked, and ask for a reload."""
        if self.state is ShardState.ACTIVE:
            self.unload()
            self.needs_reload = True

    def _drop(self, error: Error) -> None:
        runtime = self._runtime
        runtime.refuse_all(error)
        runtime.timers.clear()
        runtime.writer.forget()
        self.coordinator.forget()
        self._active_from = None

    # -- requests

    def handle(self, token: Token, request: Request, now: Now) -> None:
        """Answer `request`, now or later, through `take_replies`."""
        if self.state is _ACTIVE:
            self._handlers[type(request)](token, request, now)
        else:
            answer = self.coordinator.unavailable(request, loading=self.state is ShardState.LOADING)
            self._runtime.replies.append((token, answer))

    def take_replies(self) -> list[tuple[Token, Any]]:
        """The answers since the last call, in the order in which they were given."""
        replies = self._runtime.replies
        taken = replies[:]
        replies.clear()
        return taken

    def drop(self, belongs: Callable[[Token], bool]) -> None:
        """A client has gone: requests whose token `belongs` to it are never answered, but still carried out."""
        runtime = self._runtime
        for token in [token for token in runtime.unanswered if belongs(token)]:
            del runtime.unanswered[token]
        runtime.replies[:] = [reply for reply in runtime.replies if not belongs(reply[0])]

    # -- the log

    def take_records(self) -> Append | None:
        """The next append, to be made atomically, or None.

        Call until it is None: a turn that wrote more than one batch takes makes several.
        """
        return self._runtime.writer.take()

    def appended(self, batch_id: int, base_offset: int, next_offset: int, now: Now) -> None:
        """The log has taken this append at [base_offset, next_offset)."""
        if self.state is _ACTIVE:
            try:
                self._runtime.writer.appended(batch_id, base_offset, next_offset, now)
            except UnexpectedLogEndError:
                self.forget()

    def append_refused(self, batch_id: int, error_code: int, now: Now) -> None:
        """Nothing of this append was written, for a reason given as one of Kafka's codes."""
        if self.state is _ACTIVE:
            try:
                self._runtime.writer.refused(batch_id, error_code, now)
            except UnexpectedLogEndError:
                self.forget()

    def high_watermark(self, offset: int, now: Now) -> None:
        """All of the log below `offset` has committed."""
        if self.state is _ACTIVE:
            self._runtime.writer.high_watermark(offset, now)
        elif self.state is ShardState.LOADING:
            self._high_watermark = max(self._high_watermark, offset)
            self._activate(offset, now)

    # -- time

    def next_deadline(self) -> int | None:
        """The time at which `on_time` has something to do (monotonic ms); None if never."""
        return self._runtime.timers.next_due_ms()

    def on_time(self, now: Now) -> None:
        """Do what is due. To be called after the input of the turn has been handled.

        If the turn is late, this process stood still and could not hear its clients: they get the time back.
        """
        due_ms = self._runtime.timers.next_due_ms()
        if due_ms is None or due_ms > now.monotonic_ms:
            return
        if now.monotonic_ms - due_ms > LATE_TURN_MS:
            self.metrics.late_turns += 1
            # A moment more, or the first ones would expire in this turn although their input is unread.
            self.coordinator.give_back(now.monotonic_ms - due_ms + LATE_TURN_MS)
        for timer in self._runtime.timers.pop_due(now.monotonic_ms):
            timer.action(now)

    @property
    def metrics(self) -> Metrics:
        """The counters of the host; what it hosts has its own."""
        return self._runtime.metrics
