"""The root of every error that Coterie raises of its own accord."""


class CoterieError(Exception):
    """Catch this to catch them all: the clients' `KafkaError`, `ClusterError`, `PoolError`, those of Spark jobs."""
