"""The group of another type in whose place a consumer group is made, until the records that say so have committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from actors.coordinator.consumer.messages import Refusal
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.errors import Error
from actors.coordinator.groups.durable import GroupChange
from actors.coordinator.groups.group import Group
from actors.coordinator.turn import Now, Token


class Replaced(Protocol):
    """The group that was there before."""

    @property
    def group(self) -> Group:
        """It, which comes back if nothing is written."""

    @property
    def changes(self) -> Sequence[GroupChange]:
        """The changes that are written before anything else: its tombstones, and the records that are kept of it."""

    @property
    def state(self) -> ConsumerState:
        """The consumer group by these alone, in which they need not be replayed."""

    @property
    def is_settled(self) -> bool:
        """True if its members have all that is theirs. Otherwise a target is due, whoever joins."""

    @property
    def sessions(self) -> Mapping[str, int]:
        """Until when (monotonic, in ms) its members have to be heard, of those whose sessions run."""

    def gone(self, now: Now) -> None:
        """They have committed."""

    def back(self, now: Now) -> None:
        """Nothing was written: it goes on as if nothing had happened."""


class Upgrades(Protocol):
    """Makes consumer groups of groups of other types that have members."""

    def replacing(self, group: Group, token: Token, now: Now) -> Replaced | Refusal | None:
        """The replacement of a group for a member that joins it, or the reason why there can be none.

        None: the request is carried out later.
        """


class NoUpgrades:
    """Groups that have members stay what they are."""

    def replacing(self, group: Group, token: Token, now: Now) -> Refusal:
        return no_consumer_group(group.group_id)


def no_consumer_group(group_id: str) -> Refusal:
    """The refusal of a group of another type."""
    return Refusal(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is no consumer group.")


class ReplacedEmpty:
    """A group without members, of which nothing is kept but its offsets."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.changes = group.tombstones()
        self.state = ConsumerState()
        self.is_settled = True
        self.sessions: Mapping[str, int] = {}

    def gone(self, now: Now) -> None:
        for timer in self.group.timers():
            timer.cancel()

    def back(self, now: Now) -> None:
        """Its timers have not been stopped."""
