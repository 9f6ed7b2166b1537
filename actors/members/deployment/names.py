"""The topic and the Ray namespace of deployed pools, for whoever only has to look whether there are any."""

from __future__ import annotations

from typing import Final

from placement.metadata import POOLS_TOPIC

TOPIC: Final = POOLS_TOPIC
NAMESPACE: Final = "coterie-pools"
"""The Ray namespace of the supervisors."""
