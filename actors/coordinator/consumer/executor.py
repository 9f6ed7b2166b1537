"""Runs what is to be done to consumer groups: of each group one operation after another.

Nothing may depend on what has not committed (coordinator/writer.py). So while records of a group are under way, what
comes for it waits; when they have committed, what waits is run on one draft and appended as one write, which is taken
or refused as a whole. A heartbeat that changes nothing is answered at once, if nothing of its group is under way.
Groups do not wait for one another. A large one is worked on for a moment in each turn, while its target is computed as
well as while very many wait; its records are appended when an operation is complete, so nobody sees half of one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from actors.coordinator.assignors.slices import Pace
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.history import History
from actors.coordinator.consumer.messages import Refusal
from actors.coordinator.consumer.operations import AGAIN, Answer, Cluster, Draft, Drafted, Operation
from actors.coordinator.consumer.replaced import Replaced
from actors.coordinator.consumer.resolutions import Resolutions
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.timing import Timing
from actors.coordinator.errors import Error
from actors.coordinator.groups.durable import GroupChange
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.records import Record, encode
from actors.coordinator.turn import Now
from actors.coordinator.writer import Write

SLICE_PAUSE_MS = 1
"""A computation goes on in the next turn."""
TURN_WORK = 1_000
"""Operations share a write, and a turn, up to about so much work. It takes about ten milliseconds."""
BYTES_A_PARTITION = 8
"""The size of a partition in a record, about."""
MANY = 1_000
"""After a write of more records than these, groups go on in the next turn."""
TOO_LARGE = Error.UNKNOWN_SERVER_ERROR
"""The error of a write that the log does not take because of its size."""
WRITE_SHARE = 2
"""Operations that wait share a write of at most the largest append by so much. One alone may have all of it."""


class Executor:
    """Runs the operations on a shard's consumer groups."""

    def __init__(self, runtime: GroupRuntime, cluster: Cluster) -> None:
        self.runtime = runtime
        self.cluster = cluster
        self.timing = Timing(runtime.timers, cluster, self.submit)
        self.resolutions = Resolutions(runtime)
        self._history = History(runtime)

    def submit(self, group: ConsumerGroup, operation: Operation, now: Now) -> None:
        """Have something done to a group, now or after what is under way."""
        group.waiting.append(operation)
        self.proceed(group, now)

    def proceed(self, group: ConsumerGroup, now: Now) -> None:
        """Run what waits, unless something of the group is under way. Drop the group if nothing has come of it."""
        while group.waiting and not group.is_busy and self.cluster.topics is not None:
            group.is_busy = True
            OperationBatch(self, group, now).run(now)
        if group.is_vacant:
            self.runtime.reap(group.group_id)

    def restore(self, group: ConsumerGroup, replaced: Replaced, now: Now, undone: Iterable[Operation] = ()) -> None:
        """Put the group of the other type back, for nothing of this one was written.

        The operations that wait are for that one, and so are those that were to be written with the rest.
        """
        self.runtime.cancel_timers(group)
        self.runtime.groups[group.group_id] = replaced.group
        replaced.back(now)
        self._ask_again(undone, group, now)

    def _ask_again(self, first: Iterable[Operation], group: ConsumerGroup, now: Now) -> None:
        """Have these, and what waits for a group that is none any more, done to the one in its place."""
        operations = [*first, *group.waiting]
        group.waiting.clear()
        for operation in operations:
            if operation.token is not None:
                self.runtime.again(operation.token, operation.request, now)

    def answer(self, operation: Operation, answer: Answer) -> None:
        """Answer who has asked for an operation, if somebody has."""
        if operation.token is not None:
            response = operation.answer_of(answer) if isinstance(answer, Refusal) else answer
            self.runtime.answer(operation.token, response)

    # -- what becomes of a write

    def committed(self, group: ConsumerGroup, done: list[Done], now: Now) -> None:
        """Set timers and answer, then go on."""
        group.rests.clear()
        if group.replaced is not None:
            replaced, group.replaced = group.replaced, None
            replaced.gone(now)
        for each in done:
            self.timing.committed(group, each.changes, each.draft.now)
        drafts = [each.draft for each in done if each.changes]
        if done[-1].draft.has_ended:
            self._history.ended(group, drafts)
            self._hand_over(group, done, now)
            return
        self._history.committed(group, drafts, now)
        for each in done:
            self.answer(each.operation, each.answer)
        if sum(len(each.changes) for each in done) > MANY:
            group.written = None
            self.pause(group, partial(self._go_on, group), now)
        else:
            self._go_on(group, now)

    def _hand_over(self, group: ConsumerGroup, done: list[Done], now: Now) -> None:
        """A group of another type is in the place of this one now. The operations that wait here are for that one."""
        self.runtime.cancel_timers(group)
        self.runtime.resume(group.group_id, now)
        done[-1].draft.handed_over(now)
        for each in done:
            if each.answer is not AGAIN:
                self.answer(each.operation, each.answer)
        self._ask_again([each.operation for each in done if each.answer is AGAIN], group, now)

    def failed(self, group: ConsumerGroup, done: list[Done], error: int, now: Now) -> None:
        """Nothing has changed, but what is under way may be about topics as they were."""
        group.topics_changed()
        operations = [each.operation for each in done]
        self.timing.failed(group, operations, now)
        if group.replaced is None:
            for operation in operations:
                self.answer(operation, Refusal(error))
            self._go_on(group, now)
            return
        # The first one is that of the member that joins, whose records these are with those of the whole group.
        self.answer(operations[0], _cannot_replace(group.group_id) if error == TOO_LARGE else Refusal(error))
        self.restore(group, group.replaced, now, operations[1:])

    def pause(self, group: ConsumerGroup, go_on: Callable[[Now], None], now: Now) -> None:
        """Go on with a group in the next turn."""
        self.runtime.timers.start(group.slice, now.monotonic_ms + SLICE_PAUSE_MS, go_on)

    def _go_on(self, group: ConsumerGroup, now: Now) -> None:
        group.is_busy = group.is_stuck = False
        group.written = group.becomes = None
        self.proceed(group, now)

    def timed_out(self, group: ConsumerGroup, done: list[Done]) -> None:
        """Nobody waits any longer for the outcome, nor for what would come after it."""
        group.is_stuck = True
        for each in done:
            self.answer(each.operation, Refusal(Error.COORDINATOR_NOT_AVAILABLE))
        for operation in [each for each in group.waiting if each.token is not None]:
            group.waiting.remove(operation)
            self.answer(operation, Refusal(Error.COORDINATOR_NOT_AVAILABLE))


