"""The start parameters of an offsets partition's process: bytes of a codec, which another build can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from actors.links.codec import Codec
from actors.links.versions import Spoken
from actors.runtime.logs import LogPlace


@dataclass(frozen=True, slots=True)
class ShardStart:
    """All that its actor is told: by a process that speaks `starter`. It offers itself at the socket of its broker."""

    starter: Spoken
    socket_path: str
    name: str
    logs: LogPlace
    broker_id: int
    niceness: int = 0
    """The niceness that it asks for; 0: none."""

    def encoded(self) -> bytes:
        """As it goes through Ray."""
        return _CODEC.encode(self)

    @classmethod
    def decoded(cls, told: bytes) -> Self:
        """The inverse of `encoded`. Raises LinkError."""
        return _CODEC.read(cls, told)


_CODEC: Final[Codec[ShardStart]] = Codec("start", {1: ShardStart})
