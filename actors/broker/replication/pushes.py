"""Pushes to followers. The records appended in one turn of the loop go to each follower in one frame."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from actors.broker.context import BrokerContext
from actors.broker.replication.links import FollowerLink
from actors.broker.replication.throttle import Throttle
from actors.broker.replication.waiting import Key
from actors.links.replication import PartitionPush
from actors.log.damage import DamagedBatchError
from actors.log.replication import LeaderReplica, Push
from actors.records.errors import LogError
from actors.runtime.logs import at

log = logging.getLogger(__name__)

FRAME_BYTES = 1 << 20
"""Pushes of more than these bytes to one broker go into several frames; one alone may be larger."""
_RETRY_MS = 2000  # without an answer, a follower is asked again
_REFUSED_RETRY_MS = 500  # sooner after a refusal or a failed read, because commits wait for it


class Pushes:
    """Knows what the followers of the partitions in `leaders` have not been sent yet, and sends it."""

    def __init__(
        self, context: BrokerContext, leaders: Mapping[Key, LeaderReplica], links: Mapping[int, FollowerLink]
    ) -> None:
        self._context = context
        self._leaders = leaders
        self._links = links
        self._dirty: dict[int, dict[Key, None]] = {}  # by follower: partitions of which there may be something to send
        self._untold: dict[Key, None] = {}  # partitions whose watermark moved since the last tick
        self._throttle = Throttle(context)
        self._held: dict[int, dict[Key, None]] = {}  # the same for those that the throttle keeps waiting until a tick
        self._flush_scheduled = False
        self._telling = False

    def mark(self, brokers: Iterable[int], key: Key) -> None:
        """There may be something to send to these followers: looked at when this turn's work is done."""
        for broker in brokers:
            self._dirty.setdefault(broker, {})[key] = None
            if not self._flush_scheduled:
                self._flush_scheduled = True
                self._context.loop.call_soon(self._flush)

    def note(self, broker: int, key: Key) -> None:
        """As `mark`, for a follower that is looked at later in this turn anyway."""
        self._dirty.setdefault(broker, {})[key] = None

    def committed(self, key: Key) -> None:
        """A watermark has moved. It is sent with the next records, or at the next tick."""
        self._untold[key] = None

    def forget(self, key: Key) -> None:
        """The partition is not led here any more."""
        self._untold.pop(key, None)

    def forget_follower(self, broker: int) -> None:
        """A follower's connection has ended: with the next one all begins anew."""
        self._dirty.pop(broker, None)
        self._held.pop(broker, None)

    def _flush(self) -> None:
        self._flush_scheduled = False
        for link in self._links.values():
            self.has_room(link)

    def has_room(self, link: FollowerLink) -> None:
        """Send a follower what it was not sent yet, as far as it keeps up."""
        dirty = self._dirty.get(link.broker_id)
        while dirty and (room := min(link.room, FRAME_BYTES)) > 0:
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
                dirty[key] = None  # there may be more, after the other partitions
        return pushes

    def _next(self, broker: int, key: Key, room: int, now_ms: int) -> Push | None:
        leader = self._leaders.get(key)
        if leader is None or key[0] not in self._context.metadata.topics:
            return None
        behind = broker not in leader.isr
        if behind and (room := self._throttle.room(room)) == 0:
            self._held.setdefault(broker, {})[key] = None
            return None
        try:
            push = leader.take_push(broker, room, now_ms, idle=self._telling)
        except DamagedBatchError:  # it has been told
            leader.unread(broker, now_ms)
            return None
        except (LogError, OSError) as error:
            log.error(
                "%s-%d cannot be read for broker %d: %s", *key, broker, error, extra=at(*key, peer=f"broker {broker}")
            )
            leader.unread(broker, now_ms)
            return None
        if behind and push is not None:
            self._throttle.sent(len(push.records))
        return push

    def tick(self, now_ms: int) -> None:
        """Send watermarks and log starts that are left over, and ask followers anew that owe an answer for too long."""
        for key in self._untold:
            leader = self._leaders.get(key)
            if leader is not None:
                self.mark(leader.followers, key)
        for key, leader in self._leaders.items():
            self.mark(leader.retry(now_ms, _RETRY_MS, _REFUSED_RETRY_MS) + leader.untold_start(), key)
        held, self._held = self._held, {}
        for broker, keys in held.items():
            self._dirty.setdefault(broker, {}).update(keys)
        self._telling = True
        self._flush()
        self._telling = False
        waiting = [self._dirty.get(link.broker_id, {}) for link in self._links.values() if link.ready]
        self._untold = {key: None for key in self._untold if any(key in dirty for dirty in waiting)}
