"""The methods of an order of work that the loop of a member calls, whichever order it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from actors.client import TopicPartition

POLL_MS = 200
Parts = Sequence[tuple[TopicPartition, Any]]
"""The result of a poll: partitions, and their records."""


class Order(Protocol):
    """Takes what was polled and has it handled. All methods but `wind_down` are for the member's thread."""

    def poll_ms(self) -> int:
        """The milliseconds that the next poll may wait for records."""
        ...

    def take(self, parts: Parts) -> None:
        """Handle these records, or see to it that they are. Raises what stops the member."""
        ...

    def gain(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions are assigned, anew: also those that have just been given up, or lost with their topic."""
        ...

    def give_up(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions get other owners: end, or leave, what is in hand of them."""
        ...

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions have other owners already."""
        ...

    def wind_down(self) -> None:
        """The member is to stop, says some thread."""
        ...

    def end(self) -> None:
        """End, or leave, all that is in hand."""
        ...
