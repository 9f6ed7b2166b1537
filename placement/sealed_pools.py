"""Which versions of deployed pools may run: what the controller has sealed, made of records like all metadata.

A version that is not here does not run, whatever stands in the topic `__coterie_pools`: it was replaced, or its pool
was stopped, or it was deployed under another name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

SEALED: Final = "pool"
STOPPED: Final = "pool_stopped"
ANEW: Final = "pools_sealed_anew"
KINDS: Final = (SEALED, STOPPED, ANEW)


@dataclass(frozen=True, slots=True)
class SealedVersion:
    """One version of a pool. `digest` is that of all it says."""

    incarnation: str
    version: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class SealedPool:
    """The versions of one pool that may run."""

    newest: SealedVersion | None
    """The last one that was seen in the topic."""
    coming: SealedVersion | None = None
    """One that was sealed after it, and has not been seen there yet."""
    good: SealedVersion | None = None
    """The one that is gone back to."""

    @property
    def allowed(self) -> tuple[SealedVersion, ...]:
        """All that may run."""
        return tuple(each for each in (self.newest, self.coming, self.good) if each is not None)

    def without(self, incarnation: str) -> SealedPool:
        """The same when this incarnation has been stopped."""

        def kept(each: SealedVersion | None) -> SealedVersion | None:
            return None if each is None or each.incarnation == incarnation else each

        return SealedPool(kept(self.newest), kept(self.coming), kept(self.good))

    def arrived(self, version: SealedVersion) -> SealedPool:
        """The same when the version that was coming is in the topic."""
        good = self.good if self.good is not None and self.good.incarnation == version.incarnation else None
        return SealedPool(version, None, good)

    def proven(self, version: SealedVersion) -> SealedPool:
        """The same when this version has proved to work."""
        return replace(self, good=version)


@dataclass(slots=True)
class SealedPools:
    """The pools of a cluster by their names."""

    by_name: dict[str, SealedPool] = field(default_factory=dict)
    anew: bool = False
    """Whether pools that were sealed without their names have been read, and are believed no longer."""

    def apply(self, kind: str, values: list[Any]) -> None:
        """Apply a record of one of `KINDS`."""
        if kind == ANEW:
            self.anew = True
        elif kind == STOPPED:
            del self.by_name[values[0]]
        else:
            name, *versions = values
            self.by_name[name] = SealedPool(*(None if each is None else SealedVersion(*each) for each in versions))

    def to_wire(self) -> list[Any]:
        """All of it as records."""
        records = [sealed_record(name, pool) for name, pool in self.by_name.items()]
        return [*records, [ANEW]] if self.anew else records


def sealed_record(name: str, pool: SealedPool) -> list[Any]:
    """The record by which these versions of a pool may run, and no others."""
    rows = [
        None if each is None else [each.incarnation, each.version, each.digest]
        for each in (pool.newest, pool.coming, pool.good)
    ]
    return [SEALED, name, *rows]
