"""Whether an offsets partition's shard can be asked, and what waits until it can."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from actors.broker.context import BrokerContext
from actors.broker.shards.parking import Parking, Settled
from actors.broker.shards.partitions import Partitions
from actors.broker.shards.processes import Processes
from actors.wire.errors import ErrorCode
from placement.metadata import OFFSETS_TOPIC


class Readiness:
    """Starts what is asked for, and lets requests wait for it. `flush` writes the answers of those it lets go."""

    def __init__(
        self, context: BrokerContext, partitions: Partitions, processes: Processes, flush: Callable[[], None]
    ) -> None:
        self._context = context
        self._partitions = partitions
        self._processes = processes
        self._flush = flush
        self._parking = Parking(
            context.config.integer("coterie.shard.wait.ms") / 1000,
            context.config.integer("coterie.shard.wait.max.requests"),
            context.config.integer("coterie.shard.wait.max.bytes"),
        )

    def start(self, partition: int, *, urgent: bool) -> None:
        """Have a process load the partition if none has it; before all others if that is urgent."""
        if partition not in self._partitions.links:
            self._processes.want(partition, urgent=urgent)

    def unavailable(self, partition: int) -> ErrorCode:
        """Why a partition's shard cannot be asked now; NONE if it can. One that should be here is started."""
        if OFFSETS_TOPIC not in self._context.metadata.topics:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not self._partitions.led(partition):
            return ErrorCode.NOT_COORDINATOR
        link = self._partitions.links.get(partition)
        if link is not None and link.active:
            return ErrorCode.NONE
        self.start(partition, urgent=True)
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def wait(self, partition: int, number: int, size: int, settled: Settled) -> None:
        """Call `settled` when a shard serves: now, or later if it is being started and there is room to wait."""
        code = self.unavailable(partition)
        starting = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if starting and self._parking.park(partition, number, size, settled, self._context.loop.time()):
            if partition not in self._partitions.links and not self._processes.is_wanted(partition):
                self.settle(partition, ErrorCode.COORDINATOR_NOT_AVAILABLE)  # its log could not be read
        else:
            settled(self._not_yet(partition) if starting else code)

    def settle(self, partition: int, code: ErrorCode) -> None:
        """Let all that waits for a partition go: to its shard (NONE), or answered."""
        self._parking.settle(partition, code)
        self._flush()

    def forget(self, numbers: Iterable[int]) -> None:
        """Nobody waits for these any more."""
        self._parking.forget(numbers)

    def look_after_waiting(self) -> None:
        """Requests for what is led elsewhere by now are sent on, those that have waited for too long are answered."""
        now = self._context.loop.time()
        for partition in reversed(self._parking.partitions()):  # what is wanted last gets the next process
            code = self.unavailable(partition)  # which starts what was given up meanwhile
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                self._parking.expire(partition, now, self._not_yet(partition))
            else:
                self._parking.settle(partition, code)
        self._flush()

    def _not_yet(self, partition: int) -> ErrorCode:
        """What is answered when nobody waits any longer: 14 means that a process is there and loads."""
        loading = partition in self._partitions.links
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.COORDINATOR_NOT_AVAILABLE
