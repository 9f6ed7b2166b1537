"""The allocation of producer ids to brokers, in blocks."""

from __future__ import annotations

from typing import Final

from actors.controller.decisions.decision import Decision, NewId
from actors.links.operations import AllocateProducerIds, ProducerIds
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata
from placement.records import ProducerIdsRecord

PRODUCER_ID_BLOCK: Final = 1000


def allocate_producer_ids(
    metadata: ClusterMetadata, config: BrokerConfig, asked: AllocateProducerIds, new_id: NewId
) -> Decision:
    """A block of producer ids, which nobody else is ever given once the record has committed."""
    first = metadata.next_producer_id
    return ProducerIds(first, PRODUCER_ID_BLOCK), [ProducerIdsRecord(first + PRODUCER_ID_BLOCK)]
