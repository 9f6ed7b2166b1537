"""The features of KIP-584, by whose levels Kafka's tools see what a cluster can do. One can be changed: OURS.

The levels of Kafka's features mean what they mean in Kafka. A feature that is not there has level 0, as if it were off.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from placement.records import METADATA_LEVELS

OURS: Final = "coterie.metadata.version"
"""In which formats our controller may write the metadata: what `metadata.version` is in Kafka, with levels of our own.

In the metadata it has Kafka's name. To Kafka's tools that says what a cluster can do, by the levels of their releases.
"""


class Feature(NamedTuple):
    """The levels that are supported, and the finalized one, which is in force. 0 means off."""

    first: int
    last: int
    level: int


# 27 is the number of 4.1-IV1, the last metadata.version of the Kafka release whose protocol is served.
FEATURES: dict[str, Feature] = {
    "eligible.leader.replicas.version": Feature(1, 1, 1),
    "group.version": Feature(0, 0, 0),
    "kraft.version": Feature(0, 0, 0),
    "metadata.version": Feature(27, 27, 27),
    "share.version": Feature(0, 0, 0),
    "transaction.version": Feature(0, 0, 0),
}


def features(level: int) -> dict[str, Feature]:
    """All features of a cluster whose metadata has this level."""
    return {OURS: Feature(METADATA_LEVELS[0], METADATA_LEVELS[-1], level)} | FEATURES
