"""The records of what a controller has in files, for the level from which on another controller finds it in the log."""

from __future__ import annotations

import logging
from pathlib import Path

from actors.controller import settings_in_force
from actors.controller.pool_seals import key_in
from placement.metadata import ClusterMetadata
from placement.records import ClusterSettingsRecord, Record
from placement.sealed_pools import PoolsKeyRecord

log = logging.getLogger(__name__)


def records_of_files(folder: Path, metadata: ClusterMetadata) -> list[Record]:
    """The changed settings and the key of pools' seals in a data directory.

    Once the metadata has a key there is nothing more to take over: settings in a file may be of another time then. If a
    file cannot be read, nothing is taken over, and this controller goes on with its files.
    """
    if metadata.pools.key:
        return []
    try:
        changed, key = settings_in_force.kept(folder), key_in(folder)
    except (OSError, ValueError, TypeError) as error:
        log.error("settings and the key of pools' seals stay in %s, because one cannot be read: %s", folder, error)
        return []
    settings = [] if changed is None else [ClusterSettingsRecord(changed.in_metadata)]
    return [*settings, PoolsKeyRecord(key)]
