"""A broker's side of one kind of coordinator: which shard process serves which partition, and the relay to each.

A process that connects to the broker's Unix socket is a spare until it is told to BECOME a partition. The broker reads
the log for it, appends for it, and passes requests and answers on. If a shard dies, or is silent for too long, the
broker answers NOT_COORDINATOR to its open requests and gives the partition to another spare. A shard that nobody needs
for a while gives its process back, and its partition sleeps until it is needed again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from actors.broker.connections.connection import Connection
from actors.broker.connections.slots import Slot
from actors.broker.context import BrokerContext
from actors.broker.coordinators.appending import Appending
from actors.broker.coordinators.describing import Describing
from actors.broker.coordinators.history import ShardHistory
from actors.broker.coordinators.idling import Idling
from actors.broker.coordinators.link import Handle, LinkState, Question, ShardLink
from actors.broker.coordinators.loading import Loading
from actors.broker.coordinators.parking import Parking
from actors.broker.coordinators.partitions import Keys, Partitions
from actors.broker.coordinators.processes import Processes
from actors.broker.coordinators.readiness import Readiness
from actors.broker.coordinators.relaying import Relaying
from actors.broker.coordinators.settings import SettingsNews
from actors.broker.coordinators.sleeping import Sleeper, Sleeping
from actors.broker.coordinators.topics import TopicNews
from actors.broker.coordinators.visible import VisibleTopics
from actors.broker.led import LedPartitions
from actors.coordinator.groups.messages import ListedGroup, MaySleepResponse
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.links.group_status import GroupStatus
from actors.links.rebalances import Rebalances
from actors.links.relay import PAYLOADS, Kind
from actors.links.status import ASLEEP, ShardStatus
from actors.runtime.logs import at
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import ApiMessage, response_class

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shared:
    """The parts that the hubs of one broker share."""

    processes: Processes
    relaying: Relaying
    parking: Parking
    history: ShardHistory
    number: Callable[[], int]
    """Numbers slots, and what has none but may be parked or pending like one."""
    handlers: Mapping[int, Handle]
    """The handlers of messages that have to do with no partition."""


class ShardHub:
    """All shards of one kind at one broker. Everything runs on the broker's loop. Only hubs and `Idling` move links."""

    def __init__(self, context: BrokerContext, led: LedPartitions, kind: CoordinatorKind, shared: Shared) -> None:
        self._context = context
        self.kind = kind
        self._topic = kind.topic
        self.keys = Keys(context, kind)
        self.partitions = Partitions(context, led, kind.topic)
        self.sleeping = Sleeping()
        self.loading = Loading(context, kind, self._load_failed)
        self._history = shared.history
        self._processes = shared.processes
        self._number = shared.number
        self._describing = Describing(context.loop, shared.number)
        self.idling = Idling(context.config, kind.sleep.idle_setting, shared.number, self._sleeps)
        appending = Appending(context, led, kind.topic, self.partitions)
        self._handlers: Mapping[int, Handle] = {
            **shared.handlers,
            Kind.APPEND: appending.append,
            Kind.LOAD_MORE: self.loading.send_more,
            Kind.ACTIVE: self._on_active,
            Kind.DESCRIBED: self._describing.described,
            Kind.RESTS: self.idling.answered,
            Kind.REBALANCES: self._on_rebalances,
            Kind.MATCHED: VisibleTopics(context).asked,
        }
        self._relaying = shared.relaying
        self._readiness = Readiness(
            context, kind, self.partitions, shared.processes, shared.parking, shared.relaying.flush
        )
        self._topics = TopicNews(context, kind.topic, self.partitions, self.sleeping)
        self._settings = SettingsNews(context, kind, self.partitions)
        self._never_parked = kind.requests.never_parked
        context.commits.subscribe(kind.topic, appending.watermark)
        # Methods that are called for every frame are called directly.
        self.partition_of = self.keys.partition_of
        self._serving = self.partitions.serving
        self._send = self._relaying.send

    # --- what the listener calls ---

    def relay(self, connection: Connection, partition: int, frame: bytes, version: int, api: int, corr: int) -> None:
        """Pass a client's request to the shard of `partition` as soon as it serves, or answer with an error."""
        slot = connection.slots.open(self._number(), api, version, corr)
        link = self._serving(partition)
        if link is not None:
            self._send(link, connection, slot, frame)
        elif api in self._never_parked:
            self._relaying.answer(self.kind, slot, frame, self._readiness.unavailable(partition))
        else:
            settled = partial(self._relay_or_answer, partition, slot, frame)
            self._readiness.wait(partition, slot.id, len(frame), settled)

    def _relay_or_answer(self, partition: int, slot: Slot, frame: bytes, code: ErrorCode) -> None:
        if code:
            self._relaying.answer(self.kind, slot, frame, code)
        else:
            self._send(self.partitions.links[partition], slot.queue.connection, slot, frame)

    # --- what handlers call (context.Shards) ---

    def ask(self, partition: int, message: ApiMessage, version: int, done: Callable[[ApiMessage], None]) -> None:
        """Send a request of the broker's own when the shard serves. `done` gets the answer, or an error answer."""
        response = response_class(message.api_key)

        def decoded(frame: bytes) -> None:
            done(decode_response(response, version, frame[4:])[1])

        self.ask_encoded(partition, message, version, 0, decoded)

    def ask_encoded(
        self, partition: int, message: ApiMessage, version: int, correlation_id: int, done: Callable[[bytes], None]
    ) -> None:
        """The same; `done` gets the answer's whole frame."""
        question, frame = self._question(message, version, correlation_id, done)
        number = self._number()

        def send() -> None:
            self._relaying.ask(self.partitions.links[partition], number, question, frame)

        self._ask_when_it_serves(partition, number, question, frame, send)

    def ask_for(
        self, slot: Slot, partition: int, message: ApiMessage, version: int, done: Callable[[bytes], None]
    ) -> None:
        """As `ask_encoded`, for the request of this slot: if its client goes, the shard is told, and `done` is not."""
        question, frame = self._question(message, version, slot.correlation_id, done)

        def send() -> None:
            self._relaying.ask_for(self.partitions.links[partition], slot, question, frame)

        self._ask_when_it_serves(partition, slot.id, question, frame, send)

    def _question(
        self, message: ApiMessage, version: int, correlation_id: int, done: Callable[[bytes], None]
    ) -> tuple[Question, bytes]:
        frame = encode_request(message, version, correlation_id, "coterie")[4:]
        rouses = message.api_key not in self.kind.requests.rouse_nobody
        return Question(type(message).__name__, done, rouses=rouses), frame

    def _ask_when_it_serves(
        self, partition: int, number: int, question: Question, frame: bytes, send: Callable[[], None]
    ) -> None:
        def settled(code: ErrorCode) -> None:
            if code:
                self._relaying.answer(self.kind, question, frame, code)
            else:
                send()

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
        """The partitions led here that have a shard, or records for which they need one. Sleepers have not."""
        topic = self._context.metadata.topics.get(self._topic)
        if topic is None:
            return []
        me = self._context.broker_id
        return [index for index, p in enumerate(topic.partitions) if p.leader == me and self._has_state(index)]

    def _has_state(self, partition: int) -> bool:
        known = partition in self.partitions.links or self._readiness.is_wanted(partition)
        return known or (self.partitions.has_records(partition) and partition not in self.sleeping)

    def asleep(self) -> list[ListedGroup]:
        """The groups of the partitions that sleep and are not being woken."""
        return [group for _, sleeper in self._asleep() for group in sleeper.rest.groups]

    def _asleep(self) -> list[tuple[int, Sleeper]]:
        links, is_wanted, led = self.partitions.links, self._readiness.is_wanted, self.partitions.led
        return [
            (partition, sleeper)
            for partition, sleeper in self.sleeping.items()
            if partition not in links and not is_wanted(partition) and led(partition)
        ]

    def note_topics(self) -> None:
        """The image changed: tell the shards of it, give up partitions led elsewhere, start those led here now."""
        metadata = self._context.metadata
        for partition, sleeper in self.sleeping.items():
            info = metadata.partition(self._topic, partition)
            if info is None or info.leader != self._context.broker_id or info.leader_epoch != sleeper.epoch:
                self.sleeping.drop(partition)
        self._settings.tell()
        if self._topics.tell():
            self.idling.topics_changed(self.partitions.links.values())
        for partition, link in list(self.partitions.links.items()):
            info = metadata.partition(self._topic, partition)
            if not self.partitions.led(partition) or info is None or info.leader_epoch != link.epoch:
                self._resign(link)
        for partition in self.led():
            self._readiness.start(partition, urgent=False)
        self._readiness.look_after_waiting()

    # --- the life of a link (LinkState has the table) ---

    def assign(self, link: ShardLink, partition: int) -> bool:
        """Give a partition to a spare. False if another broker leads it by now."""
        info = self._context.metadata.partition(self._topic, partition)
        if info is None or info.leader != self._context.broker_id:
            return False
        link.assign(self.kind, partition, info.leader_epoch, self._handlers)
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
            self._history.loaded(link, woken=partition in self.sleeping)
            self.sleeping.drop(partition)
            self._topics.forget(partition)
            log.info("%s: shard pid %d serves", link.where, link.pid, extra=link.fields())
        self._readiness.settle(partition, ErrorCode.NONE)
        self._processes.match()  # the next may load

    def _sleeps(self, link: ShardLink, rest: MaySleepResponse) -> None:
        """A shard is not needed now: its process is a spare again, or ends."""
        text = "%s: nobody needs shard pid %d, the partition sleeps"
        log.info(text, link.where, link.pid, extra=link.fields())
        sleeper = Sleeper(link.epoch, self._context.now_ms(), rest, self.kind.sleep.expires)
        self.sleeping.add(link.partition, sleeper)
        self._history.slept(link)
        self._give_up(link)

    def _resign(self, link: ShardLink) -> None:
        """Take a process's partition away, and answer its open requests. After its next HELLO it is a spare again.

        Until then it may still send messages for the old partition. They must not count for another one.
        """
        if link.partition >= 0:
            self._history.left(link)
        self._give_up(link)

    def _give_up(self, link: ShardLink) -> None:
        self._leave(link, LinkState.RESIGNED)
        link.protocol.send(Kind.RESIGN)

    def lost(self, link: ShardLink) -> None:
        """The process of a partition has closed its connection, or died."""
        partition, where = link.partition, link.where
        self._history.died(link)
        self._leave(link, LinkState.GONE)
        if self._processes.closed:
            return
        extra = at(self._topic, partition, pid=link.pid)
        log.warning("%s: shard pid %d has died", where, link.pid, extra=extra)
        if self.partitions.led(partition):
            self._readiness.start(partition, urgent=True)

    def _leave(self, link: ShardLink, state: LinkState) -> None:
        if link.partition >= 0:
            self.partitions.links.pop(link.partition, None)
            log.info("%s: shard pid %d no longer serves", link.where, link.pid, extra=link.fields())
        self.loading.stop(link)
        self._relaying.give_up(link, link.leave(state))

    def _on_rebalances(self, link: ShardLink, _a: int, _b: int, payload: bytes) -> None:
        self._history.take_rebalances(link, PAYLOADS.read(Rebalances, payload))

    # --- what the broker's clock calls ---

    def tick(self, now: float) -> None:
        """To be called once in a while: look after idle shards, those that have to be woken, and requests that wait."""
        self.idling.tick(self.partitions.links.values(), now)
        gone = [partition for partition, _ in self.sleeping.items() if self._topics.gone_from(partition)]
        for partition in self.sleeping.due(self._context.now_ms()) + gone:
            self._readiness.start(partition, urgent=False)
        self._readiness.look_after_waiting()

    def status(self) -> list[ShardStatus]:
        """The partitions of this broker that have a shard or sleep."""
        now = self._context.loop.time()
        rows = [
            ShardStatus(i, link.pid, link.state.value, link.epoch, self.idling.why_awake(link, now), link.figures)
            for i, link in self.partitions.links.items()
        ]
        rows += [ShardStatus(i, None, ASLEEP, sleeper.epoch, sleeper.why) for i, sleeper in self._asleep()]
        return sorted(rows, key=lambda row: row.partition)

    async def group_status(self, group_id: str, timeout_s: float) -> GroupStatus | None:
        """The shard's status of the group; None if there is no such group, or it is not served here.

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
