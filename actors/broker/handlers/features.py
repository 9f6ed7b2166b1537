"""The features of KIP-584: levels that Kafka's tools read and, in Kafka, can change. Here each stands where it stands.

What a level means is Kafka's. What is not there at all has level 0, as in a Kafka that has not switched it on.
"""

from __future__ import annotations

from typing import NamedTuple


class Feature(NamedTuple):
    """The levels that are supported, and the one in force (finalized); 0 is off, and no level to a client."""

    first: int
    last: int
    level: int


# 27 is what 4.1-IV1 is called on the wire: the last metadata.version of the Kafka whose protocol is served.
FEATURES: dict[str, Feature] = {
    "eligible.leader.replicas.version": Feature(1, 1, 1),
    "group.version": Feature(0, 0, 0),
    "kraft.version": Feature(0, 0, 0),
    "metadata.version": Feature(27, 27, 27),
    "share.version": Feature(0, 0, 0),
    "transaction.version": Feature(0, 0, 0),
}
