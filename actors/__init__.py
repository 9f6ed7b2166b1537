"""Coterie: Kafka's consumer groups, native to Ray. This package has the processes, the clients and their parts."""

__version__ = "0.1.0"


class CoterieError(Exception):
    """The base of all errors: the clients' `KafkaError`, `ClusterError`, `PoolError`, and those of Spark jobs."""


class OutsideError(CoterieError):
    """The cause is outside of the program: a setting, a machine, another process. The text needs no traceback."""
