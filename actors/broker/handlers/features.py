"""The features of KIP-584, by whose levels Kafka's tools see what a cluster can do. One can be changed: OURS.

The levels of Kafka's features mean what they mean in Kafka. A feature that is not there has level 0, as if it were off.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from actors.broker.context import BrokerContext
from actors.coordinator.consumer.values import CONSUMER
from placement.records import METADATA_LEVELS, VERSIONED

OURS: Final = "coterie.metadata.version"
"""The formats in which our controller may write the metadata: Kafka's `metadata.version`, with levels of our own.

In the metadata it has Kafka's name. To Kafka's tools that says what a cluster can do, by the levels of their releases.
"""


class Feature(NamedTuple):
    """The levels that are supported, and the finalized one, which is in force. 0 means off."""

    first: int
    last: int
    level: int


# 33 is the number of 4.4-IV2, the last metadata.version of the Kafka release whose protocol is served.
FEATURES: dict[str, Feature] = {
    "eligible.leader.replicas.version": Feature(1, 1, 1),
    "kraft.version": Feature(0, 0, 0),
    "metadata.version": Feature(33, 33, 33),
    "share.version": Feature(0, 0, 0),
    "transaction.version": Feature(0, 0, 0),
}


PROTOCOLS: Final = "group.coordinator.rebalance.protocols"
GROUPS: Final = "group.version"
"""The feature of consumer groups (KIP-848). The level of the metadata decides, so nobody changes it by itself."""


def features(level: int) -> dict[str, Feature]:
    """All features of a cluster whose metadata has this level."""
    ours = Feature(METADATA_LEVELS[0], METADATA_LEVELS[-1], level)
    return {OURS: ours, GROUPS: Feature(0, 1, group_version(level))} | FEATURES


def group_version(level: int) -> int:
    """The level of `group.version`: 0 while a process of the cluster may not know the records of consumer groups."""
    return int(level >= VERSIONED)


def serves_consumer_groups(broker: BrokerContext) -> bool:
    """True if consumer groups are served: the cluster can, and the broker's settings allow it."""
    return broker.metadata.level >= VERSIONED and CONSUMER in broker.config[PROTOCOLS]
