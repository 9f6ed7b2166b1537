"""A consumer's position in each of its partitions, and what was fetched ahead. No I/O.

Two threads meet here. Only the user's thread moves the position of a partition that has one, and takes chunks. The
background thread adds chunks, and gives first positions to partitions that have none, under the consumer's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from actors.client.errors import IllegalStateError
from actors.client.records import ConsumerRecord, OffsetAndMetadata, TopicPartition
from actors.records.batch import BatchHeader

LATEST = -1
EARLIEST = -2
RESET_TO = {"earliest": EARLIEST, "latest": LATEST, "none": None}
"""The offsets (as in ListOffsets) where auto_offset_reset has a partition begin; None: nowhere."""


@dataclass(slots=True)
class Chunk:
    """The whole batches that one fetch brought of one partition, or instead of them an error (`code`, at `offset`)."""

    token: int
    data: bytes = b""
    batches: deque[tuple[int, int, BatchHeader]] = field(default_factory=deque)
    aborted: list[tuple[int, int]] = field(default_factory=list)
    code: int = 0
    offset: int = -1


@dataclass(slots=True)
class PartitionState:
    """One assigned partition. `position` is the next offset to hand out, `fetch_at` the next to fetch.

    `token` grows whenever the position jumps: answers to what was asked under an older token are dropped. `topic_id` is
    the id of the topic that the position belongs to, b"" while it is not known.
    `is_recreation_raised`: an error has told the program that the topic is another one now.
    """

    tp: TopicPartition
    position: int | None = None
    epoch: int = -1
    topic_id: bytes = b""
    is_recreation_raised: bool = False
    fetch_at: int = -1
    fetch_epoch: int = -1
    token: int = 0
    paused: bool = False
    stopped: bool = False
    halted: bool = False
    from_committed: bool = False
    reset_to: int | None = None
    checked_epoch: int = -1
    retry_ms: int = 0
    busy: bool = False
    chunks: deque[Chunk] = field(default_factory=deque)
    # Bytes. Each is counted up by one thread only; if both changed one number, updates could be lost.
    added: int = 0
    used: int = 0
    preferred: tuple[int, int] = (-1, 0)
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    # The remaining records of the batch that is being handed out.
    ready: Iterator[ConsumerRecord] | None = None

    def seek(self, offset: int, epoch: int = -1) -> None:
        self._jump()
        self.position = self.fetch_at = offset
        self.epoch = self.fetch_epoch = epoch
        self.checked_epoch = -1

    def choose(self, offset: int) -> None:
        """Go on where the program wants. A position it had before it heard of a new topic is still one of the old."""
        if self.is_recreation_raised:
            self.topic_id, self.is_recreation_raised = b"", False
        self.seek(offset)

    def reset(self, timestamp: int) -> None:
        """Have the position found anew: at the log's beginning or end, or at a time."""
        self._forget()
        self.reset_to = timestamp

    def load(self) -> None:
        """Have the position found anew: at the committed offset."""
        self._forget()
        self.from_committed = True

    def let_go(self) -> None:
        """The partition is not assigned any more: drop what it has, and answers that are still to come."""
        self._jump()
        self.stopped = True

    def _forget(self) -> None:
        self._jump()
        self.position = None
        self.topic_id, self.is_recreation_raised = b"", False

    def _jump(self) -> None:
        self.token += 1
        self.chunks.clear()
        self.ready = None
        self.added = self.used = 0
        self.reset_to = None
        self.from_committed = False
        self.halted = False
        self.retry_ms = 0
        self.busy = False

    @property
    def deliverable(self) -> bool:
        return not (self.paused or self.stopped)

    @property
    def buffered(self) -> int:
        """The bytes that are fetched and not used up."""
        return self.added - self.used

    @property
    def lag(self) -> int | None:
        """The number of records that it has not handed out, as of the last fetch; None if not known."""
        if self.position is None or self.high_watermark < 0:
            return None
        return self.high_watermark - max(self.position, self.log_start_offset)

    def add(self, chunk: Chunk) -> None:
        self.added += len(chunk.data)
        self.chunks.append(chunk)


class Positions:
    """All assigned partitions, in the order in which they get their turn."""

    def __init__(self) -> None:
        self.states: dict[TopicPartition, PartitionState] = {}
        self.turn: deque[TopicPartition] = deque()
        self.topic_ids: dict[str, bytes] = {}
        """The topics that positions have been in, also those of partitions that are not assigned any more."""

    def of(self, partition: TopicPartition) -> PartitionState:
        """The state of a partition. Raises IllegalStateError if it is not assigned."""
        state = self.states.get(TopicPartition(*partition))
        if state is None:
            raise IllegalStateError(f"{partition} is not assigned to this consumer")
        return state

    def assign(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Keep the states of these partitions and drop all others. Returns the new ones, without position yet."""
        wanted = sorted(partitions)
        added = [PartitionState(tp) for tp in wanted if tp not in self.states]
        fresh = {state.tp: state for state in added}
        for tp, state in self.states.items():
            if tp not in wanted:
                state.let_go()
        self.states = {tp: fresh.get(tp) or self.states[tp] for tp in wanted}
        self.turn = deque(self.states)
        return added

    def place(self, state: PartitionState, topic_id: bytes) -> None:
        """The position of a partition is in this topic; b"" if that is not known."""
        state.topic_id = topic_id
        if topic_id:
            self.topic_ids[state.tp.topic] = topic_id

    def topic_id(self, partition: TopicPartition) -> bytes:
        """The id of the topic that the position in a partition belongs to; b"" if that is not known."""
        state = self.states.get(partition)
        return state.topic_id if state is not None else b""

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets to commit: the positions of all partitions that have one."""
        return {
            tp: OffsetAndMetadata(state.position, "", state.epoch)
            for tp, state in self.states.items()
            if state.position is not None
        }

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch and hand out nothing more of these partitions, until `go_on`."""
        for tp in partitions:
            if tp in self.states:
                self.states[tp].stopped = True

    def go_on(self) -> None:
        """Fetch and hand out records of all partitions again."""
        for state in self.states.values():
            state.stopped = False