def _cannot_replace(group_id: str) -> Refusal:
    """Kafka's error for all other groups that cannot be upgraded. Most clients give up at UNKNOWN_SERVER_ERROR."""
    text = f"Group {group_id} cannot become a consumer group: the log does not take so large a write."
    return Refusal(Error.GROUP_ID_NOT_FOUND, text)


class Done(NamedTuple):
    """An operation that has been run, and its answer, which waits for the records."""

    operation: Operation
    answer: Answer
    draft: Draft
    changes: list[GroupChange]
    """Empty if it was refused."""


class OperationBatch:
    """The operations of one write, each run on what those before it have made of the group."""

    def __init__(self, executor: Executor, group: ConsumerGroup, now: Now) -> None:
        self._executor = executor
        self._group = group
        self._made = Drafted(group.state.draft())
        self._done: list[Done] = []
        self._records: list[Record] = []
        self._size_bytes = 0
        self._pace = Pace(TURN_WORK)
        self._start(now)

    @property
    def operations(self) -> list[Operation]:
        """The operations that were begun and are not answered: the one that runs, and those whose records wait."""
        return [self._operation, *(each.operation for each in self._done)]

    def _start(self, now: Now) -> None:
        group = self._group
        self._operation = group.waiting.popleft()
        self._draft = Draft(
            group.group_id,
            self._made.persisted,
            self._executor.cluster,
            now,
            must_look_at_topics=group.must_look_at_topics(now, self._made.persisted),
        )
        replaced = None if self._records else group.replaced
        self._before: Sequence[GroupChange] = () if replaced is None else replaced.changes
        self._draft.must_raise = replaced is not None and not replaced.is_settled
        self._parts = Pace()
        self._steps = self._carried_out()

    def run(self, now: Now) -> None:
        """Run until nothing waits or the write is full; if there is much to do, go on in the next turn."""
        while True:
            self._draft.latest = now
            try:
                next(self._steps)
            except StopIteration as end:
                if not end.value or not self._group.waiting:
                    break
                is_full = self._pace.full(self._draft.work)
                if is_full and self._records:
                    break
                self._start(now)
                if not is_full:
                    continue
            self._executor.pause(self._group, self.resume, now)
            return
        self._finish(now)

    def resume(self, now: Now) -> None:
        """Go on with what `run` has left."""
        self.run(now)
        self._executor.proceed(self._group, now)

    def _carried_out(self) -> Generator[None, None, bool]:
        """Run the operation and take what it makes, if there is room. Returns whether more may follow."""
        answer = yield from self._operation.steps(self._draft)
        changes = [] if isinstance(answer, Refusal) else [*self._before, *self._draft.changes]
        records, size_bytes = yield from self._encoded(changes)
        limit = self._executor.runtime.config.max_message_bytes // WRITE_SHARE
        if self._records and records and self._size_bytes + size_bytes > limit:
            self._group.waiting.appendleft(self._operation)
            return False
        if not isinstance(answer, Refusal):
            self._note()
        if self._draft.work > TURN_WORK and not isinstance(answer, Refusal):
            self._made = self._draft.drafted  # keeping it costs less than to do all that again
        else:
            for change in changes[len(self._before) :]:
                change.apply(self._made)
        self._records += records
        self._size_bytes += size_bytes
        if self._records:
            self._done.append(Done(self._operation, answer, self._draft, changes))
        else:
            self._executor.answer(self._operation, answer)
        is_over = self._draft.has_ended or (self._group.replaced is not None and not self._records)
        return not is_over

    def _encoded(self, changes: list[GroupChange]) -> Generator[None, None, tuple[list[Record], int]]:
        records: list[Record] = []
        size_bytes = 0
        for change in changes:
            for record in encode([change]):
                records.append(record)
                size_bytes += len(record.key) + len(record.value or b"")
            if self._parts.full(2 + len(record.value or b"") // BYTES_A_PARTITION):
                yield
        return records, size_bytes

    def _note(self) -> None:
        """The signs of life and the look at topics stay, whether an operation's records are written or not."""
        if self._draft.heard:
            self._executor.timing.heard(self._group, self._draft.heard, self._draft.now)
        if self._draft.has_looked_at_topics:
            self._group.has_looked_at_topics(self._draft.now)
        if self._draft.has_looked_at_topics or not self._draft.must_look_at_topics:
            self._group.topics_seen = self._draft.image_number  # topics may be others by now
        if self._draft.must_resolve:
            self._executor.resolutions.begin(self._group, self._draft, self._operation.token)
        self._draft.noted()

    def _finish(self, now: Now) -> None:
        if not self._records:
            self._group.is_busy = False
            if self._group.replaced is not None:
                self._executor.restore(self._group, self._group.replaced, now)
            return
        made = self._made.persisted
        self._group.written = made if isinstance(made, ConsumerState) else None
        self._group.becomes = self._done[-1].draft.becomes
        write = GroupWrite(self._executor, self._group, self._done)
        keys = [record.key for record in self._records]
        values = [record.value for record in self._records]
        self._executor.runtime.writer.submit(write, keys, values, self._size_bytes, now)


class GroupWrite(Write):
    """The records of operations on one group, and their answers."""

    __slots__ = ("_executor", "_group", "done")

    def __init__(self, executor: Executor, group: ConsumerGroup, done: list[Done]) -> None:
        super().__init__([change for each in done for change in each.changes])
        self._executor = executor
        self._group = group
        self.done = done
        """The operations, which are answered when the records have committed."""

    def committed(self, now: Now) -> None:
        self._executor.committed(self._group, self.done, now)

    def failed(self, error: int, now: Now) -> None:
        self._executor.failed(self._group, self.done, error, now)

    def timed_out(self, now: Now) -> None:
        self._executor.timed_out(self._group, self.done)
