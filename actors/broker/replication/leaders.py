"""The partitions led here, each at one leader epoch: their replicas, and who waits for their offsets."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import count

from actors.broker.context import BrokerContext
from actors.broker.replication.followers import Followers
from actors.broker.replication.links import FollowerLink
from actors.broker.replication.pushes import Pushes
from actors.broker.replication.waiting import Key, Waiting
from actors.links.status import Refill
from actors.log.replication import LeaderLog, LeaderReplica, NoLog
from actors.records.errors import LogError
from actors.runtime.logs import at
from actors.wire.errors import ErrorCode
from placement.metadata import PartitionInfo

log = logging.getLogger(__name__)

_NO_LOG = NoLog()


class Leaders:
    """Begins and ends to lead partitions; `replicas` has those led now. `failed` is called if a log cannot be led."""

    def __init__(
        self,
        context: BrokerContext,
        replicas: dict[Key, LeaderReplica],
        followers: Followers,
        links: Mapping[int, FollowerLink],
        pushes: Pushes,
        failed: Callable[[str, int], None],
    ) -> None:
        self.replicas = replicas
        self.waiting = Waiting()
        """Those who wait for the high watermark."""
        self.deleting = Waiting()
        """Those who wait for the log's start on all replicas in sync."""
        self._context = context
        self._followers = followers
        self._links = links
        self._pushes = pushes
        self._failed = failed
        self._topic_ids: dict[Key, bytes] = {}
        self._rounds = count(1)  # of all pushes of this process

    # --- the controller's word ---

    def lead(self, key: Key, topic_id: bytes, partition: PartitionInfo) -> None:
        """An image says that this broker leads the partition."""
        leader = self.replicas.get(key)
        if leader is not None and leader.leader_epoch == partition.leader_epoch and self._is_current(key, topic_id):
            self.update(key, leader, partition)
            return
        if leader is not None:
            self.stop(key)
        if self._followers.epoch(key, topic_id) > partition.leader_epoch:
            return  # a newer leader has pushed already: this image is older than that leader's
        # With no records and no followers, leading begins with the first record.
        data_dir = self._context.data_dir
        here = key in data_dir.logs or key in data_dir.not_opened
        if here or set(partition.isr) != set(partition.replicas):
            self.begin(key, partition)

    def _is_current(self, key: Key, topic_id: bytes) -> bool:
        """True if the replica still belongs to this topic and its present log: both may have been made anew."""
        led = self.replicas[key].log
        return self._topic_ids[key] == topic_id and (led is _NO_LOG or self._context.data_dir.logs.get(key) is led)

    def begin(self, key: Key, partition: PartitionInfo) -> LeaderReplica | None:
        """Begin to lead; None if the log cannot be opened, or has lost records that other replicas have."""
        context, now_ms = self._context, self._now_ms()
        try:
            partition_log = self._log(key)
        except (LogError, OSError) as error:
            log.error("%s-%d cannot be led: %s", *key, error, extra=at(*key, epoch=partition.leader_epoch))
            context.loop.call_soon(self._failed, *key)
            return None
        if key in context.data_dir.shortened:
            if {*partition.isr, *partition.elr} - {context.broker_id}:  # they have what is lost here
                context.loop.call_soon(self._failed, *key)
                return None
            context.data_dir.shortened.remove(key)
        watermark = partition_log.high_watermark
        leader = LeaderReplica(
            context.broker_id,
            partition_log,
            leader_epoch=partition.leader_epoch,
            replicas=partition.replicas,
            isr=partition.isr,
            partition_epoch=partition.partition_epoch,
            min_insync=context.min_insync_replicas(key[0]),
            now_ms=now_ms,
            unclean=partition.unclean,
            added_at=partition.added_at,
            rounds=self._rounds,
        )
        self.replicas[key] = leader
        self._topic_ids[key] = context.metadata.topics[key[0]].id
        self._followers.drop(key)
        self._connect(key, leader, leader.followers, now_ms)
        if partition_log.high_watermark > watermark:
            self.committed(key, leader)
        return leader

    def _log(self, key: Key) -> LeaderLog:
        """The log of a partition led here. Raises LogError, OSError.

        No log is made before the first record, because thousands of empty partitions may get a new leader at once.
        """
        data_dir = self._context.data_dir
        if key in data_dir.logs or data_dir.folder(*key).exists():
            return self._context.log(*key)
        return _NO_LOG

    def update(self, key: Key, leader: LeaderReplica, partition: PartitionInfo) -> None:
        """Lead as this image and the topic's settings say, in the same epoch as before."""
        needed = self._context.min_insync_replicas(key[0])
        if leader.partition_epoch == partition.partition_epoch and leader.settled and leader.min_insync == needed:
            return
        watermark, now_ms = leader.log.high_watermark, self._now_ms()
        unknown = leader.update(
            partition.replicas, partition.isr, partition.partition_epoch, needed, now_ms, partition.added_at
        )
        self._connect(key, leader, unknown, now_ms)
        if leader.log.high_watermark > watermark:
            self.committed(key, leader)
        if len(partition.isr) < min(needed, len(partition.replicas)):
            self.waiting.fail(key, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def stop(self, key: Key) -> None:
        """Stop leading the partition. Those who wait are answered NOT_LEADER_OR_FOLLOWER."""
        self.replicas.pop(key, None)
        self._topic_ids.pop(key, None)
        self._pushes.forget(key)
        self.fail(key, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def fail(self, key: Key, code: ErrorCode) -> None:
        """Answer all who wait for the partition with an error."""
        self.waiting.fail(key, code)
        self.deleting.fail(key, code)

    # --- followers ---

    def _connect(self, key: Key, leader: LeaderReplica, brokers: Iterable[int], now_ms: int) -> None:
        for broker in brokers:
            link = self._links.get(broker)
            if link is not None and link.ready:
                leader.connect(broker, link.broker_epoch, now_ms)
                self._pushes.mark((broker,), key)

    def connect(self, link: FollowerLink) -> None:
        """A connection to a broker is up: push to it what it follows here."""
        for key, leader in self.replicas.items():
            if link.broker_id in leader.followers:
                self._connect(key, leader, (link.broker_id,), self._now_ms())

    def disconnect(self, broker: int) -> None:
        """A connection to a broker has ended."""
        self._pushes.forget_follower(broker)
        for leader in self.replicas.values():
            leader.disconnect(broker)

    def refills(self) -> tuple[Refill, ...]:
        """The followers that are out of sync, and what they have yet to be sent. No file is read."""
        partitions, left = Counter[int](), Counter[int]()
        for leader in self.replicas.values():
            if len(leader.isr) <= len(leader.followers):
                for broker in set(leader.followers).difference(leader.isr):
                    partitions[broker] += 1
                    left[broker] += leader.bytes_left(broker)
        return tuple(Refill(broker, count, left[broker]) for broker, count in sorted(partitions.items()))

    # --- offsets ---

    def appended(self, key: Key, leader: LeaderReplica) -> None:
        """Records were appended to a partition led here."""
        if leader.log is _NO_LOG:
            leader.log = self._context.data_dir.logs[key]
        if leader.advance():
            self.committed(key, leader)
        self._pushes.mark(leader.followers, key)

    def committed(self, key: Key, leader: LeaderReplica) -> None:
        """The high watermark of a partition led here has moved."""
        self._pushes.committed(key)
        self.reached(key, leader.log.high_watermark)

    def reached(self, key: Key, watermark: int) -> None:
        """All below `watermark` has committed: answer those who wait for it."""
        self.waiting.reached(key, watermark)
        self._context.fetches.wake(*key)
        self._context.commits.tell(*key, watermark)

    def starts_moved(self) -> None:
        """Check again who waits for a log's start: replicas that held it up may be out of sync now."""
        for key in list(self.deleting):
            self.deleting.reached(key, self.replicas[key].start_in_sync)

    def _now_ms(self) -> int:
        return int(self._context.loop.time() * 1000)
