"""The messages of a quorum's voters on the control link (`actors.quorum`). A voter connects to the others' controllers.

Each message travels in one that names both voters. So a connection knows nothing of who speaks on it: an answer may
come on it or on another, and a node whose directory has changed is told apart by each message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from actors.quorum.log import VoterId
from actors.quorum.messages import (
    Append,
    Appended,
    InstallSnapshot,
    Leads,
    Message,
    Taken,
    Vote,
    Voted,
    WhoLeads,
)
from placement.metadata import ControllerInfo


@dataclass(frozen=True, slots=True)
class BetweenVoters:
    """Voter -> voter: a message, with both of them."""

    sender: VoterId
    to: VoterId
    message: Message


@dataclass(frozen=True, slots=True)
class ControllerAt:
    """Voter -> the one that leads: brokers and other controllers find this voter here."""

    controller: ControllerInfo


_Class: TypeAlias = type[BetweenVoters] | type[ControllerAt] | type[Message]

CLASSES: Final[Mapping[int, _Class]] = {
    20: BetweenVoters,
    21: Vote,
    22: Voted,
    23: Append,
    24: Appended,
    25: InstallSnapshot,
    26: Taken,
    27: WhoLeads,
    28: Leads,
    29: ControllerAt,
}
SINCE: Final[Mapping[type, int]] = dict.fromkeys(CLASSES.values(), 4)
"""The version of our protocols that they came with (`versions`)."""
