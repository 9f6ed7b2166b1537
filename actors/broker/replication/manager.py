"""The replicas of one broker: which partitions it leads and follows, and who has to hear of what.

Everything runs on the broker's loop. All that was appended in one turn leaves in one frame a follower.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from actors.broker.context import BrokerContext
from actors.broker.replication.followers import Followers
from actors.broker.replication.links import FollowerLink, FollowerListener
from actors.broker.replication.proposals import Proposals
from actors.broker.replication.waiting import Key, Waiter, Waiting
from actors.links.replication import Row, ack_row, push_row, read_ack, read_push
from actors.log.errors import LogError
from actors.log.replication import Ack, LeaderLog, LeaderReplica, NoLog, Push
from actors.wire.errors import ErrorCode
from placement.metadata import OFFSETS_TOPIC, ClusterMetadata, PartitionInfo

log = logging.getLogger(__name__)

_NO_LOG = NoLog()
_FRAME_BYTES = 1 << 20
_RETRY_MS = 2000  # without an answer, a follower is asked again
_REFUSED_RETRY_MS = 500  # sooner after a refusal, or a read that failed: all that is in sync waits for it


class ReplicaManager:
    """Replicas with more than one holder. What only this broker holds needs none of this."""

    def __init__(
        self,
        context: BrokerContext,
        secret: Callable[[], bytes],
        broker_epoch: Callable[[], int],
        controller_confirmed_at: Callable[[], float],
    ) -> None:
        self._context = context
        self._secret = secret
        self._broker_epoch = broker_epoch
        self._controller_confirmed_at = controller_confirmed_at
        self._lease_seconds = context.config.integer("broker.session.timeout.ms") / 1000
        self._leaders: dict[Key, LeaderReplica] = {}
        self._topic_ids: dict[Key, bytes] = {}  # of what we lead
        self._followers = Followers(context)
        self._links: dict[int, FollowerLink] = {}
        self._waiting = Waiting()  # for the high watermark
        self._deleting = Waiting()  # for the log's start, on all that is in sync
        self._proposals = Proposals(context, self._leaders, broker_epoch, self._committed)
        self._rounds = count(1)  # of all that is pushed from here
        self._dirty: dict[int, dict[Key, None]] = {}  # by follower: partitions it may have to hear of
        self._untold: dict[Key, None] = {}  # their watermarks moved since the last tick
        self._flush_scheduled = False
        self._telling = False
        self._registered = False
        self._listener = FollowerListener(context.broker_id, broker_epoch, secret, self._take_pushes, self._pong)

    async def listen(self, host: str) -> int:
        """Take pushes on any free port of `host`; the port."""
        return await self._listener.listen(host)

    def stop_following(self) -> None:
        """Take no more pushes: nobody shall count on this broker any longer."""
        self._listener.pause()

    def follow_again(self) -> None:
        """Take pushes after all: leaders come again by themselves."""
        self._listener.paused = False

    def close(self) -> None:
        """Hang up everywhere."""
        self._listener.close()
        for link in self._links.values():
            link.close()
        self._links.clear()

    def _now_ms(self) -> int:
        return int(self._context.loop.time() * 1000)

    # --- the controller's news ---

    def apply(self, metadata: ClusterMetadata) -> None:
        """Take over an image: lead, follow or forget what it says."""
        me = self._context.broker_id
        peers: set[int] = set()
        known = set(self._leaders)
        for name, topic in metadata.topics.items():
            for index, partition in enumerate(topic.partitions):
                if len(partition.replicas) < 2 or me not in partition.replicas:
                    continue
                key = (name, index)
                if partition.leader == me:
                    peers.update(partition.replicas)
                    known.discard(key)
                    self._lead(key, topic.id, partition)
                else:
                    self._followers.note(key, topic.id, partition.leader_epoch)
        for key in known:
            self._stop_leading(key)
        self._followers.forget_gone(metadata)
        self._registered = True
        self._connect_to(peers - {me}, metadata)

    def _lead(self, key: Key, topic_id: bytes, partition: PartitionInfo) -> None:
        leader = self._leaders.get(key)
        if leader is not None and leader.leader_epoch == partition.leader_epoch and self._is_current(key, topic_id):
            self._update(key, leader, partition)
            return
        if leader is not None:
            self._stop_leading(key)
        if self._followers.epoch(key, topic_id) > partition.leader_epoch:
            return  # a newer leader has pushed to us already: this image is older than its
        # Where there is nothing to show, and nobody to show it to, leading begins with the first record.
        data_dir = self._context.data_dir
        here = key in data_dir.logs or key in data_dir.not_opened
        if here or set(partition.isr) != set(partition.replicas):
            self._begin(key, partition)

    def _is_current(self, key: Key, topic_id: bytes) -> bool:
        """Whether it is still this topic's log that we lead: it may have been made anew, and so may the topic."""
        led = self._leaders[key].log
        return self._topic_ids[key] == topic_id and (led is _NO_LOG or self._context.data_dir.logs.get(key) is led)

    def _log(self, key: Key) -> LeaderLog:
        """The log of a partition led here. Raises LogError, OSError.

        None is made before the first record: when a broker dies, thousands of empty ones are shown to others at once.
        """
        data_dir = self._context.data_dir
        if key in data_dir.logs or data_dir.folder(*key).exists():
            return self._context.log(*key)
        return _NO_LOG

    def _begin(self, key: Key, partition: PartitionInfo) -> LeaderReplica | None:
        context = self._context
        try:
            partition_log = self._log(key)
        except (LogError, OSError) as error:
            log.error("%s-%d cannot be led: %s", *key, error)
            context.loop.call_soon(self.failed, *key)
            return None
        watermark = partition_log.high_watermark
        leader = LeaderReplica(
            context.broker_id,
            partition_log,
            leader_epoch=partition.leader_epoch,
            replicas=partition.replicas,
            isr=partition.isr,
            partition_epoch=partition.partition_epoch,
            min_insync=context.min_insync_replicas(key[0]),
            now_ms=self._now_ms(),
            unclean=partition.unclean,
            added_at=partition.added_at,
            rounds=self._rounds,
        )
        self._leaders[key] = leader
        self._topic_ids[key] = context.metadata.topics[key[0]].id
        self._followers.drop(key)
        for broker in leader.followers:
            link = self._links.get(broker)
            if link is not None and link.ready:
                leader.connect(broker, link.broker_epoch, self._now_ms())
                self._mark(broker, key)
        if partition_log.high_watermark > watermark:
            self._committed(key, leader)
        return leader

    def _update(self, key: Key, leader: LeaderReplica, partition: PartitionInfo) -> None:
        needed = self._context.min_insync_replicas(key[0])
        if leader.partition_epoch == partition.partition_epoch and leader.settled and leader.min_insync == needed:
            return
        watermark = leader.log.high_watermark
        unknown = leader.update(
            partition.replicas, partition.isr, partition.partition_epoch, needed, self._now_ms(), partition.added_at
        )
        for broker in unknown:
            link = self._links.get(broker)
            if link is not None and link.ready:
                leader.connect(broker, link.broker_epoch, self._now_ms())
                self._mark(broker, key)
        if leader.log.high_watermark > watermark:
            self._committed(key, leader)
        if len(partition.isr) < min(needed, len(partition.replicas)):
            self._waiting.fail(key, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def _stop_leading(self, key: Key) -> None:
        self._leaders.pop(key, None)
        self._topic_ids.pop(key, None)
        self._untold.pop(key, None)
        self._waiting.fail(key, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._deleting.fail(key, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _connect_to(self, brokers: set[int], metadata: ClusterMetadata) -> None:
        for broker in [broker for broker in self._links if broker not in brokers]:
            self._hang_up(broker)
        for broker in brokers:
            info = metadata.brokers.get(broker)
            address = (info.replica_host, info.replica_port) if info is not None and info.alive else None
            link = self._links.get(broker)
            if link is not None and link.address != address:
                self._hang_up(broker)
                link = None
            if link is None and address is not None and address[1]:
                self._links[broker] = FollowerLink(broker, address, self._secret(), self._context.broker_id, self)

    def _hang_up(self, broker: int) -> None:
        link = self._links.pop(broker)
        link.close()
        self._forget_follower(broker)

    # --- what the broker asks ---

    def leads(self, topic: str, index: int, partition: PartitionInfo) -> bool:
        """Whether we may act as the partition's leader now: nobody else can have been made it.

        The controller has confirmed us within the lease; or nobody else is in sync; or, while there is no controller,
        every other one who could be elected has: whom we have proposed may be in sync without our having heard of it.
        """
        if not self._registered:
            return False
        key = (topic, index)
        leader = self._leaders.get(key)
        if leader is None:
            if self._followers.epoch(key, None) > partition.leader_epoch:
                return False
        elif leader.deposed or leader.leader_epoch != partition.leader_epoch:
            return False
        members = (leader.counted if leader is not None else frozenset(partition.isr)) | set(partition.elr)
        if len(members) == 1:
            return True
        # Not the loop's time: that stands still while a turn lasts, and we may have been stopped in this one.
        since = time.monotonic() - self._lease_seconds
        return self._controller_confirmed_at() > since or self._confirmed_by_followers(members, since)

    def _confirmed_by_followers(self, members: frozenset[int], since: float) -> bool:
        for broker in members:
            if broker != self._context.broker_id:
                link = self._links.get(broker)
                if link is None or not link.ready or link.confirmed_at <= since:
                    return False
        return True

    def appended(self, topic: str, index: int, partition: PartitionInfo) -> None:
        """Records were appended to a partition led here: have the followers hear of them."""
        key = (topic, index)
        leader = self._leaders.get(key) or self._begin(key, partition)
        if leader is None:
            return
        if leader.log is _NO_LOG:
            leader.log = self._context.data_dir.logs[key]
        if leader.advance():
            self._committed(key, leader)
        for broker in leader.followers:
            self._mark(broker, key)

    def await_commit(self, topic: str, index: int, next_offset: int, done: Callable[[ErrorCode], None]) -> None:
        """Have `done` called with NONE once all below `next_offset` has committed, or with why it cannot be told."""
        self._waiting.add((topic, index), Waiter(next_offset, done))

    def await_start(
        self, topic: str, index: int, partition: PartitionInfo, start: int, done: Callable[[ErrorCode], None]
    ) -> None:
        """Have `done` called with NONE once all in sync begin at `start`, as we do, or with why they may not."""
        key = (topic, index)
        leader = self._leaders.get(key) or self._begin(key, partition)
        if leader is None:
            done(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        self._deleting.add(key, Waiter(start, done))
        self._deleting.reached(key, leader.start_in_sync)
        for broker in leader.followers:
            self._mark(broker, key)

    def lost(self, topic: str, index: int) -> None:
        """Our disk has lost the end of a log: others may have it. Lead no more at this epoch, and be out of sync."""
        key, info = (topic, index), self._context.metadata.topics.get(topic)
        partition = self._context.metadata.partition(topic, index)
        if info is None or partition is None or len(partition.replicas) == 1:
            return
        self._stop_leading(key)
        # What we wrote at this epoch is not what we would write now: only another epoch may follow.
        self._followers.note(key, info.id, partition.leader_epoch + (partition.leader == self._context.broker_id))
        arguments = {
            "broker_id": self._context.broker_id,
            "broker_epoch": self._broker_epoch(),
            "partitions": [[info.id, index]],
        }
        self._context.controller.call("replica_torn", arguments, lambda result, error: self._told_of_loss(key, error))

    def failed(self, topic: str, index: int) -> None:
        """Our disk takes no more for a log, or shows nothing: another one shall lead, if any that may lives."""
        metadata = self._context.metadata
        partition, me = metadata.partition(topic, index), self._context.broker_id
        if (
            partition is not None
            and me in partition.isr
            and ({*partition.isr, *partition.elr} - {me}) & {b.id for b in metadata.alive()}
        ):
            self.lost(topic, index)

    def _told_of_loss(self, key: Key, error: str | None) -> None:
        if error is not None:
            log.error("%s-%d: the controller does not know that records are lost here: %s", *key, error)
            self._context.loop.call_later(_RETRY_MS / 1000, self.lost, *key)

    def watermark_is_known(self, topic: str, index: int) -> bool:
        """Whether a new leader's watermark has reached what stood in its log at its election (KIP-207)."""
        leader = self._leaders.get((topic, index))
        return leader is None or leader.watermark_is_known

    def lag(self, topic: str, index: int) -> int:
        """How far this broker's log is behind the leader's watermark."""
        return self._followers.lag((topic, index))

    # --- followers of ours ---

    def _mark(self, broker: int, key: Key) -> None:
        self._dirty.setdefault(broker, {})[key] = None
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._context.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        for link in self._links.values():
            self.has_room(link)

    def has_room(self, link: FollowerLink) -> None:
        """Send what a follower has not been told, as far as it keeps up."""
        dirty = self._dirty.get(link.broker_id)
        while dirty and (room := min(link.room, _FRAME_BYTES)) > 0:
            rows = self._pushes(link.broker_id, dirty, room)
            if rows:
                link.push(rows)

    def _pushes(self, broker: int, dirty: dict[Key, None], room: int) -> list[Row]:
        rows: list[Row] = []
        now_ms = self._now_ms()
        while dirty and room > 0:
            key = next(iter(dirty))
            del dirty[key]
            push = self._next_push(broker, key, room, now_ms)
            if push is not None:
                rows.append(push_row(self._context.metadata.topics[key[0]].id, key[1], push))
                room -= len(push.records) + 1
                dirty[key] = None  # there may be more, in its turn
        return rows

    def _next_push(self, broker: int, key: Key, room: int, now_ms: int) -> Push | None:
        leader = self._leaders.get(key)
        if leader is None or key[0] not in self._context.metadata.topics:
            return None
        try:
            return leader.take_push(broker, room, now_ms, idle=self._telling)
        except (LogError, OSError) as error:
            log.error("%s-%d cannot be read for broker %d: %s", *key, broker, error)
            leader.unread(broker, now_ms)
            return None

    def connected(self, link: FollowerLink) -> None:
        for key, leader in self._leaders.items():
            if link.broker_id in leader.followers:
                leader.connect(link.broker_id, link.broker_epoch, self._now_ms())
                self._mark(link.broker_id, key)

    def disconnected(self, link: FollowerLink) -> None:
        if self._links.get(link.broker_id) is link:
            log.warning("the connection to broker %d was lost", link.broker_id)
            self._forget_follower(link.broker_id)

    def _forget_follower(self, broker: int) -> None:
        self._dirty.pop(broker, None)
        for leader in self._leaders.values():
            leader.disconnect(broker)

    def acknowledged(self, link: FollowerLink, rows: list[Row]) -> None:
        now_ms = self._now_ms()
        names = self._context.metadata.names
        for row in rows:
            topic_id, index, ack = read_ack(row)
            key = (names.get(topic_id, ""), index)
            leader = self._leaders.get(key)
            if leader is not None:
                self._acknowledged(link.broker_id, key, leader, ack, now_ms)
        self.has_room(link)

    def _acknowledged(self, broker: int, key: Key, leader: LeaderReplica, ack: Ack, now_ms: int) -> None:
        if leader.on_ack(broker, ack, now_ms):
            self._committed(key, leader)
        elif leader.deposed:
            log.warning("%s-%d: another broker leads at epoch %d", *key, ack.leader_epoch)
            self._waiting.fail(key, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._deleting.fail(key, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if key in self._deleting:
            self._deleting.reached(key, leader.start_in_sync)
        self._dirty.setdefault(broker, {})[key] = None
        if broker not in leader.isr:
            self._proposals.consider(key)

    def _committed(self, key: Key, leader: LeaderReplica) -> None:
        self._untold[key] = None
        self.committed(key, leader.log.high_watermark)

    def committed(self, key: Key, watermark: int) -> None:
        """The high watermark has moved: tell whoever waits for it."""
        self._waiting.reached(key, watermark)
        self._context.wake(*key)
        if key[0] == OFFSETS_TOPIC:
            self._context.shards.watermark(key[1], watermark)

    def ponged(self, link: FollowerLink, message: dict[str, Any]) -> None:
        ours = self._context.metadata
        if not message["controller"] and tuple(message["view"]) <= (ours.controller_epoch, ours.version):
            link.confirmed_at = message["pong"]

    # --- leaders of ours ---

    def _take_pushes(self, rows: list[Row]) -> list[Row]:
        return [self._take_push(*read_push(row)) for row in rows]

    def _take_push(self, topic_id: bytes, index: int, push: Push) -> Row:
        key = (self._context.metadata.names.get(topic_id, ""), index)
        leader = self._leaders.get(key)
        if leader is not None and push.leader_epoch > leader.leader_epoch:
            log.warning("%s-%d: led elsewhere at epoch %d", *key, push.leader_epoch)
            self._stop_leading(key)
            leader = None
        epoch = leader.leader_epoch if leader is not None else -1
        return ack_row(topic_id, index, self._followers.take(key, topic_id, push, epoch))

    def _pong(self) -> dict[str, Any]:
        metadata = self._context.metadata
        since = self._context.loop.time() - self._lease_seconds
        return {
            "view": [metadata.controller_epoch, metadata.version],
            "controller": self._controller_is_here() or self._controller_confirmed_at() > since,
        }

    def _controller_is_here(self) -> bool:
        return bool(getattr(self._context.controller, "connected", False))

    # --- time ---

    def tick(self) -> None:
        """A few times a second: signs of life, watermarks and log starts nobody was told of, in-sync sets."""
        now_ms = self._now_ms()
        for link in self._links.values():
            link.ping()
        for key in self._untold:
            leader = self._leaders.get(key)
            for broker in leader.followers if leader is not None else ():
                self._mark(broker, key)
        for key, leader in self._leaders.items():
            for broker in leader.retry(now_ms, _RETRY_MS, _REFUSED_RETRY_MS) + leader.untold_start():
                self._mark(broker, key)
        for key in list(self._deleting):
            self._deleting.reached(key, self._leaders[key].start_in_sync)  # who was waited for may be out of sync
        self._telling = True
        self._flush()
        self._telling = False
        waiting = [self._dirty.get(link.broker_id, {}) for link in self._links.values() if link.ready]
        self._untold = {key: None for key in self._untold if any(key in dirty for dirty in waiting)}
        self._proposals.send(lambda broker: int(self._links[broker].heard_at * 1000) if broker in self._links else 0)

    def figures(self) -> dict[str, int]:
        """For `coterie status`: how many partitions are led and followed here, and how many lack a replica."""
        short = sum(len(leader.isr) <= len(leader.followers) for leader in self._leaders.values())
        return {"led": len(self._leaders), "under_replicated": short}
