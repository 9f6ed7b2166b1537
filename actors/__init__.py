"""Coterie: Kafka's consumer groups, native to Ray. What runs, and what it is made of."""

__version__ = "0.1.0"


class CoterieError(Exception):
    """Catch this to catch them all: the clients' `KafkaError`, `ClusterError`, `PoolError`, those of Spark jobs."""
