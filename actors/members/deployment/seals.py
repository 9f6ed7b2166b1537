"""The seals of deployed pools as a steward and programs see them. The pool's home gives them."""

from __future__ import annotations

from typing import Final, Protocol

from actors.members.deployment.records import Deployment, digest_of
from placement.sealed_pools import SealedVersion


class Seals(Protocol):
    """Decides which versions may run here. All methods raise ConnectionError if nobody can tell now."""

    def check(self, name: str, deployment: Deployment) -> None:
        """Raise PoolError for what is not to be run as this pool."""

    def proven(self, name: str, deployment: Deployment) -> None:
        """A version works: it may be gone back to. Raises PoolError if it may not run any more."""

    def ended(self, name: str, incarnation: str) -> None:
        """A pool was stopped; an empty incarnation stands for any. Nothing of it runs again."""


def sealable(deployment: Deployment) -> SealedVersion:
    """The part of a version that is sealed."""
    return SealedVersion(deployment.incarnation, deployment.version, digest_of(deployment))


class _Unsealed:
    def check(self, name: str, deployment: Deployment) -> None:
        pass

    def proven(self, name: str, deployment: Deployment) -> None:
        pass

    def ended(self, name: str, incarnation: str) -> None:
        pass


UNSEALED: Final[Seals] = _Unsealed()
"""The seals of a Ray that has none: every version may run."""
