"""The start parameters of a Monitor: bytes of a codec, which another build can read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from actors.links.codec import Codec
from actors.links.versions import Spoken
from actors.runtime.logs import LogPlace


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
        """The folder of the Monitor's files."""
        return Path(self.data_dir) / "monitor"


@dataclass(frozen=True, slots=True)
class MonitorStart:
    """All that a Monitor's actor is told: by a process that speaks `starter`."""

    starter: Spoken
    spec: MonitorSpec
    logs: LogPlace

    def encoded(self) -> bytes:
        """As it goes through Ray."""
        return _CODEC.encode(self)

    @classmethod
    def decoded(cls, encoded: bytes) -> Self:
        """The inverse of `encoded`. Raises LinkError."""
        return _CODEC.read(cls, encoded)


_CODEC: Final[Codec[MonitorStart]] = Codec("start", {1: MonitorStart})
