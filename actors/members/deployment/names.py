"""What deployed pools are called, for whoever only has to look whether there are any."""

from __future__ import annotations

from typing import Final

TOPIC: Final = "__coterie_pools"
NAMESPACE: Final = "coterie-pools"
"""The Ray namespace of the supervisors."""
