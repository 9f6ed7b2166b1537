"""The error of a controller that is asked for something that only the one that leads can do."""

from __future__ import annotations

from actors import CoterieError


class NotControllerError(CoterieError):
    """Another controller leads, or has begun to.

    Raised before anything is done, nothing has been done. Raised for a commit under way, nobody has heard of it, but
    it may be decided under the next controller all the same.
    """
