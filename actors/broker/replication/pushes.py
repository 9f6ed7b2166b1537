"""Who has to hear of what: pushes to followers. All that was appended in one turn leaves in one frame a follower."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from actors.broker.context import BrokerContext
from actors.broker.replication.links import FollowerLink
from actors.broker.replication.waiting import Key
from actors.links.replication import PartitionPush
from actors.log.errors import LogError
from actors.log.replication import LeaderReplica, Push

log = logging.getLogger(__name__)

_FRAME_BYTES = 1 << 20
_RETRY_MS = 2000  # without an answer, a follower is asked again
_REFUSED_RETRY_MS = 500  # sooner after a refusal, or a read that failed: all that is in sync waits for it


class Pushes:
    """What the followers of the partitions in `leaders` have not been told."""

    def __init__(
        self, context: BrokerContext, leaders: Mapping[Key, LeaderReplica], links: Mapping[int, FollowerLink]
    ) -> None:
        self._context = context
        self._leaders = leaders
        self._links = links
        self._dirty: dict[int, dict[Key, None]] = {}  # by follower: partitions it may have to hear of
        self._untold: dict[Key, None] = {}  # their watermarks moved since the last tick
        self._flush_scheduled = False
        self._telling = False

    def mark(self, brokers: Iterable[int], key: Key) -> None:
        """These followers may have to hear of a partition: looked at once this turn's work is done."""
        for broker in brokers:
            self._dirty.setdefault(broker, {})[key] = None
            if not self._flush_scheduled:
                self._flush_scheduled = True
                self._context.loop.call_soon(self._flush)

    def note(self, broker: int, key: Key) -> None:
        """As `mark`, for who is looked at by and by anyway."""
        self._dirty.setdefault(broker, {})[key] = None

    def committed(self, key: Key) -> None:
        """A watermark has moved: with the next records, or the next tick, it is told."""
        self._untold[key] = None

    def forget(self, key: Key) -> None:
        """The partition is not led here any more."""
        self._untold.pop(key, None)

    def forget_follower(self, broker: int) -> None:
        """Its connection is gone: all begins anew with the next."""
        self._dirty.pop(broker, None)

    def _flush(self) -> None:
        self._flush_scheduled = False
        for link in self._links.values():
            self.has_room(link)

    def has_room(self, link: FollowerLink) -> None:
        """Send what a follower has not been told, as far as it keeps up."""
        dirty = self._dirty.get(link.broker_id)
        while dirty and (room := min(link.room, _FRAME_BYTES)) > 0:
            pushes = self._take(link.broker_id, dirty, room)
            if pushes:
                link.push(pushes)

    def _take(self, broker: int, dirty: dict[Key, None], room: int) -> list[PartitionPush]:
        pushes: list[PartitionPush] = []
        now_ms = int(self._context.loop.time() * 1000)
        while dirty and room > 0:
            key = next(iter(dirty))
            del dirty[key]
            push = self._next(broker, key, room, now_ms)
            if push is not None:
                pushes.append((self._context.metadata.topics[key[0]].id, key[1], push))
                room -= len(push.records) + 1
                dirty[key] = None  # there may be more, in its turn
        return pushes

    def _next(self, broker: int, key: Key, room: int, now_ms: int) -> Push | None:
        leader = self._leaders.get(key)
        if leader is None or key[0] not in self._context.metadata.topics:
            return None
        try:
            return leader.take_push(broker, room, now_ms, idle=self._telling)
        except (LogError, OSError) as error:
            log.error("%s-%d cannot be read for broker %d: %s", *key, broker, error)
            leader.unread(broker, now_ms)
            return None

    def tick(self, now_ms: int) -> None:
        """Tell watermarks and log starts nobody was told of, and begin anew with who owes an answer too long."""
        for key in self._untold:
            leader = self._leaders.get(key)
            if leader is not None:
                self.mark(leader.followers, key)
        for key, leader in self._leaders.items():
            self.mark(leader.retry(now_ms, _RETRY_MS, _REFUSED_RETRY_MS) + leader.untold_start(), key)
        self._telling = True
        self._flush()
        self._telling = False
        waiting = [self._dirty.get(link.broker_id, {}) for link in self._links.values() if link.ready]
        self._untold = {key: None for key in self._untold if any(key in dirty for dirty in waiting)}
