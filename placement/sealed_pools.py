"""The versions of deployed pools that may run: those the controller has sealed, made of records like all metadata.

A version that is not here does not run, whatever stands in the topic `__coterie_pools`: it was replaced, or its pool
was stopped, or it was deployed under another name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, TypeAlias

from placement.arrays import IN_PLACE


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


@dataclass(frozen=True, slots=True)
class PoolSealedRecord:
    """These versions of a pool may run, and no others."""

    KIND: ClassVar = "pool"
    VERSION: ClassVar = 0

    name: str
    pool: Annotated[SealedPool, IN_PLACE]


@dataclass(frozen=True, slots=True)
class PoolStoppedRecord:
    """No version of the pool may run."""

    KIND: ClassVar = "pool_stopped"
    VERSION: ClassVar = 0

    name: str


@dataclass(frozen=True, slots=True)
class PoolsSealedAnewRecord:
    """Pools that were sealed without their names have been read, and are believed no longer."""

    KIND: ClassVar = "pools_sealed_anew"
    VERSION: ClassVar = 0


@dataclass(frozen=True, slots=True)
class PoolsKeyRecord:
    """The key of the seals on pools' versions. Only controllers have it."""

    KIND: ClassVar = "pools_key"
    VERSION: ClassVar = 0

    key: bytes = field(repr=False)


PoolRecord: TypeAlias = PoolSealedRecord | PoolStoppedRecord | PoolsSealedAnewRecord | PoolsKeyRecord


@dataclass(slots=True)
class SealedPools:
    """The pools of a cluster by their names."""

    by_name: dict[str, SealedPool] = field(default_factory=dict)
    anew: bool = False
    """True once pools that were sealed without their names have been read: such seals are believed no longer."""
    key: bytes = field(default=b"", repr=False)
    """The key of the seals; empty if it is in a file of the controller's."""

    def apply(self, record: PoolRecord) -> None:
        """Apply a record."""
        match record:
            case PoolSealedRecord(name, pool):
                self.by_name[name] = pool
            case PoolStoppedRecord(name):
                del self.by_name[name]
            case PoolsSealedAnewRecord():
                self.anew = True
            case PoolsKeyRecord(key):
                self.key = key

    def records(self) -> tuple[PoolRecord, ...]:
        """All of it as records."""
        records: list[PoolRecord] = [PoolSealedRecord(name, pool) for name, pool in self.by_name.items()]
        if self.anew:
            records.append(PoolsSealedAnewRecord())
        if self.key:
            records.append(PoolsKeyRecord(self.key))
        return tuple(records)

    def copy(self) -> SealedPools:
        """The same, of which a change does not reach these."""
        return SealedPools(dict(self.by_name), self.anew, self.key)
