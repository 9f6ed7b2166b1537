"""The partitions of a kind of coordinator: which of them a broker leads, their shards, and the keys in them."""

from __future__ import annotations

from actors.broker.context import BrokerContext
from actors.broker.coordinators.link import LinkState, ShardLink
from actors.broker.led import LedPartitions
from actors.coordinator_kinds.kind import CoordinatorKind

_ACTIVE, _DROWSY = LinkState.ACTIVE, LinkState.DROWSY
_KNOWN_KEYS_MAX = 100_000
_KNOWN_KEY_BYTES = 256  # longer keys are hashed each time: a cache of them would be anyone's way to our memory


class Keys:
    """The partition of each key, from a cache of hashes. Keys are the ids of groups, if it is about groups."""

    def __init__(self, context: BrokerContext, kind: CoordinatorKind) -> None:
        self._context = context
        self._kind = kind
        self._known: dict[bytes, int] = {}
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._known)

    def partition_of(self, key: bytes) -> int:
        """The partition of a key, from its UTF-8 bytes. Raises ValueError if they are not UTF-8."""
        count = self._context.partition_count(self._kind)
        if count != self._partition_count or len(self._known) > _KNOWN_KEYS_MAX:
            self._known.clear()
            self._partition_count = count
        found = self._known.get(key)
        if found is None:
            found = self._kind.partition_of(key.decode(), count)
            if len(key) <= _KNOWN_KEY_BYTES:
                self._known[key] = found
        return found


class Partitions:
    """The partitions of one kind, and the shards that load or serve them."""

    def __init__(self, context: BrokerContext, led: LedPartitions, topic: str) -> None:
        self._context = context
        self._leads = led.leads
        self._topic = topic
        self.links: dict[int, ShardLink] = {}

    def led(self, partition: int) -> bool:
        """True if this broker may act as the partition's leader now."""
        info = self._context.metadata.partition(self._topic, partition)
        return info is not None and self._leads(self._topic, partition, info)

    def serving(self, partition: int) -> ShardLink | None:
        """The shard that can be asked about the partition's keys now; None if there is none."""
        link = self.links.get(partition)
        if link is None or (link.state is not _ACTIVE and link.state is not _DROWSY):
            return None
        info = self._context.metadata.partition(self._topic, partition)
        return link if info is not None and self._leads(self._topic, partition, info) else None

    def has_records(self, partition: int) -> bool:
        """True if the partition's log has records, which a shard would have to load."""
        found = self._context.data_dir.logs.get((self._topic, partition))
        return found is not None and found.log_end_offset > 0
