"""The rebalance listener a user may give to `Consumer.subscribe`."""

from __future__ import annotations

from actors.client.records import TopicPartition


class ConsumerRebalanceListener:
    """Called in the thread that polls, from within poll, unsubscribe and close. Override what you need."""

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """These are about to be given up; what was processed may still be committed here."""

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """These are new; seek here to begin elsewhere than at the committed offset."""

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        """These are gone already and may have other owners: a commit would be refused."""
        self.on_partitions_revoked(lost)
