"""Whether an offsets partition's shard can be asked, and the requests that wait until it can."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from actors.broker.context import BrokerContext
from actors.broker.coordinators.parking import Parking, Settled
from actors.broker.coordinators.partitions import Partitions
from actors.broker.coordinators.processes import Processes
from actors.wire.errors import ErrorCode
from placement.metadata import OFFSETS_TOPIC


class Readiness:
    """Starts the shards that are asked for, and has requests wait for them. `flush` writes the answers of a turn."""

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

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._parking)

    def start(self, partition: int, *, urgent: bool) -> None:
        """Have a process load the partition if none has it. `urgent`: somebody waits for it."""
        if partition not in self._partitions.links:
            self._processes.want(partition, urgent=urgent)

    def unavailable(self, partition: int) -> ErrorCode:
        """Why a partition's shard cannot be asked now; NONE if it can. Starts a shard that is missing here."""
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
        """Call `settled` when the shard serves: now, or later if it is being started and there is room to wait."""
        code = self.unavailable(partition)
        starting = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if starting and self._parking.park(partition, number, size, settled, self._context.loop.time()):
            if partition not in self._partitions.links and not self._processes.is_wanted(partition):
                self.settle(partition, ErrorCode.COORDINATOR_NOT_AVAILABLE)  # its log could not be read
        else:
            settled(self._not_yet(partition) if starting else code)

    def settle(self, partition: int, code: ErrorCode) -> None:
        """Let all requests that wait for a partition go: to its shard if `code` is NONE, else answered with it."""
        self._parking.settle(partition, code)
        self._flush()

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget requests whose clients have gone."""
        self._parking.forget(numbers)

    def look_after_waiting(self) -> None:
        """Answer requests whose partition is led elsewhere by now, and those that have waited for too long."""
        now = self._context.loop.time()
        for partition in self._parking.partitions():
            code = self.unavailable(partition)  # which starts what was given up meanwhile
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                self._parking.expire(partition, now, self._not_yet(partition))
            else:
                self._parking.settle(partition, code)
        self._flush()

    def _not_yet(self, partition: int) -> ErrorCode:
        """The answer after the wait: COORDINATOR_LOAD_IN_PROGRESS if a process loads the log, else NOT_AVAILABLE."""
        loading = partition in self._partitions.links
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.COORDINATOR_NOT_AVAILABLE
