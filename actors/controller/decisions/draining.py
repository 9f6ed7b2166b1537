"""Brokers whose Ray nodes are drained: who leads instead of them.

Functions of the cluster's metadata: they return records, and apply nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from actors.controller.decisions.elections import led_elsewhere
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata
from placement.records import Record


def drained_led_elsewhere(metadata: ClusterMetadata, config: BrokerConfig, present: Collection[int]) -> list[Record]:
    """Others that are in sync lead what brokers on drained nodes lead: those that stay, else one that is being removed.

    Only those `present` do: of a broker that has not come to this controller yet nobody knows whether it lives.
    """
    if not metadata.draining:
        return []
    stay = {broker.id for broker in metadata.placeable()}.intersection(present)
    last = {broker.id for broker in metadata.alive()}.intersection(present) - metadata.draining
    return led_elsewhere(metadata, config, metadata.draining, [stay, last])
