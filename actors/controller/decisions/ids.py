"""Ids of new topics."""

from __future__ import annotations

from typing import Final

from actors.controller.decisions.decision import NewId
from placement.metadata import ClusterMetadata

NO_ID: Final = bytes(16)


def unused_id(metadata: ClusterMetadata, new_id: NewId) -> bytes:
    """An id that no topic has."""
    while (made := new_id()) == NO_ID or made in metadata.names:
        pass
    return made
