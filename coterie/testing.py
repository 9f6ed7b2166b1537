"""A Kafka in a test: a real cluster in a child process, in the time of a test, and faults by call.

    import coterie.testing

    with coterie.testing.cluster(brokers=1) as kafka:
        kafka.create_topic("orders", partitions=4)
        print(kafka.bootstrap_servers)

Brokers, controller and coordinators are those of every cluster of Coterie; they share one process, without Ray. It ends
with the block, or with the program, however that ends, and leaves no file. Within `async with` the methods are
coroutines. pytest has the fixtures `coterie_cluster` and `coterie_topic`.
"""

from __future__ import annotations

from actors.one_process.face import AsyncCluster, Cluster, Starting, cluster
from actors.one_process.orders import OrderError

__all__ = ["AsyncCluster", "Cluster", "OrderError", "Starting", "cluster"]
