"""Replication at work in a broker: links to other brokers, and the replicas of partitions driven over them.

The rules are in actors/log/replication; here are the sockets, the clock and what the controller says. No Ray.
"""

from actors.broker.replication.manager import ReplicaManager
from actors.broker.replication.proposals import LOST

__all__ = ["LOST", "ReplicaManager"]
