"""The kinds of coordinators that are hosted. A new kind is entered here."""

from __future__ import annotations

from typing import Final

from actors.coordinator_kinds.groups import GROUPS
from actors.coordinator_kinds.kind import CoordinatorKind

KINDS: Final[tuple[CoordinatorKind, ...]] = (GROUPS,)
"""A process that is not told what to host hosts the first one."""
