"""The source of the views of a cluster: its Monitor, which is asked over Ray as `coterie status` asks.

Only Coterie has them. Apache Kafka, or a cluster that was started with `coterie.monitor=false`, has no Monitor.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Protocol, TypeVar

from actors.cli.errors import CliError
from actors.links.operations import Operation, Result

R = TypeVar("R", bound=Result)

_WHAT_TO_DO = (
    "only a cluster of Coterie has a Monitor, and not if it was started with coterie.monitor=false; --data-dir or "
    "--ray-address says which cluster is meant"
)


class Views(Protocol):
    """A source of views, such as a `Cluster`."""

    def view(self, operation: Operation[R]) -> R:
        """The Monitor's answer. Raises ClusterError if there is none, or it does not answer."""


@contextmanager
def connect(ray_address: str | None, name: str, data_dir: str) -> Iterator[Views]:
    """The views of a cluster. Raises CliError if the cluster is not found, or has no Monitor that answers."""
    from actors.cluster import Cluster, ClusterError

    try:
        # Ray writes warnings to standard output, where they would stand in the table or the JSON.
        with redirect_stdout(sys.stderr):
            cluster = Cluster.connect(ray_address, name, data_dir=None if ray_address else data_dir)
        with cluster:
            yield cluster
    except ClusterError as error:
        raise CliError(f"{error}: {_WHAT_TO_DO}") from error
