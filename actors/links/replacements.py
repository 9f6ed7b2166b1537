"""The outlook of a broker's replacement, as `coterie brokers replace` shows it. It goes through Ray, pickled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outlook:
    """The replacement of a broker, before it is decided. `refused` says why it cannot be; None if it can."""

    broker_id: int
    partitions: int
    """The number of partitions that it holds, which will be filled again from other brokers."""
    sole_copies: tuple[str, ...]
    """The partitions of which no other broker has everything that has committed: they would be given up."""
    refused: str | None = None
    copies_away: tuple[str, ...] = ()
    """The partitions whose other copies are on brokers that are away: they are gone if those disks are lost, too."""
