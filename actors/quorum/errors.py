"""Errors of a voter."""

from __future__ import annotations

from actors import CoterieError


class QuorumError(CoterieError):
    """Voters do what the rules exclude. It is a bug, or a disk that lost what it said it had; the voter must stop."""


class NotLeaderError(CoterieError):
    """This voter does not lead, so nothing can be decided here."""


class ChangeRefusedError(CoterieError):
    """The set of voters cannot be changed in this way, or not yet; the text says why."""


class DamagedError(CoterieError):
    """A voter's disk has something that no voter writes."""
