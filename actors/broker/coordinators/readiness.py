"""The readiness of a partition's shard to be asked, and the requests that wait for it."""

from __future__ import annotations

from collections.abc import Callable

from actors.broker.context import BrokerContext
from actors.broker.coordinators.parking import Parking, Place, Settled
from actors.broker.coordinators.partitions import Partitions
from actors.broker.coordinators.processes import Processes
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.wire.errors import ErrorCode


class Readiness:
    """Starts the shards of a kind that are asked for, and has requests wait for them in `parking`, which kinds share.

    `flush` writes the answers of a turn.
    """

    def __init__(
        self,
        context: BrokerContext,
        kind: CoordinatorKind,
        partitions: Partitions,
        processes: Processes,
        parking: Parking,
        flush: Callable[[], None],
    ) -> None:
        self._context = context
        self._kind = kind
        self._partitions = partitions
        self._processes = processes
        self._parking = parking
        self._flush = flush

    def start(self, partition: int, *, urgent: bool) -> None:
        """Have a process load the partition if none has it. `urgent`: somebody waits for it."""
        if partition not in self._partitions.links:
            self._processes.want(Place(self._kind, partition), urgent=urgent)

    def is_wanted(self, partition: int) -> bool:
        """True if a partition waits for a process."""
        return self._processes.is_wanted(Place(self._kind, partition))

    def unavailable(self, partition: int) -> ErrorCode:
        """The reason why a partition's shard cannot be asked now, or NONE. Starts a shard that is missing here."""
        if self._kind.topic not in self._context.metadata.topics:
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
        place = Place(self._kind, partition)
        if starting and self._parking.park(place, number, size, settled, self._context.loop.time()):
            if partition not in self._partitions.links and not self._processes.is_wanted(place):
                self.settle(partition, ErrorCode.COORDINATOR_NOT_AVAILABLE)  # its log could not be read
        else:
            settled(self._not_yet(partition) if starting else code)

    def settle(self, partition: int, code: ErrorCode) -> None:
        """Let all requests that wait for a partition go: to its shard if `code` is NONE, else answered with it."""
        self._parking.settle(Place(self._kind, partition), code)
        self._flush()

    def look_after_waiting(self) -> None:
        """Answer requests whose partition is led elsewhere by now, and those that have waited for too long."""
        now = self._context.loop.time()
        for place in self._parking.places():
            if place.kind is not self._kind:
                continue
            code = self.unavailable(place.partition)  # this starts a process again that was given up meanwhile
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                self._parking.expire(place, now, self._not_yet(place.partition))
            else:
                self._parking.settle(place, code)
        self._flush()

    def _not_yet(self, partition: int) -> ErrorCode:
        """The answer after the wait: COORDINATOR_LOAD_IN_PROGRESS if a process loads the log, else NOT_AVAILABLE."""
        loading = partition in self._partitions.links
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.COORDINATOR_NOT_AVAILABLE
