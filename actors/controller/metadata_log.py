"""The log, at the place where the methods of controllers of 0.1.0 look for it.

When Ray starts a controller again, it has the methods of its first process; all that they name is what is installed
now. So this stays until no cluster is left that was started with them.
"""

from __future__ import annotations

from actors.controller.metadata import standalone
from placement.metadata import ClusterMetadata


class MetadataLog(standalone.StandaloneLog):
    """The log, by its former names."""

    @property
    def metadata(self) -> ClusterMetadata:
        """The decided metadata."""
        return self.decided
