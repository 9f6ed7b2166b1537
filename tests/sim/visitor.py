"""A client that uses groups without members, only now and then: between two visits their shard may sleep."""

from __future__ import annotations

from contextlib import suppress

from actors.client.errors import KafkaError
from actors.client.records import TopicPartition
from actors.wire.messages import OffsetCommitRequest
from tests.sim.clients import PARTITIONS, TOPIC
from tests.sim.cluster import Cluster
from tests.sim.history import History
from tests.sim.members import Member
from tests.sim.scenario import Group

GROUP = "visitor"
FLEETING = "passer-by"
"""A group whose offsets expire soon. In a cluster of three offsets partitions it shares the visitor's, which has no
members."""

_Topic = OffsetCommitRequest.OffsetCommitRequestTopic
_Partition = OffsetCommitRequest.OffsetCommitRequestPartition


class Visitor(Member):
    """Commits and fetches offsets, as jobs do that run once in a while."""

    def __init__(self, cluster: Cluster, history: History) -> None:
        super().__init__(cluster, history, "visitor", Group(GROUP, "range", (), ()))
        self.stays_away = False

    async def live(self) -> None:
        while True:
            await self.pause(100, 3_500)
            if not self.stays_away:
                await self._visit()

    async def _visit(self) -> None:
        chosen = self.sim.random.random()
        if chosen < 0.5:
            await self._commit([TopicPartition(TOPIC, self.sim.random.randrange(PARTITIONS))])
        elif chosen < 0.8:
            await self.read([TopicPartition(TOPIC, index) for index in range(PARTITIONS)], 2_500)
        else:
            await self._commit_for(self.sim.random.randint(500, 8_000))

    async def _commit_for(self, retention_ms: int) -> None:
        """Commit an offset that is kept for so long. The commit may fail."""
        node = self.member.coordinator
        if node is not None:
            self.history.fleeting.add(FLEETING)
            partition = _Partition(partition_index=self.sim.random.randrange(PARTITIONS), committed_offset=1)
            topic = _Topic(name=TOPIC, partitions=[partition])
            request = OffsetCommitRequest(
                group_id=FLEETING,
                generation_id_or_member_epoch=-1,
                retention_time_ms=retention_ms,
                topics=[topic],
            )
            with suppress(KafkaError):
                await self.network.ask(node, request, max_version=4)
