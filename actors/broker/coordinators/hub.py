"""A broker's side of its offsets partitions: which shard process serves which partition, and the relay to each.

A process that connects to the broker's Unix socket is a spare until it is told to BECOME a partition. The broker reads
the log for it, appends for it, and passes requests and answers on. If a shard dies, or is silent for too long, the
broker answers NOT_COORDINATOR to its open requests and gives the partition to another spare. A shard that nobody needs
for a while gives its process back, and its partition sleeps until it is needed again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count

from actors.broker.connection import Connection
from actors.broker.context import BrokerContext
from actors.broker.coordinators.appending import Appending
from actors.broker.coordinators.describing import Describing
from actors.broker.coordinators.history import ShardHistory
from actors.broker.coordinators.idling import Idling
from actors.broker.coordinators.link import LinkState, Question, ShardLink
from actors.broker.coordinators.loading import Loading
from actors.broker.coordinators.partitions import Groups, Partitions
from actors.broker.coordinators.processes import Processes, WantProcesses
from actors.broker.coordinators.readiness import Readiness
from actors.broker.coordinators.relaying import Handle, Relaying
from actors.broker.coordinators.sleeping import Sleeper, Sleeping
from actors.broker.coordinators.topics import TopicNews
from actors.broker.led import LedPartitions
from actors.broker.slots import Slot
from actors.coordinator.groups.messages import ListedGroup, MaySleepResponse
from actors.links.group_status import GroupStatus
from actors.links.rebalances import Rebalances
from actors.links.relay import PAYLOADS, ChangedLevels, Figures, Greeting, Kind, RelayProtocol
from actors.links.status import ASLEEP, ShardStatus
from actors.runtime.logs import at
from actors.wire.api_keys import ApiKey
from actors.wire.errors import ErrorCode
from actors.wire.framing import encode_request
from actors.wire.messages import ApiMessage, response_class
from placement.metadata import OFFSETS_TOPIC

log = logging.getLogger(__name__)

# Not parked: a shard that loads lets heartbeats pass and sends members that sync back to join, and so do we for it.
_NEVER_PARKED = (ApiKey.HEARTBEAT, ApiKey.SYNC_GROUP)


class ShardHub:
    """All shards of one broker. Everything runs on the broker's loop. Only the hub and `Idling` move links."""

    def __init__(self, context: BrokerContext, led: LedPartitions, want_spares: WantProcesses) -> None:
        self._context = context
        self.groups = Groups(context)
        self.partitions = Partitions(context, led)
        self.sleeping = Sleeping()
        self.history = ShardHistory(context.chronicle)
        self.loading = Loading(context, self._load_failed)
        self.processes = Processes(
            context.config, context.environment.kernel, want_spares, self._assign, lambda: self.loading.under_way
        )
        self._number = count(1).__next__  # of a slot, or of what has none but may be parked or pending like one
        self._describing = Describing(context.loop, self._number)
        self._idling = Idling(context.config.integer("coterie.shard.idle.ms") / 1000, self._number, self._sleeps)
        appending = Appending(context, led, self.partitions)
        handlers: dict[int, Handle] = {
            Kind.APPEND: appending.append,
            Kind.LOAD_MORE: self.loading.send_more,
            Kind.ACTIVE: self._on_active,
            Kind.PONG: self._on_pong,
            Kind.HELLO: self._on_hello,
            Kind.DESCRIBED: self._describing.described,
            Kind.RESTS: self._idling.answered,
            Kind.REBALANCES: self._on_rebalances,
        }
        self._relaying = Relaying(self.processes.links, handlers, context.counts.requests.failed)
        self._readiness = Readiness(context, self.partitions, self.processes, self._relaying.flush)
        self._topics = TopicNews(context, self.partitions, self.sleeping)
        self._log_levels = b""  # as processes are told, once some were changed
        context.commits.subscribe(OFFSETS_TOPIC, appending.watermark)
        # What is called for every frame is called directly.
        self.partition_of = self.groups.partition_of
        self._serving = self.partitions.serving
        self._send = self._relaying.send

    # --- what the listener calls ---

    def relay(self, connection: Connection, partition: int, frame: bytes, version: int, api: int, corr: int) -> None:
        """Pass a client's request to the shard of `partition` as soon as it serves, or answer with an error."""
        slot = connection.slots.open(self._number(), api, version, corr)
        link = self._serving(partition)
        if link is not None:
            self._send(link, connection, slot, frame)
        elif api in _NEVER_PARKED:
            self._relaying.answer(slot, frame, self._readiness.unavailable(partition))
        else:
            settled = partial(self._relay_or_answer, partition, slot, frame)
            self._readiness.wait(partition, slot.id, len(frame), settled)

    def _relay_or_answer(self, partition: int, slot: Slot, frame: bytes, code: ErrorCode) -> None:
        if code:
            self._relaying.answer(slot, frame, code)
        else:
            self._send(self.partitions.links[partition], slot.queue.connection, slot, frame)

    def disconnected(self, connection: Connection, unanswered: list[Slot]) -> None:
        """A client has gone: its shards drop its open requests."""
        self._readiness.forget(slot.id for slot in unanswered)
        self._relaying.disconnected(connection, unanswered, self.partitions.links.values())

    # --- what handlers call (context.Shards) ---

    def ask(self, partition: int, message: ApiMessage, version: int, done: Callable[[ApiMessage], None]) -> None:
        """Send a request of the broker's own when the shard serves. `done` gets the answer, or an error answer."""
        frame = encode_request(message, version, 0, "coterie")[4:]
        question = Question(response_class(message.api_key), version, done)
        number = self._number()

        def settled(code: ErrorCode) -> None:
            if code:
                self._relaying.answer(question, frame, code)
            else:
                self._relaying.ask(self.partitions.links[partition], number, question, frame)

        self._readiness.wait(partition, number, len(frame), settled)

    def await_serving(self, partition: int, done: Callable[[ErrorCode], None]) -> None:
        """Start the shard of a partition. `done` is called with NONE when it serves, or with the error if it does not.

        `done` is called at once, or later in a turn of its own. If it were called while other parked requests are let
        go, its answer could have more of its connection read, and those requests would overtake the parked ones.
        """
        if self._serving(partition) is not None:
            done(ErrorCode.NONE)
        else:
            self._readiness.wait(partition, self._number(), 0, lambda code: self._soon(done, code))

    def set_log_levels(self, changed: Mapping[str, int]) -> None:
        """Have all processes, and those to come, log as this one does since its levels were changed."""
        self._log_levels = PAYLOADS.encode(ChangedLevels(changed))
        for protocol in self.processes.links:
            protocol.send(Kind.LOG_LEVELS, payload=self._log_levels)

    def _soon(self, done: Callable[[ErrorCode], None], code: ErrorCode) -> None:
        self._context.loop.call_soon(done, code)

    def reload(self, partition: int) -> None:
        """The log is not what the shard of a partition knew: another process loads it."""
        link = self.partitions.links.get(partition)
        if link is not None:
            self._resign(link)
        elif partition not in self.sleeping:
            return
        self.sleeping.drop(partition)
        self._readiness.start(partition, urgent=True)

    def led(self) -> list[int]:
        """The offsets partitions led here that have a shard, or records for which they need one. Sleepers have not."""
        topic = self._context.metadata.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return []
        me = self._context.broker_id
        return [index for index, p in enumerate(topic.partitions) if p.leader == me and self._has_state(index)]

    def _has_state(self, partition: int) -> bool:
        known = partition in self.partitions.links or self.processes.is_wanted(partition)
        return known or (self.partitions.has_records(partition) and partition not in self.sleeping)

    def asleep(self) -> list[ListedGroup]:
        """The groups of the partitions that sleep and are not being woken."""
        return [group for _, sleeper in self._asleep() for group in sleeper.rest.groups]

    def _asleep(self) -> list[tuple[int, Sleeper]]:
        links, is_wanted, led = self.partitions.links, self.processes.is_wanted, self.partitions.led
        return [
            (partition, sleeper)
            for partition, sleeper in self.sleeping.items()
            if partition not in links and not is_wanted(partition) and led(partition)
        ]

    def note_topics(self) -> None:
        """The image changed: tell the shards of topics, give up partitions led elsewhere, start those led here now."""
        metadata = self._context.metadata
        for partition, sleeper in self.sleeping.items():
            info = metadata.partition(OFFSETS_TOPIC, partition)
            if info is None or info.leader != self._context.broker_id or info.leader_epoch != sleeper.epoch:
                self.sleeping.drop(partition)
        if self._topics.tell():
            self._idling.topics_changed(self.partitions.links.values())
        for partition, link in list(self.partitions.links.items()):
            info = metadata.partition(OFFSETS_TOPIC, partition)
            if not self.partitions.led(partition) or info is None or info.leader_epoch != link.epoch:
                self._resign(link)
        for partition in self.led():
            self._readiness.start(partition, urgent=False)
        self._readiness.look_after_waiting()

    # --- the life of a link (LinkState has the table) ---

    def accept(self) -> RelayProtocol:
        """The protocol of a process that connects. The Unix server calls this for each."""
        protocol = RelayProtocol(
            self._context.loop,
            self._relaying.received,
            self._on_turn,
            self._on_lost,
            self._context.environment.kernel.is_ours,
            self._relaying.backlog,
            self._context.config.integer("coterie.relay.queue.max.bytes"),
        )
        self.processes.connect(protocol)
        return protocol

    def _on_hello(self, link: ShardLink, _a: int, _b: int, payload: bytes) -> None:
        greeting = PAYLOADS.read(Greeting, payload)
        self.history.fold(link)
        link.greet(greeting.pid, greeting.name)
        if self._log_levels:
            link.protocol.send(Kind.LOG_LEVELS, payload=self._log_levels)
        self.processes.add_spare(link)

    def _assign(self, link: ShardLink, partition: int) -> bool:
        """Give a partition to a spare. False if another broker leads it by now."""
        info = self._context.metadata.partition(OFFSETS_TOPIC, partition)
        if info is None or info.leader != self._context.broker_id:
            return False
        link.assign(partition, info.leader_epoch)
        self.partitions.links[partition] = link
        self.loading.begin(link, self._topics.gone_from(partition))
        return True

    def _load_failed(self, link: ShardLink) -> None:
        """The log cannot be read now. It is tried again at a client's next request, not in an endless circle."""
        partition = link.partition
        self.sleeping.drop(partition)
        self._resign(link)
        self._readiness.settle(partition, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _on_active(self, link: ShardLink, partition: int, _number: int, _payload: bytes) -> None:
        if partition != link.partition:
            return  # it has been told to resign
        if not link.active:
            link.activate()
            self.history.loaded(link, woken=partition in self.sleeping)
            self.sleeping.drop(partition)
            self._topics.forget(partition)
            log.info("offsets partition %d: shard pid %d serves", partition, link.pid, extra=link.fields())
        self._readiness.settle(partition, ErrorCode.NONE)
        self.processes.match()  # the next may load

    def _sleeps(self, link: ShardLink, rest: MaySleepResponse) -> None:
        """A shard is not needed now: its process is a spare again, or ends."""
        log.info(
            "offsets partition %d: nobody needs shard pid %d, the partition sleeps",
            link.partition,
            link.pid,
            extra=link.fields(),
        )
        self.sleeping.add(link.partition, Sleeper(link.epoch, self._context.now_ms(), rest))
        self.history.slept(link)
        self._give_up(link)

    def _resign(self, link: ShardLink) -> None:
        """Take a process's partition away, and answer its open requests. After its next HELLO it is a spare again.

        Until then it may still send messages for the old partition. They must not count for another one.
        """
        if link.partition >= 0:
            self.history.left(link)
        self._give_up(link)

    def _give_up(self, link: ShardLink) -> None:
        self._leave(link, LinkState.RESIGNED)
        link.protocol.send(Kind.RESIGN)

    def _on_lost(self, protocol: RelayProtocol) -> None:
        link = self.processes.lose(protocol)
        partition = link.partition
        if partition >= 0:
            self.history.died(link)
        self._leave(link, LinkState.GONE)
        self.history.fold(link)
        if self.processes.closed:
            return
        if partition >= 0:
            log.warning(
                "offsets partition %d: shard pid %d has died",
                partition,
                link.pid,
                extra=at(OFFSETS_TOPIC, partition, pid=link.pid),
            )
            if self.partitions.led(partition):
                self._readiness.start(partition, urgent=True)
        self.processes.match()

    def _leave(self, link: ShardLink, state: LinkState) -> None:
        if link.partition >= 0:
            self.partitions.links.pop(link.partition, None)
            log.info(
                "offsets partition %d: shard pid %d no longer serves", link.partition, link.pid, extra=link.fields()
            )
        self.loading.stop(link)
        self._relaying.give_up(link, link.leave(state))

    def _on_pong(self, link: ShardLink, _a: int, _b: int, payload: bytes) -> None:
        link.figures = PAYLOADS.read(Figures, payload)

    def _on_rebalances(self, link: ShardLink, _a: int, _b: int, payload: bytes) -> None:
        self.history.told(link, PAYLOADS.read(Rebalances, payload))

    def _on_turn(self, protocol: RelayProtocol) -> None:
        self.processes.heard(protocol)
        self._relaying.flush()

    # --- what the broker's clock and its stop call ---

    def tick(self) -> None:
        """To be called once in a while: ping the shards, end one that has been silent for too long, and so on."""
        now = self._context.loop.time()
        self.processes.ping(now)
        self._idling.tick(self.partitions.links.values(), now)
        gone = [partition for partition, _ in self.sleeping.items() if self._topics.gone_from(partition)]
        for partition in self.sleeping.due(self._context.now_ms()) + gone:
            self._readiness.start(partition, urgent=False)
        self._readiness.look_after_waiting()
        self.processes.match()  # also asks again for spares, should the controller not have heard
        self.processes.end_surplus(now)

    @property
    def waiting(self) -> int:
        """How many requests wait for a process that starts or loads."""
        return self._readiness.waiting

    def status(self) -> list[ShardStatus]:
        """The partitions of this broker that have a shard or sleep, spares last."""
        now = self._context.loop.time()
        rows = [
            ShardStatus(i, link.pid, link.state.value, link.epoch, self._idling.why_awake(link, now), link.figures)
            for i, link in self.partitions.links.items()
        ]
        rows += [ShardStatus(i, None, ASLEEP, sleeper.epoch, sleeper.why) for i, sleeper in self._asleep()]
        rows.sort(key=lambda row: row.partition)
        return rows + [ShardStatus(-1, link.pid, link.state.value, -1) for link in self.processes.spares]

    async def group_status(self, group_id: str, timeout_s: float) -> GroupStatus | None:
        """What the shard knows of a group; None if there is no such group, or it is not served here.

        Raises TimeoutError if the shard does not answer, or dies before it has.
        """
        partition = self.partition_of(group_id.encode())
        async with asyncio.timeout(timeout_s):
            if partition in self.sleeping:
                await self._awake(partition)
            link = self._serving(partition)
            return None if link is None else await self._describing.ask(link, group_id)

    async def _awake(self, partition: int) -> None:
        """Wake a partition, and wait until it serves or cannot."""
        settled = asyncio.Event()
        self.await_serving(partition, lambda _: settled.set())
        await settled.wait()

    def close(self) -> None:
        """Close the connections to all shards."""
        self.loading.close()
        self.processes.close()
