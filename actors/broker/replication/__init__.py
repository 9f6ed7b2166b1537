"""Replication in a broker: links to other brokers, and the replicas of partitions that exchange messages over them.

The rules are in actors/log/replication; this package has the sockets, the clock and the controller's images. No Ray.
"""

from actors.broker.replication.manager import ReplicaManager
from actors.broker.replication.proposals import LOST

__all__ = ["LOST", "ReplicaManager"]
