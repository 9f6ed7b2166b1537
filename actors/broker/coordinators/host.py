"""A broker's coordinators of all kinds: their processes, which any kind may be given, and a hub for each kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from actors.broker.connections.connection import Connection
from actors.broker.connections.slots import Slot
from actors.broker.context import BrokerContext
from actors.broker.coordinators.history import ShardHistory
from actors.broker.coordinators.hub import ShardHub, Shared
from actors.broker.coordinators.link import Handle, LinkState, ShardLink
from actors.broker.coordinators.parking import Parking, Place
from actors.broker.coordinators.processes import Processes, WantProcesses
from actors.broker.coordinators.relaying import Relaying
from actors.broker.led import LedPartitions
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.coordinator_kinds.table import KINDS
from actors.links.relay import PAYLOADS, ChangedLevels, Figures, ForAll, Greeting, Kind, RelayProtocol
from actors.links.status import ShardStatus


class Coordinators(Mapping[CoordinatorKind, ShardHub]):
    """The hub of each kind, and the processes that they share. Everything runs on the broker's loop."""

    def __init__(
        self,
        context: BrokerContext,
        led: LedPartitions,
        want_spares: WantProcesses,
        kinds: Sequence[CoordinatorKind] = KINDS,
    ) -> None:
        self._context = context
        self.history = ShardHistory(context.chronicle)
        handlers: dict[int, Handle] = {Kind.HELLO: self._on_hello, Kind.PONG: self._on_pong}
        self.processes = Processes(
            context.config, context.environment.kernel, want_spares, self._assign, self._is_loading, handlers
        )
        self._relaying = Relaying(self.processes.links, context.counts.requests.failed)
        self._parking = Parking(
            context.config.integer("coterie.shard.wait.ms") / 1000,
            context.config.integer("coterie.shard.wait.max.requests"),
            context.config.integer("coterie.shard.wait.max.bytes"),
        )
        number = count(1).__next__  # of a slot, or of what has none but may be parked or pending like one
        shared = Shared(self.processes, self._relaying, self._parking, self.history, number, handlers)
        self._hubs = {kind: ShardHub(context, led, kind, shared) for kind in kinds}
        self._by_topic = {kind.topic: hub for kind, hub in self._hubs.items()}
        self._log_levels: ForAll | None = None  # as processes are told, once some were changed

    def __getitem__(self, kind: CoordinatorKind) -> ShardHub:
        return self._hubs[kind]

    def __iter__(self) -> Iterator[CoordinatorKind]:
        return iter(self._hubs)

    def __len__(self) -> int:
        return len(self._hubs)

    # --- what the rest of the broker calls ---

    def disconnected(self, connection: Connection, unanswered: list[Slot]) -> None:
        """A client has gone: its shards drop its open requests."""
        self._parking.forget(slot.id for slot in unanswered)
        self._relaying.disconnected(connection, unanswered, self.processes.links.values())

    def note_topics(self) -> None:
        """The image has changed."""
        for hub in self._hubs.values():
            hub.note_topics()

    def reload(self, topic: str, partition: int) -> None:
        """A log is not what it was. If it is a coordinator's, another process loads it."""
        hub = self._by_topic.get(topic)
        if hub is not None:
            hub.reload(partition)

    def set_log_levels(self, changed: Mapping[str, int]) -> None:
        """Have all processes, and those to come, log as this one does since its levels were changed."""
        self._log_levels = ForAll(ChangedLevels(changed))
        for protocol in self.processes.links:
            protocol.say(Kind.LOG_LEVELS, self._log_levels)

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a process that starts or loads."""
        return len(self._parking)

    def status(self, kind: CoordinatorKind) -> list[ShardStatus]:
        """The partitions of a kind that have a shard or sleep here, then the processes that host nothing."""
        spares = [ShardStatus(-1, link.pid, link.state.value, -1) for link in self.processes.spares]
        return self._hubs[kind].status() + spares

    def tick(self) -> None:
        """To be called once in a while: ping the shards, end one that has been silent for too long, and so on."""
        now = self._context.loop.time()
        self.processes.ping(now)
        for hub in self._hubs.values():
            hub.tick(now)
        self.processes.match()  # also asks again for spares, should the controller not have heard
        self.processes.end_surplus(now)

    def close(self) -> None:
        """Close the connections to all shards."""
        for hub in self._hubs.values():
            hub.loading.close()
        self.processes.close()

    # --- processes come, speak and go ---

    def accept(self) -> RelayProtocol:
        """The protocol of a process that connects. The Unix server calls this for each.

        Raises ConnectionAbortedError after `close`: asyncio's server still calls this for what it has accepted before.
        """
        if self.processes.closed:
            raise ConnectionAbortedError("this broker has ended")
        protocol = RelayProtocol(
            self._context.loop,
            self._relaying.received,
            self._on_turn,
            self._on_lost,
            self._context.environment.kernel.is_ours,
            self._relaying.backlog,
            self._context.config.integer("coterie.relay.queue.max.bytes"),
            accepts=True,
        )
        self.processes.connect(protocol)
        return protocol

    def _on_hello(self, link: ShardLink, spoken: int, _b: int, payload: bytes) -> None:
        greeting = PAYLOADS.read(Greeting, payload)
        if not link.protocol.greeted(spoken, greeting.code_version):
            return
        self.history.fold(link)
        link.greet(greeting.pid, greeting.name)
        if self._log_levels is not None:
            link.protocol.say(Kind.LOG_LEVELS, self._log_levels)
        self.processes.add_spare(link)

    def _on_pong(self, link: ShardLink, _a: int, _b: int, payload: bytes) -> None:
        link.figures = PAYLOADS.read(Figures, payload)

    def _on_turn(self, protocol: RelayProtocol) -> None:
        self.processes.heard(protocol)
        self._relaying.flush()

    def _on_lost(self, protocol: RelayProtocol) -> None:
        link = self.processes.lose(protocol)
        if link.kind is not None and link.partition >= 0:
            self._hubs[link.kind].lost(link)
        else:
            self._relaying.give_up(link, link.leave(LinkState.GONE))
        self.history.fold(link)
        if not self.processes.closed:
            self.processes.match()

    def _assign(self, link: ShardLink, place: Place) -> bool:
        return self._hubs[place.kind].assign(link, place.partition)

    def _is_loading(self) -> bool:
        return any(hub.loading.under_way for hub in self._hubs.values())
