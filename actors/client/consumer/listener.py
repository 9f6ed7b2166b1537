"""The rebalance listener a user may give to `Consumer.subscribe`."""

from __future__ import annotations

from actors.client.records import TopicPartition


class ConsumerRebalanceListener:
    """Told of changes of the assignment. Called in the thread that polls, by poll, unsubscribe and close.

    Override the methods that you need.
    """

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """These partitions are about to be given up. Here their offsets can still be committed."""

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """These partitions are new. Seek here to begin elsewhere than at the committed offset."""

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        """These partitions are lost and may have other owners already. A commit for them would be refused."""
        self.on_partitions_revoked(lost)

    def on_partitions_recreated(self, recreated: list[TopicPartition]) -> None:
        """The topic of these partitions was deleted and created again, and they begin as auto_offset_reset says.

        Nothing of the old topic can be committed any more, as if its partitions were lost and others assigned.
        """
        self.on_partitions_lost(recreated)
        self.on_partitions_assigned(recreated)
