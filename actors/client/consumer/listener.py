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
