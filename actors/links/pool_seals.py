"""The questions of programs on a cluster's Ray to its controller about deployed pools, and the answers.

They travel by Ray's call of the controller: whoever has Ray's token may ask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from placement.sealed_pools import SealedVersion


@dataclass(frozen=True, slots=True)
class Seal:
    """Seal a version that is about to be deployed. The answer is its seal."""

    name: str
    version: SealedVersion


@dataclass(frozen=True, slots=True)
class MayRun:
    """Say whether a version that stands in the topic may run. The answer is Verdict."""

    name: str
    version: SealedVersion
    seal: bytes


@dataclass(frozen=True, slots=True)
class Proven:
    """A version works: it may be gone back to until the next one does. The answer is Verdict."""

    name: str
    version: SealedVersion


@dataclass(frozen=True, slots=True)
class Ended:
    """A pool was stopped: nothing of this incarnation runs again. An empty one stands for any."""

    name: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class OnlyThese:
    """The topic has pools of these names and no others: the others have been stopped."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Newest:
    """Ask which version of a pool is the newest. The answer is a SealedVersion, or None."""

    name: str


@dataclass(frozen=True, slots=True)
class Old:
    """A version in the topic, with the digest and the seal of the releases that did not seal names."""

    name: str
    version: SealedVersion
    digest: bytes
    seal: bytes
    good: bool
    """True if it stands there as the one to go back to."""


@dataclass(frozen=True, slots=True)
class SealAnew:
    """Seal what earlier releases have sealed. It is done once. The answer has the new seals by digests."""

    versions: tuple[Old, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`refusal` says for people why not; it is empty if the version may run."""

    refusal: str = ""


Wish: TypeAlias = Seal | MayRun | Proven | Ended | OnlyThese | Newest | SealAnew
Answer: TypeAlias = bytes | Verdict | SealedVersion | dict[bytes, bytes] | None
