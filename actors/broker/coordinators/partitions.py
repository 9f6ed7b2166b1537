"""The offsets partitions of a broker: which ones it leads, which shards have them, and which groups are in them."""

from __future__ import annotations

from actors.broker.context import BrokerContext
from actors.broker.coordinators.link import LinkState, ShardLink
from actors.broker.led import LedPartitions
from placement.hashing import partition_for_group
from placement.metadata import OFFSETS_TOPIC

_ACTIVE, _DROWSY = LinkState.ACTIVE, LinkState.DROWSY
_KNOWN_GROUPS_MAX = 100_000
_KNOWN_GROUP_BYTES = 256  # longer ids are hashed each time: a cache of them would be anyone's way to our memory


class Groups:
    """The offsets partition of each group, from a cache of hashes."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._known: dict[bytes, int] = {}  # by the group id's bytes
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._known)

    def partition_of(self, group_id: bytes) -> int:
        """The offsets partition of a group, from the id's UTF-8 bytes. Raises ValueError if they are not UTF-8."""
        count = self._context.offsets_partition_count()
        if count != self._partition_count or len(self._known) > _KNOWN_GROUPS_MAX:
            self._known.clear()
            self._partition_count = count
        found = self._known.get(group_id)
        if found is None:
            found = partition_for_group(group_id.decode(), count)
            if len(group_id) <= _KNOWN_GROUP_BYTES:
                self._known[group_id] = found
        return found


class Partitions:
    """The offsets partitions, and the shards that load or serve them."""

    def __init__(self, context: BrokerContext, led: LedPartitions) -> None:
        self._context = context
        self._leads = led.leads
        self.links: dict[int, ShardLink] = {}

    def led(self, partition: int) -> bool:
        """Whether this broker may act as the partition's leader now."""
        info = self._context.metadata.partition(OFFSETS_TOPIC, partition)
        return info is not None and self._leads(OFFSETS_TOPIC, partition, info)

    def serving(self, partition: int) -> ShardLink | None:
        """The shard that can be asked about the partition's groups now; None if there is none."""
        link = self.links.get(partition)
        if link is None or (link.state is not _ACTIVE and link.state is not _DROWSY):
            return None
        return link if self.led(partition) else None

    def has_records(self, partition: int) -> bool:
        """Whether the partition's log has records, which a shard would have to load."""
        found = self._context.data_dir.logs.get((OFFSETS_TOPIC, partition))
        return found is not None and found.log_end_offset > 0
