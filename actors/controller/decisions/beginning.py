"""The records that a controller begins with."""

from __future__ import annotations

from collections.abc import Callable

from placement.metadata import ClusterMetadata
from placement.records import VERSIONED, ClusterRecord, ControllerEpochRecord, Record
from placement.sealed_pools import PoolsSealedAnewRecord


def begun(metadata: ClusterMetadata, epoch: int, release: str, new_cluster_id: Callable[[], str]) -> list[Record]:
    """A controller of this release begins an epoch, and a cluster that has no id yet gets one."""
    records: list[Record] = [ControllerEpochRecord(epoch, release if metadata.level >= VERSIONED else "")]
    if not metadata.cluster_id:
        records += [ClusterRecord(new_cluster_id()), PoolsSealedAnewRecord()]  # it has no older pools
    return records
