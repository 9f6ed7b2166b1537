"""The versions of our own protocols that a process speaks, and the one that two processes use.

One number stands for all links: control, replication, relay and member. Each end of a connection says the range that
it speaks, and its build, before anything else; the highest version that both speak is used. If there is none, both
ends say so, with both ranges and both builds, and the connection ends. A process is told what its starter speaks, too.

| version | what is different |
| --- | --- |
| 0 | nothing is said of versions; arrays have exact lengths, and messages of other kinds end a connection |
| 1 | versions are told; unknown fields are ignored, and unknown kinds refused by name |
| 2 | brokers tell which data directory they have, and ask each other for sound batches in the place of damaged ones |
| 3 | brokers may be removed, by the word of a client, too, or be drained; they tell what followers still lack |
| 4 | the voters of a quorum of controllers speak with one another |
| 5 | the quorum's voters are described, added and removed, and learn of another secret; brokers tell who has hung up |

The level of the feature `metadata.version` says in which formats the metadata may be written, in the log and in images.
A level is raised only when all brokers speak a version that knows it; from then on the controller speaks no older one.

A change that an older build would not understand takes a new version, LAST: a field by `codec.since`, a kind by the
`since` of its codec. One new version is enough for all changes of a release. FIRST rises only when a release gives up
rolling upgrades from those before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actors import __version__
from actors.links.codec import Codec, LinkError

FIRST: Final = 0
LAST: Final = 5
_BUILD_MAX: Final = 32
_METADATA_LEVELS: Final = (1, 2, 3, 4, 5, 6)
"""The highest level of the metadata that a build knows, by the last version that it speaks."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """The versions that a process speaks, both inclusive, and its build. The default is that of who says nothing."""

    first: int = 0
    last: int = 0
    build: str = ""

    def __str__(self) -> str:
        if not self.build:
            return f"(an old build, which does not say so) speaks version {self.last}"
        versions = f"version {self.last}" if self.first == self.last else f"versions {self.first} to {self.last}"
        return f"(build {self.build}) speaks {versions}"


UNTOLD: Final = Spoken()
"""Of builds from before versions were told."""
OWN: Final = Spoken(FIRST, LAST, __version__[:_BUILD_MAX])


class VersionError(LinkError, ConnectionError):
    """Two ends have no version in common. The text names both builds and both ranges."""


def common(one: Spoken, other: Spoken) -> int | None:
    """The version that both use; None if they have none in common."""
    last = min(one.last, other.last)
    return last if last >= max(one.first, other.first) else None


def level_of(spoken: Spoken) -> int:
    """The highest level of the metadata that an end knows, as far as this build can tell."""
    return _METADATA_LEVELS[min(spoken.last, LAST)]


def at_level(level: int) -> Spoken:
    """The versions that a controller speaks when the metadata has this level: only those that know it."""
    first = next(version for version, known in enumerate(_METADATA_LEVELS) if known >= level)
    return Spoken(max(first, FIRST), LAST, OWN.build)


def none_in_common(us: str, own: Spoken, them: str, other: Spoken) -> str:
    """The reason why two ends cannot speak with each other, for the logs of both."""
    return f"no version of our protocols in common: this {us} {own}, and the {them} {other}"


def check_starter(starter: Spoken) -> None:
    """Raise VersionError if this process has no version in common with the one that had it started.

    The code of another build may be installed on this node, or since that process began.
    """
    if common(OWN, starter) is None:
        text = none_in_common("process", OWN, "one that has it started", starter)
        raise VersionError(f"{text}: install the same version on every Ray node")


# --- as it travels ---

_CODEC: Final[Codec[Spoken]] = Codec("versions", {1: Spoken})


def encoded(spoken: Spoken) -> bytes:
    """The bytes in which an end tells its versions and its build: at most 48."""
    return _CODEC.encode(spoken)


def decoded(body: bytes) -> Spoken:
    """The versions and the build that these bytes tell; UNTOLD if there are none. Raises LinkError."""
    return _CODEC.decode(body) if body else UNTOLD
