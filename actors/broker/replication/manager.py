"""The replicas of one broker: puts the parts together, and answers the rest of the broker.

    leaders.py     partitions led here           lease.py       whether we may still lead
    pushes.py      what is sent to followers     proposals.py   in-sync sets, to the controller
    followers.py   partitions led elsewhere      losses.py      logs that our disk has damaged
    links.py       connections between brokers   waiting.py     who waits for an offset
    throttle.py    how fast others are filled    batches.py     sound batches for damaged ones

Everything runs on the broker's loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from actors.broker.context import BrokerContext
from actors.broker.replication.batches import BatchExchange
from actors.broker.replication.followers import Followers
from actors.broker.replication.leaders import Leaders
from actors.broker.replication.lease import Lease
from actors.broker.replication.links import FollowerLink, FollowerListener
from actors.broker.replication.losses import Losses
from actors.broker.replication.proposals import Proposals
from actors.broker.replication.pushes import Pushes
from actors.broker.replication.waiting import Key, Waiter
from actors.broker.rhythm import Rhythm, heartbeat_seconds
from actors.links.replication import PartitionAck, PartitionPush, Pong, WantBatches
from actors.links.secret import Secrets
from actors.links.status import Refill
from actors.log.replication import Ack, LeaderReplica, Push
from actors.runtime.logs import about, at
from actors.wire.errors import ErrorCode
from placement.metadata import ClusterMetadata, PartitionInfo

log = logging.getLogger(__name__)

_UNREACHABLE_SECONDS = 0.5  # a broker that lives is reached again within that


class ReplicaManager:
    """The replicas of partitions that several brokers hold. Those that only this broker holds are not here."""

    def __init__(
        self,
        context: BrokerContext,
        secrets: Callable[[], Secrets],
        broker_epoch: Callable[[], int],
        controller_confirmed_at: Callable[[], float],
        tick_seconds: float,
    ) -> None:
        self._context = context
        self._secrets = secrets
        self.registered = False
        """True if the metadata has come after this process registered with the controller."""
        self.links: dict[int, FollowerLink] = {}
        """The connections to followers, by broker."""
        led: dict[Key, LeaderReplica] = {}
        self._lease = Lease(context, self.links, controller_confirmed_at)
        self.followers = Followers(context, self.failed)
        """The partitions that other brokers lead."""
        self._pushes = Pushes(context, led, self.links)
        self.leaders = Leaders(context, led, self.followers, self.links, self._pushes, self.failed)
        """The partitions that this broker leads."""
        self._losses = Losses(context, self.leaders, self.followers, broker_epoch)
        self.proposals = Proposals(context, led, broker_epoch, self.leaders.committed)
        """The changes of in-sync sets that the controller is asked for."""
        lag_seconds = context.config.integer("replica.lag.time.max.ms") / 1000  # pings keep idle followers in sync
        self._pings = Rhythm(min(heartbeat_seconds(context.config), lag_seconds / 3), tick_seconds)
        self._chance = context.environment.chance
        self.batches = BatchExchange(context, self)
        """The exchange that is asked for sound batches, in the place of damaged ones."""
        self.listener = FollowerListener(
            context.broker_id,
            broker_epoch,
            secrets,
            self._chance,
            take=self.take_pushes,
            pong=self._lease.pong,
            batches=self.batches,
            security=context.config.link_security,
            stores=context.config.link_stores,
        )

    async def listen(self, host: str) -> int:
        """Listen for pushes on any free port of `host`; the port."""
        return await self.listener.listen(host)

    @property
    def leaving(self) -> bool:
        """True if this broker follows nobody, because it is about to stop."""
        return self.listener.paused

    def stop_following(self) -> None:
        """Take no more pushes, so that leaders do not count on this broker any longer."""
        self.listener.pause()

    def follow_again(self) -> None:
        """Take pushes again: leaders connect by themselves."""
        self.listener.paused = False

    def close_unauthenticated(self) -> None:
        """Close connections of leaders that have shown to know a secret that is valid no longer."""
        self.listener.close_unauthenticated()

    def close(self) -> None:
        """Close all connections."""
        self.listener.close()
        for link in self.links.values():
            link.close()
        self.links.clear()

    # --- the controller's news ---

    def apply(self, metadata: ClusterMetadata) -> None:
        """Take over an image: lead, follow or forget what it says."""
        me = self._context.broker_id
        peers: set[int] = set()
        known = set(self.leaders.replicas)
        for name, topic in metadata.topics.items():
            for index, partition in enumerate(topic.partitions):
                if len(partition.replicas) < 2 or me not in partition.replicas:
                    continue
                key = (name, index)
                if partition.leader == me:
                    peers.update(partition.replicas)
                    known.discard(key)
                    self.leaders.lead(key, topic.id, partition)
                else:
                    self.followers.note(key, topic.id, partition.leader_epoch)
        for key in known:
            self.leaders.stop(key)
        self.followers.forget_gone(metadata)
        self.registered = True
        self._connect_to(peers - {me}, metadata)

    def _connect_to(self, brokers: set[int], metadata: ClusterMetadata) -> None:
        for broker in [broker for broker in self.links if broker not in brokers]:
            self._hang_up(broker)
        for broker in brokers:
            info = metadata.brokers.get(broker)
            address = (info.replica_host, info.replica_port) if info is not None and info.alive else None
            link = self.links.get(broker)
            if link is not None and link.address != address:
                self._hang_up(broker)
                link = None
            if link is None and address is not None and address[1]:
                context = self._context
                self.links[broker] = FollowerLink(
                    broker,
                    address,
                    self._secrets,
                    self._chance,
                    context.broker_id,
                    self,
                    tls=context.config.link_tls,
                )

    def _hang_up(self, broker: int) -> None:
        link = self.links.pop(broker)
        link.close()
        self.leaders.disconnect(broker)

    # --- what the broker asks ---

    def leading(self, topic: str, index: int) -> LeaderReplica | None:
        """The replica by which this broker leads a partition; None if it does not, or nobody follows there."""
        return self.leaders.replicas.get((topic, index))

    def leads(self, topic: str, index: int, partition: PartitionInfo) -> bool:
        """True if this broker may act as the partition's leader now, because no other can have been made leader.

        It may if the controller has confirmed it within the lease, or if no other broker could be elected. While there
        is no controller, all that could be elected have to confirm it. Those are the in-sync set, those that are
        eligible, and those that this broker has proposed, for the controller may have recorded them.
        """
        if not self.registered:
            return False
        key = (topic, index)
        leader = self.leaders.replicas.get(key)
        if leader is None:
            if self.followers.epoch(key, None) > partition.leader_epoch:
                return False
        elif leader.deposed or leader.leader_epoch != partition.leader_epoch:
            return False
        members = (leader.counted if leader is not None else frozenset(partition.isr)) | set(partition.elr)
        return self._lease.holds(members)

    def appended(self, topic: str, index: int, partition: PartitionInfo) -> None:
        """Records were appended to a partition led here: send them to the followers."""
        key = (topic, index)
        leader = self.leaders.replicas.get(key) or self.leaders.begin(key, partition)
        if leader is not None:
            self.leaders.appended(key, leader)

    def await_commit(self, topic: str, index: int, next_offset: int, done: Callable[[ErrorCode], None]) -> None:
        """`done` is called with NONE when all below `next_offset` has committed, or with why that cannot be told."""
        self.leaders.waiting.add((topic, index), Waiter(next_offset, done))

    def await_start(
        self, topic: str, index: int, partition: PartitionInfo, start: int, done: Callable[[ErrorCode], None]
    ) -> None:
        """`done` is called with NONE when all replicas in sync begin at `start`, or with why that cannot be told."""
        key = (topic, index)
        leader = self.leaders.replicas.get(key) or self.leaders.begin(key, partition)
        if leader is None:
            done(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        self.leaders.deleting.add(key, Waiter(start, done))
        self.leaders.deleting.reached(key, leader.start_in_sync)
        self._pushes.mark(leader.followers, key)

    def committed(self, key: Key, watermark: int) -> None:
        """The high watermark of a log of this broker has moved: answer those who wait for it."""
        self.leaders.reached(key, watermark)

    def lost(self, topic: str, index: int) -> None:
        """The disk has lost the end of a log, which others may have: stop leading at this epoch, and be out of sync."""
        self._losses.lost(topic, index)

    def failed(self, topic: str, index: int) -> None:
        """The disk takes no more records for a log, or cannot read it: have another replica lead, if one may."""
        self._losses.failed(topic, index)

    def watermark_is_known(self, topic: str, index: int) -> bool:
        """True if a new leader's watermark has reached the log end at which it was elected (KIP-207)."""
        leader = self.leaders.replicas.get((topic, index))
        return leader is None or leader.watermark_is_known

    def lag(self, topic: str, index: int) -> int:
        """The number of offsets by which this broker's log is behind the leader's watermark."""
        return self.followers.lag((topic, index))

    def figures(self) -> dict[str, int]:
        """For `coterie status`: how many partitions are led here, and how many of them have a replica out of sync."""
        led = self.leaders.replicas.values()
        return {"led": len(led), "under_replicated": sum(len(each.isr) <= len(each.followers) for each in led)}

    def refills(self) -> tuple[Refill, ...]:
        """For each follower out of sync, how much is yet to be sent to it."""
        return self.leaders.refills()

    def unreachable(self) -> tuple[int, ...]:
        """The followers that have hung up on this broker, and that it has not reached again within half a second."""
        before = self._context.loop.time() - _UNREACHABLE_SECONDS
        gone = (link.broker_id for link in self.links.values() if link.lost_at is not None and link.lost_at < before)
        return tuple(sorted(gone))

    # --- followers of ours ---

    def connected(self, link: FollowerLink) -> None:
        self.leaders.connect(link)

    def disconnected(self, link: FollowerLink) -> None:
        if self.links.get(link.broker_id) is link:
            log.warning(
                "the connection to broker %d was lost", link.broker_id, extra=about(peer=f"broker {link.broker_id}")
            )
            self.leaders.disconnect(link.broker_id)

    def has_room(self, link: FollowerLink) -> None:
        self._pushes.has_room(link)

    def ponged(self, link: FollowerLink, pong: Pong) -> None:
        self._lease.ponged(link, pong)

    def acknowledged(self, link: FollowerLink, acks: Sequence[PartitionAck]) -> None:
        now_ms = int(self._context.loop.time() * 1000)
        names = self._context.metadata.names
        for topic_id, index, ack in acks:
            key = (names.get(topic_id, ""), index)
            leader = self.leaders.replicas.get(key)
            if leader is not None:
                self._acknowledged(link.broker_id, key, leader, ack, now_ms)
        self._pushes.has_room(link)

    def _acknowledged(self, broker: int, key: Key, leader: LeaderReplica, ack: Ack, now_ms: int) -> None:
        leaders, known = self.leaders, leader.deposed
        if leader.on_ack(broker, ack, now_ms):
            leaders.committed(key, leader)
        elif leader.deposed:
            if not known:  # each batch that it has pushed since comes back
                log.warning(
                    "%s-%d: another broker leads at epoch %d",
                    *key,
                    ack.leader_epoch,
                    extra=at(*key, epoch=ack.leader_epoch, peer=f"broker {broker}"),
                )
            leaders.fail(key, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if key in leaders.deleting:
            leaders.deleting.reached(key, leader.start_in_sync)
        self._pushes.note(broker, key)
        if broker not in leader.isr:
            self.proposals.consider(key)

    def want(self, broker: int, want: WantBatches) -> bool:
        """Ask a broker that follows or leads a partition of ours for batches. Returns True if that was possible."""
        link = self.links.get(broker)
        return (link is not None and link.want(want)) or self.listener.want(broker, want)

    # --- leaders of ours ---

    def take_pushes(self, sender: int, pushes: Sequence[PartitionPush]) -> tuple[PartitionAck, ...]:
        """A leader pushes records to this broker. The answers to it."""
        take = self._take_push
        return tuple([(topic_id, index, take(sender, topic_id, index, push)) for topic_id, index, push in pushes])

    def _take_push(self, sender: int, topic_id: bytes, index: int, push: Push) -> Ack:
        key = (self._context.metadata.names.get(topic_id, ""), index)
        leader = self.leaders.replicas.get(key)
        if leader is not None and push.leader_epoch > leader.leader_epoch:
            log.warning(
                "%s-%d: led elsewhere at epoch %d",
                *key,
                push.leader_epoch,
                extra=at(*key, epoch=push.leader_epoch, peer=f"broker {sender}"),
            )
            self.leaders.stop(key)
            leader = None
        epoch = leader.leader_epoch if leader is not None else -1
        return self.followers.take(key, topic_id, push, epoch, sender)

    # --- time ---

    def tick(self) -> None:
        """To be called a few times a second: pings, pushes that are left over, and proposals of in-sync sets."""
        # Each time while followers have to confirm this broker.
        if self._pings.beats() or not self._context.controller.connected:
            for link in self.links.values():
                link.ping()
        self.leaders.starts_moved()
        self._pushes.tick(int(self._context.loop.time() * 1000))
        self.proposals.send(lambda broker: int(self.links[broker].heard_at * 1000) if broker in self.links else 0)
