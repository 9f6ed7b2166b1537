"""The table of guests: every kind that a broker has beside its logs. A new kind is a room of its own and a row here."""

from __future__ import annotations

from typing import Final

from actors.broker.beside.guest import GuestKind

GUESTS: Final[tuple[GuestKind, ...]] = ()
