"""What a Monitor is told when it is started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class MonitorSpec:
    """The cluster that it looks at. Of the secret only the file's name is sent: it is on the controller's node."""

    name: str
    namespace: str
    data_dir: str
    """The cluster's own."""
    secret_file: str
    config: dict[str, str]

    @property
    def folder(self) -> Path:
        """Where the Monitor keeps its files."""
        return Path(self.data_dir) / "monitor"
