"""Coterie: Kafka's consumer groups, native to Ray. Here are a cluster's processes, its clients, and their parts."""

__version__ = "0.1.0"


class CoterieError(Exception):
    """Catch this to catch them all: the clients' `KafkaError`, `ClusterError`, `PoolError`, those of Spark jobs."""


class OutsideError(CoterieError):
    """The cause is outside of the program: a setting, a machine, another process. Its text says all there is to say."""
