"""The features of KIP-584, by whose levels Kafka's tools see what a cluster can do. Here they cannot be changed.

The levels mean what they mean in Kafka. What does not exist here has level 0, as if it were off.
"""

from __future__ import annotations

from typing import NamedTuple


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
