"""Logs that this broker's disk has lost or cannot read: it stops leading them, and the controller is told."""

from __future__ import annotations

import logging
from collections.abc import Callable

from actors.broker.context import BrokerContext
from actors.broker.replication.followers import Followers
from actors.broker.replication.leaders import Leaders
from actors.broker.replication.waiting import Key
from actors.links.operations import ReplicaTorn

log = logging.getLogger(__name__)

_RETRY_SECONDS = 2.0


class Losses:
    """Takes this broker out of the in-sync sets of partitions whose logs are not what it has acknowledged."""

    def __init__(
        self, context: BrokerContext, leaders: Leaders, followers: Followers, broker_epoch: Callable[[], int]
    ) -> None:
        self._context = context
        self._leaders = leaders
        self._followers = followers
        self._broker_epoch = broker_epoch

    def lost(self, topic: str, index: int) -> None:
        """The disk has lost the end of a log, which others may have: stop leading at this epoch, and be out of sync."""
        key, info = (topic, index), self._context.metadata.topics.get(topic)
        partition = self._context.metadata.partition(topic, index)
        if info is None or partition is None or len(partition.replicas) == 1:
            return
        self._leaders.stop(key)
        # Others may have records of this epoch that were lost here. New ones must not get the same epoch.
        self._followers.note(key, info.id, partition.leader_epoch + (partition.leader == self._context.broker_id))
        torn = ReplicaTorn(self._context.broker_id, self._broker_epoch(), ((info.id, index),))
        self._context.controller.call(torn, lambda result, error: self._told(key, error))

    def _told(self, key: Key, error: str | None) -> None:
        if error is not None:
            log.error("%s-%d: the controller does not know that records are lost here: %s", *key, error)
            self._context.loop.call_later(_RETRY_SECONDS, self.lost, *key)

    def failed(self, topic: str, index: int) -> None:
        """The disk takes no more records for a log, or cannot read it: have another replica lead, if one may."""
        metadata = self._context.metadata
        partition, me = metadata.partition(topic, index), self._context.broker_id
        if (
            partition is not None
            and me in partition.isr
            and ({*partition.isr, *partition.elr} - {me}) & {b.id for b in metadata.alive()}
        ):
            self.lost(topic, index)
