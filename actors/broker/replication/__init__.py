"""Replication in a broker: links to other brokers, and the replicas of partitions that exchange messages over them.

The rules are in actors/log/replication; this package has the sockets, the clock and the controller's images. No Ray.

    manager    puts the parts together                          lease      the time for which this broker may lead
    leaders    the partitions that this broker leads            proposals  proposals of in-sync sets to the controller
    pushes     sends records to followers, within `throttle`    waiting    requests that wait for an offset
    followers  the partitions that this broker follows          losses     logs that were lost or cannot be read
    links      the connections to other brokers                 batches    sound batches for brokers with damaged ones
"""

from actors.broker.replication.manager import ReplicaManager
from actors.broker.replication.proposals import LOST

__all__ = ["LOST", "ReplicaManager"]
