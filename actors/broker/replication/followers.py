"""The partitions this broker follows. A replica is made when its leader first pushes records."""

from __future__ import annotations

import logging
from collections.abc import Callable

from actors.broker.context import BrokerContext
from actors.broker.replication.waiting import Key
from actors.log.replication import Ack, FollowerReplica, Outcome, Push, trivially_matched
from actors.records.errors import LogError
from actors.runtime.logs import at
from placement.metadata import ClusterMetadata

log = logging.getLogger(__name__)


class Followers:
    """Replicas of partitions led elsewhere, and the newest leader epoch heard of for each.

    `failed` is called for logs that cannot be opened, so that their leaders do not wait for them.
    """

    def __init__(self, context: BrokerContext, failed: Callable[[str, int], None]) -> None:
        self._context = context
        self._failed = failed
        self._replicas: dict[Key, FollowerReplica] = {}
        self._epochs: dict[Key, tuple[bytes, int]] = {}  # topic's id, newest leader epoch

    def note(self, key: Key, topic_id: bytes, leader_epoch: int) -> None:
        """The controller says that another broker leads at `leader_epoch`, or none."""
        self._epochs[key] = (topic_id, max(leader_epoch, self.epoch(key, topic_id)))

    def epoch(self, key: Key, topic_id: bytes | None) -> int:
        """The newest leader epoch heard of while following, -1 if none. `topic_id` None: whatever the topic's id."""
        known = self._epochs.get(key)
        return known[1] if known is not None and topic_id in (None, known[0]) else -1

    def lag(self, key: Key) -> int:
        """The number of offsets by which the replica is behind the leader's watermark; 0 if no leader has told one."""
        replica = self._replicas.get(key)
        return 0 if replica is None else replica.lag

    def drop(self, key: Key) -> None:
        """Forget the replica, because this broker leads the partition now."""
        self._replicas.pop(key, None)
        self._epochs.pop(key, None)

    def forget_gone(self, metadata: ClusterMetadata) -> None:
        """Forget the partitions of deleted topics."""
        for key in [key for key in self._epochs if key[0] not in metadata.topics]:
            self.drop(key)

    def take(self, key: Key, topic_id: bytes, push: Push, leading_at: int, sender: int) -> Ack:
        """Take a push of broker `sender`, unless this broker leads the partition itself.

        `leading_at` is its epoch then, else -1. If the image names the leader at the push's epoch, only that broker's
        pushes are taken. The news of a later election may still be on its way.
        """
        partition = self._context.metadata.partition(*key)
        newest = max(leading_at, self.epoch(key, topic_id), -1 if partition is None else partition.leader_epoch)
        if push.leader_epoch < newest or leading_at >= 0:
            return Ack(newest, push.round, Outcome.FENCED)
        me = self._context.broker_id
        if partition is None or me not in partition.replicas or partition.partition_epoch < push.since:
            return Ack(push.leader_epoch, push.round, Outcome.FAILED)  # the controller's image is still on its way
        if push.leader_epoch == partition.leader_epoch and sender != partition.leader:
            log.error(
                "%s-%d: broker %d pushes, and broker %d leads",
                *key,
                sender,
                partition.leader,
                extra=at(*key, epoch=push.leader_epoch, peer=f"broker {sender}"),
            )
            return Ack(push.leader_epoch, push.round, Outcome.FAILED)
        self._epochs[key] = (topic_id, push.leader_epoch)
        try:
            replica = self._replica(key, topic_id, push)
        except (LogError, OSError) as error:
            log.error("%s-%d cannot be followed: %s", *key, error, extra=at(*key, epoch=push.leader_epoch))
            self._failed(*key)
            return Ack(push.leader_epoch, push.round, Outcome.FAILED)
        if key in self._context.data_dir.shortened:
            if me in partition.isr:
                self._failed(*key)
                return Ack(push.leader_epoch, push.round, Outcome.FAILED)
            self._context.data_dir.shortened.remove(key)  # a replica out of sync may lack records
        if replica is None:
            return trivially_matched(push) or Ack(push.leader_epoch, push.round, Outcome.FAILED)
        if me not in partition.isr and self._context.data_dir.logs[key].failure is not None:
            return Ack(push.leader_epoch, push.round, Outcome.FAILED)  # it must not join the in-sync set
        ack = replica.on_push(push, self._context.now_ms())
        if ack.outcome is Outcome.FAILED:
            log.error(
                "%s-%d: a push at %d cannot be taken",
                *key,
                push.base_offset,
                extra=at(*key, epoch=push.leader_epoch, peer=f"broker {sender}"),
            )
        return ack

    def _replica(self, key: Key, topic_id: bytes, push: Push) -> FollowerReplica | None:
        """The replica; None if neither leader nor follower has any records. Raises LogError, OSError."""
        context = self._context
        found = context.data_dir.get(*key)
        if found is None or context.data_dir.topic_ids[key] != topic_id:
            if key not in context.data_dir.not_opened and trivially_matched(push) is not None:
                return None
            config = context.topic_log_config(key[0])
            found = context.data_dir.create(*key, topic_id, config, now_ms=context.now_ms())
        replica = self._replicas.get(key)
        if replica is None or replica.log is not found:
            replica = self._replicas[key] = FollowerReplica(found, push.leader_epoch)
        return replica
