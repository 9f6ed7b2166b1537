"""The error of a controller that is asked for something that only the one that leads can do."""

from __future__ import annotations

from actors import CoterieError


class NotControllerError(CoterieError):
    """Another controller has begun: what this one has decided since is dropped, and nobody has heard of it."""
